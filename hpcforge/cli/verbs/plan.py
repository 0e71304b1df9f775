"""`hpcforge plan`: what would change where, and why. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster",
        epilog="Examples: hpcforge plan blueprints/rehearsal.yaml -o rollout.plan\n\n"
        "hpcforge plan site.yaml --markdown > summary.md; gh pr comment -F summary.md",
    )(plan)


def plan(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    identity: options.Identity = None,
    limit: options.Limit = None,
    exclude: options.Exclude = None,
    only: options.Only = None,
    force: options.Force = None,
    verify: options.Verify = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the plan to a file for `apply --plan`.", metavar="FILE", show_default=False
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Contact no node: show the plan for empty nodes.")] = False,
    new_files: Annotated[bool, typer.Option("--new-files", help="Also show the content of new files.")] = False,
    trust: options.TrustNew = False,
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Print a summary for a merge request on GitHub or GitLab, with the plan in it."
        ),
    ] = False,
    install: options.Install = None,
    wipe: options.Wipe = None,
    image: options.Image = None,
    proxy_dhcp: options.ProxyDhcp = False,
    as_json: options.Json = False,
) -> int:
    """Show what `apply` would change, and why. Changes nothing.

    Exits with 2 if there are pending changes.
    """
    from hpcforge.cli import plan as work

    return work.plan(
        blueprint=blueprint,
        inventory=inventory,
        lab=lab,
        identity=identity,
        limit=limit,
        exclude=exclude,
        only=only,
        force=force,
        verify=verify,
        output=output,
        offline=offline,
        new_files=new_files,
        trust=trust,
        markdown=markdown,
        install=options.InstallOptions(install, wipe or (), image, proxy_dhcp),
        as_json=as_json,
    )
