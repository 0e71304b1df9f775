"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.failures import UsageError
from hpcforge.cli.program import typed
from hpcforge.cli.site import lab_name
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.lab import lab as labs
from hpcforge.report.apply_text import phases_line
from hpcforge.report.progress import Progress
from hpcforge.report.text import table

rehearse = typer.Typer(
    help="Start, look at, enter, save, restore and take down a rehearsal: nspawn nodes on this machine (as root)."
)


def register(app: typer.Typer) -> None:
    """Add the verb and its own."""
    app.add_typer(rehearse, name="rehearse", no_args_is_help=True)


@rehearse.command(epilog="Example: hpcforge rehearse up blueprints/rehearsal.yaml")
def up(blueprint: options.Blueprint, lab: options.LabName = None) -> int:
    """Start the nodes of a blueprint. What runs already is left running."""
    cluster = load(blueprint, None).cluster
    with Progress() as progress, progress.phase("nodes at ssh"):
        made = labs.up(
            _nodes(cluster),
            name=lab or lab_name(blueprint.parent),
            cidr_wanted=cluster.network.cidr,
            login_user=cluster.access.user,
            release=cluster.os.release,
            blueprint=blueprint.resolve(),
            network_name=cluster.network.name,
            progress=progress.say,
        )
    sys.stderr.write(phases_line(progress.phases))
    sys.stdout.write(_table(labs.status(made.name)))
    sys.stderr.write(f"Next: {typed('apply', blueprint, lab=lab)}\n")
    return Exit.DONE


@rehearse.command(epilog="Example: hpcforge rehearse status")
def status(lab: options.LabName = None, as_json: options.Json = False) -> int:
    """Show the nodes of a rehearsal, whether they run, and its saves."""
    found = labs.status(lab or lab_name(Path.cwd()))
    _print(found, as_json)
    return Exit.DONE


@rehearse.command(epilog="Example: hpcforge rehearse ssh head -- sinfo")
def ssh(
    node: Annotated[str, typer.Argument(help="The node.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command and its arguments, or one shell text; none gives a shell.")
    ] = None,
    lab: options.LabName = None,
) -> int:
    """Log in to a node as the blueprint's access user, with its host key checked."""
    name = lab or lab_name(Path.cwd())
    found = labs.load(name)
    if found is None:
        start = typed("rehearse", "up", "BLUEPRINT", lab=lab)
        raise UsageError(f"the rehearsal {name!r} is not up", f"start it: {start}")
    words = command or []
    argv = labs.ssh_argv(found, node, ["sh", "-c", words[0]] if len(words) == 1 else words)
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell: ssh takes the terminal over


_SaveName = Annotated[str, typer.Argument(help="The save's name.", metavar="NAME")]


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
    with Progress() as progress, progress.phase("save"):
        made = labs.save(lab or lab_name(Path.cwd()), name, progress.say, replace=replace)
    sys.stderr.write(phases_line(progress.phases))
    _print(labs.status(made.name), as_json)
    sys.stderr.write(f"Next: to have the rehearsal back as it is now: {typed('rehearse', 'restore', name, lab=lab)}\n")
    return Exit.DONE


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
    only = None if nodes is None else [node for text in nodes for node in _expanded(text)]
    with Progress() as progress, progress.phase("restore"):
        back = labs.restore(lab or lab_name(Path.cwd()), name, progress.say, nodes=only)
    sys.stderr.write(phases_line(progress.phases))
    _print(labs.status(back.name), as_json)
    sys.stderr.write(f"Next: {typed('plan', _from_here(Path(back.blueprint)), lab=lab)}\n")
    return Exit.DONE


@rehearse.command(epilog="Example: hpcforge rehearse forget before-upgrade")
def forget(name: _SaveName, lab: options.LabName = None) -> int:
    """Remove a save. The nodes stay as they are."""
    with Progress() as progress:
        labs.forget(lab or lab_name(Path.cwd()), name, progress.say)
    return Exit.DONE


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
    names = None if nodes is None else _expanded(nodes)
    with Progress() as progress:
        labs.down(lab or lab_name(Path.cwd()), names, progress.say, disks_too=disks)
    return Exit.DONE


def _expanded(hostlist: str) -> tuple[str, ...]:
    try:
        return expand(hostlist)
    except HostlistError as error:
        raise UsageError(f"{hostlist!r} {error}", error.hint or "write it like w[01-03]") from error


def _nodes(cluster: Cluster) -> list[labs.LabNode]:
    """The last worker comes without Python 3, as some machines do: first contact brings it."""
    bare = cluster.workers[-1].name if cluster.workers else None
    return [labs.LabNode(node.name, node.address, python=node.name != bare) for node in cluster.nodes]


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _print(found: labs.LabStatus, as_json: bool) -> None:
    sys.stdout.write(_json(found) if as_json else _table(found))


def _table(found: labs.LabStatus) -> str:
    rows = [[node.name, node.address, node.state] for node in found.nodes]
    text = f"rehearsal {found.lab.name}\n" + table(("node", "address", "state"), rows)
    if found.saves:
        kept = [[save.name, _when(save.saved_s), fold(save.nodes), f"{save.size_mib} MiB"] for save in found.saves]
        text += "\n" + table(("save", "when", "nodes", "on disk"), kept)
    if step := found.lab.under_way:
        verb = "restore" if step.step == "restored" else "save"
        text += f"{verb} {step.save} was cut off: run it again, or start the nodes with `rehearse up`\n"
    return text


def _json(found: labs.LabStatus) -> str:
    document = {
        "schema_version": 1,
        "name": found.lab.name,
        "cidr": found.lab.cidr,
        "nodes": [dataclasses.asdict(node) for node in found.nodes],
        "saves": [dataclasses.asdict(save) for save in found.saves],
    }
    return json.dumps(document) + "\n"


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
