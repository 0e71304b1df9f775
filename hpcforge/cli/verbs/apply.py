"""`hpcforge apply`: change the nodes to match the blueprint, and prove that they work together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster", epilog="Example: hpcforge apply blueprints/rehearsal.yaml --yes"
    )(apply)


def apply(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    identity: options.Identity = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before changing nodes.")] = False,
    limit: options.Limit = None,
    exclude: options.Exclude = None,
    only: options.Only = None,
    force: options.Force = None,
    verify: options.Verify = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan", help="Apply exactly this plan, written by `plan -o`.", metavar="FILE", show_default=False
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --plan: change nothing if any node has changed since.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Rename what another cluster left in Slurm's folders, and go on.")
    ] = False,
    lock_timeout: Annotated[
        float,
        typer.Option("--lock-timeout", help="How long to wait for another run to end, s.", min=0, metavar="SECONDS"),
    ] = 0.0,
    trust: options.TrustNew = False,
    install: options.Install = None,
    wipe: options.Wipe = None,
    image: options.Image = None,
    proxy_dhcp: options.ProxyDhcp = False,
    as_json: options.Json = False,
) -> int:
    """Configure the nodes, then run the smoke tests. Safe to repeat.

    Shows the plan first and asks, unless --yes is given. Where nothing differs, nothing changes and nothing restarts.
    """
    from hpcforge.cli import apply as work

    return work.apply(
        blueprint=blueprint,
        inventory=inventory,
        lab=lab,
        identity=identity,
        yes=yes,
        limit=limit,
        exclude=exclude,
        only=only,
        force=force,
        verify=verify,
        plan_file=plan_file,
        strict=strict,
        take_over=take_over,
        lock_timeout=lock_timeout,
        trust=trust,
        install=options.InstallOptions(install, wipe or (), image, proxy_dhcp),
        as_json=as_json,
    )
