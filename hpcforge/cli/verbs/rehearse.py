"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

from typing import Annotated

import typer

from hpcforge.cli import options

rehearse = typer.Typer(
    help="Start, look at, enter, save, restore and take down a rehearsal: nspawn nodes on this machine (as root)."
)


def register(app: typer.Typer) -> None:
    """Add the verb and its own."""
    app.add_typer(rehearse, name="rehearse", no_args_is_help=True)


_SaveName = Annotated[str, typer.Argument(help="The save's name.", metavar="NAME")]


@rehearse.command(epilog="Example: hpcforge rehearse up blueprints/rehearsal.yaml")
def up(blueprint: options.Blueprint, lab: options.LabName = None) -> int:
    """Start the nodes of a blueprint. What runs already is left running."""
    from hpcforge.cli import rehearse as work

    return work.up(blueprint, lab)


@rehearse.command(epilog="Example: hpcforge rehearse status")
def status(lab: options.LabName = None, as_json: options.Json = False) -> int:
    """Show the nodes of a rehearsal, whether they run, and its saves."""
    from hpcforge.cli import rehearse as work

    return work.status(lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse ssh head -- sinfo")
def ssh(
    node: Annotated[str, typer.Argument(help="The node.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, as ssh takes it: a shell on the node reads it. None: a shell."),
    ] = None,
    lab: options.LabName = None,
) -> int:
    """Log in to a node as the blueprint's access user, with its host key checked."""
    from hpcforge.cli import rehearse as work

    return work.ssh(node, command, lab)


@rehearse.command(epilog="Example: hpcforge rehearse save before-upgrade")
def save(
    name: _SaveName,
    replace: Annotated[bool, typer.Option("--replace", help="A save of this name goes.")] = False,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Keep a rehearsal as it is: its nodes are powered off, their disks set aside, and those that ran started again.

    Nothing is copied. Jobs are lost, as with any power-off: wait for them first.
    """
    from hpcforge.cli import rehearse as work

    return work.save(name, replace, lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse restore before-upgrade")
def restore(
    name: _SaveName,
    nodes: Annotated[
        list[str] | None, typer.Option("--nodes", help="A hostlist: these alone, the others stay as they are.")
    ] = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Have a rehearsal back as it was at a save: disks, host keys, and which nodes run. What came later is lost.

    Nodes that were not there at the save go; blueprints, roles and secrets on this machine stay as they are.
    """
    from hpcforge.cli import rehearse as work

    return work.restore(name, nodes, lab, as_json)


@rehearse.command(epilog="Example: hpcforge rehearse forget before-upgrade")
def forget(name: _SaveName, lab: options.LabName = None) -> int:
    """Remove a save. The nodes stay as they are."""
    from hpcforge.cli import rehearse as work

    return work.forget(name, lab)


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
