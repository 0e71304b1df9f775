"""`hpcforge discover`: machines by their management controllers, into the inventory."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import completion, options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Operate the cluster",
        epilog="Example: hpcforge discover site.yaml 10.10.0.0/24, then 10.10.0.[11-42] --trust-new --assign w[01-32]",
    )(discover)


def discover(
    blueprint: options.Blueprint,
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            help="Addresses of management controllers: hostlists; or subnets, which are searched without a password. "
            "Default: those of the nodes.",
            show_default=False,
        ),
    ] = None,
    assign: Annotated[
        str | None,
        typer.Option(
            "--assign",
            help="Machines that are no node yet become these nodes, in the order of their addresses.",
            metavar="NODES",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None,
    trust_new: Annotated[
        bool,
        typer.Option(
            "--trust-new",
            help="Record the certificate of each controller that has none in the inventory, and log in there, "
            "but at no address that only a subnet names.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    inventory: options.Inventory = None,
    identity: options.Identity = None,
    as_json: options.Json = False,
) -> int:
    """Read serial, MACs, memory and GPUs of machines over Redfish.

    Adds what the inventory lacks, and never replaces what it has. Lists what differs from the blueprint.
    """
    from hpcforge.cli import discover as work

    return work.discover(
        blueprint=blueprint,
        addresses=addresses or (),
        assign=assign,
        trust_new=trust_new,
        dry_run=dry_run,
        inventory=inventory,
        identity=identity,
        as_json=as_json,
    )
