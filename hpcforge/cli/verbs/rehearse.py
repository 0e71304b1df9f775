"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options

rehearse = typer.Typer(help="Start, look at, enter and take down a rehearsal: nspawn nodes on this machine (as root).")


def register(app: typer.Typer) -> None:
    """Add the verb and its own."""
    app.add_typer(rehearse, name="rehearse", no_args_is_help=True)


@rehearse.command(epilog="Example: hpcforge rehearse up blueprints/rehearsal.yaml")
def up(blueprint: options.Blueprint, lab: options.LabName = None) -> int:
    """Start the nodes of a blueprint. What runs already is left running."""
    from hpcforge.cli import rehearse as work

    return work.up(blueprint, lab)


@rehearse.command(epilog="Example: hpcforge rehearse status")
def status(lab: options.LabName = None, as_json: options.Json = False) -> int:
    """Show the nodes of a rehearsal, and whether they run."""
    from hpcforge.cli import rehearse as work

    return work.status(lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse ssh head -- sinfo")
def ssh(
    node: Annotated[str, typer.Argument(help="The node.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command and its arguments, or one shell text; none gives a shell.")
    ] = None,
    lab: options.LabName = None,
) -> int:
    """Log in to a node as the blueprint's access user, with its host key checked."""
    from hpcforge.cli import rehearse as work

    return work.ssh(node, command, lab)


@rehearse.command(epilog="Example: hpcforge rehearse down; or, to stop one node: hpcforge rehearse down w02")
def down(
    nodes: Annotated[
        str | None,
        typer.Argument(help="A hostlist: stop these, keep their disks. Default: remove the whole rehearsal."),
    ] = None,
    disks: Annotated[
        bool, typer.Option("--disks", help="Their disks go, too: `up` then starts other machines under their names.")
    ] = False,
    lab: options.LabName = None,
) -> int:
    """Take a rehearsal down: exactly what it made on this machine is removed, or single nodes are stopped."""
    from hpcforge.cli import rehearse as work

    return work.down(nodes, disks, lab)
