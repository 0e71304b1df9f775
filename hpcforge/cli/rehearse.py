"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.program import typed
from hpcforge.cli.site import lab_name
from hpcforge.cli.usage import UsageError
from hpcforge.cluster import load
from hpcforge.cluster.model import Cluster
from hpcforge.lab import lab as labs
from hpcforge.report import printing
from hpcforge.report.apply_text import phases_line
from hpcforge.report.progress import Progress
from hpcforge.report.text import table


def up(blueprint: Path, lab: str | None) -> int:
    """Do what the help of `hpcforge rehearse up` says; the exit status."""
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
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    printing.result(_table(labs.status(made.name)))
    printing.note(f"Next: {typed('apply', blueprint, lab=lab)}\n")
    return Exit.DONE


def status(lab: str | None, as_json: bool) -> int:
    """Do what the help of `hpcforge rehearse status` says; the exit status."""
    found = labs.status(lab or lab_name(Path.cwd()))
    _print(found, as_json)
    return Exit.DONE


def ssh(node: str, command: list[str] | None, lab: str | None) -> int:
    """Do what the help of `hpcforge rehearse ssh` says; the exit status."""
    name = lab or lab_name(Path.cwd())
    found = labs.load(name)
    if found is None:
        start = typed("rehearse", "up", "BLUEPRINT", lab=lab)
        raise UsageError(f"the rehearsal {name!r} is not up", f"start it: {start}")
    argv = [*labs.ssh_argv(found, node), *(command or ())]  # ssh joins the words, the shell there takes them apart
    printing.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - a list, no shell: ssh takes the terminal over


def save(name: str, replace: bool, lab: str | None, as_json: bool) -> int:
    """Do what the help of `hpcforge rehearse save` says; the exit status."""
    with Progress() as progress, progress.phase("save"):
        made = labs.save(lab or lab_name(Path.cwd()), name, progress.say, replace=replace)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(made.name), as_json)
    printing.note(f"Next: to have the rehearsal back as it is now: {typed('rehearse', 'restore', name, lab=lab)}\n")
    return Exit.DONE


def restore(name: str, nodes: list[str] | None, lab: str | None, as_json: bool) -> int:
    """Do what the help of `hpcforge rehearse restore` says; the exit status."""
    only = None if nodes is None else [node for text in nodes for node in _expanded(text)]
    with Progress() as progress, progress.phase("restore"):
        back = labs.restore(lab or lab_name(Path.cwd()), name, progress.say, nodes=only)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(back.name), as_json)
    printing.note(f"Next: {typed('plan', _from_here(Path(back.blueprint)), lab=lab)}\n")
    return Exit.DONE


def forget(name: str, lab: str | None) -> int:
    """Do what the help of `hpcforge rehearse forget` says; the exit status."""
    with Progress() as progress:
        labs.forget(lab or lab_name(Path.cwd()), name, progress.say)
    return Exit.DONE


def down(nodes: str | None, disks: bool, lab: str | None) -> int:
    """Do what the help of `hpcforge rehearse down` says; the exit status."""
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
    printing.result(_json(found) if as_json else _table(found))


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
