"""`hpcforge rehearse`: the blueprint's nodes on this one machine."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.hostlist import HostlistError, expand, fold
from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.image import bootable, image_request
from hpcforge.cli.rehearsals import named, named_one, one_of_all, parted, take
from hpcforge.cli.site import lab_kind, open_site, package_origins, real_networks, say_not_rehearsed, stood_in
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.people import number_of
from hpcforge.command_hint import command_line, from_here
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.image import store
from hpcforge.image.build import found_for
from hpcforge.image.disk import disk_of
from hpcforge.image.manifest import Manifest
from hpcforge.image.tree import tree_of
from hpcforge.lab import lab as labs
from hpcforge.lab.facts import subnet_for
from hpcforge.lab.kinds import KINDS
from hpcforge.lab.listing import ListedRehearsal, listed
from hpcforge.lab.names import default_lab_name
from hpcforge.rehearsal.node_choice import cards, chosen, drives
from hpcforge.rehearsal.package_sources import every
from hpcforge.rehearsal.stand_in_rules import login_user
from hpcforge.report import printing
from hpcforge.report.progress import Progress
from hpcforge.report.text import moment, phases_line, table
from hpcforge.secrets.secrets import default_identity_path


def up(blueprint: Path, lab: str | None, nodes: str | None, on: str | None, *, image: bool, start: bool = True) -> int:
    """Run `hpcforge rehearse up`. Returns the exit status."""
    loaded = load(blueprint, None, judged=True)
    real, cluster = not loaded.wants_lab, loaded.cluster
    if nodes is not None and not real:
        raise UsageError("a lab's blueprint is always rehearsed as a whole", "leave out --nodes")
    names = chosen(cluster, nodes) if real else tuple(cluster.by_name)
    user = login_user(cluster)
    name = lab or default_lab_name(blueprint)
    kind = _kind(loaded, name, on)
    KINDS[kind].check_distribution(cluster.os.name)
    planned = stood_in(loaded, None, name, default_identity_path(), nodes).cluster if real else cluster
    sources = every(package_origins(loaded, planned))
    found = _image(loaded, boots=KINDS[kind].BOOTS) if image and store.names() else None
    with Progress() as progress, progress.phase("nodes at ssh"):
        if found:
            progress.say(f"new nodes are made from image {found.name}")
        made = labs.up(
            _nodes(loaded, names, boots=KINDS[kind].BOOTS, bare=found is None),
            name=name,
            cidr_wanted=subnet_for(len(names)) if real else cluster.network.cidr,
            login_user=user,
            release=cluster.os.release,
            blueprint=blueprint.resolve(),
            network_name=cluster.network.name,
            progress=progress.say,
            tallies=progress.tally,
            login_uid=number_of(cluster.users, user),
            avoid=real_networks(cluster) if real else (),
            kind=kind,
            image=(disk_of if KINDS[kind].BOOTS else tree_of)(found, progress.say) if found else None,
            start=start,
            sources=sources,
        )
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    printing.result(_table(labs.status(made.name)), "states")
    if real:
        say_not_rehearsed(stood_in(loaded, made, made.name, default_identity_path()))
    elif sources and start:
        say_not_rehearsed(open_site(blueprint, None, made.name, None))
    if start:
        printing.note(f"Next: {command_line('apply', blueprint, lab=made.name if real else lab)}\n")
    return Exit.DONE


def status(words: list[str], lab: str | None, as_json: bool) -> int:
    """Run `hpcforge rehearse status`. Returns the exit status."""
    meant, rest = parted(words, lab)
    take(rest, 0, 0)
    _print(labs.status(one_of_all(meant)), as_json)
    return Exit.DONE


def list_(as_json: bool) -> int:
    """Run `hpcforge rehearse list`. Returns the exit status."""
    found = listed()
    if as_json:
        entries = [dataclasses.asdict(lab) for lab in found]
        printing.result(json.dumps({"schema_version": 1, "rehearsals": entries}, indent=2) + "\n")
    elif found:
        printing.result(table(("rehearsal", "nodes up", "since", "saves", "blueprint"), list(map(_row, found))))
    else:
        printing.note(f"There is none on this machine. Next: {command_line('rehearse', 'up', 'BLUEPRINT')}\n")
    return Exit.DONE


def save(words: list[str], replace: bool, lab: str | None, as_json: bool) -> int:
    """Run `hpcforge rehearse save`. Returns the exit status."""
    meant, rest = parted(words, lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress, progress.phase("save"):
        made = labs.save(one_of_all(meant), name, progress.say, replace=replace)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(made.name), as_json)
    again = named(Path(made.blueprint), made.name).typed("restore", name)
    printing.note(f"Next, to return the rehearsal to its present state: {again}\n")
    return Exit.DONE


def restore(words: list[str], nodes: list[str] | None, lab: str | None, as_json: bool) -> int:
    """Run `hpcforge rehearse restore`. Returns the exit status."""
    only = None if nodes is None else [node for text in nodes for node in _expanded(text)]
    meant, rest = parted(words, lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress, progress.phase("restore"):
        back = labs.restore(named_one(meant, "restore", name), name, progress.say, nodes=only)
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    _print(labs.status(back.name), as_json)
    blueprint = Path(back.blueprint)
    lab = named(blueprint, back.name).lab if _made_for_lab(blueprint) else back.name
    printing.note(f"Next: {command_line('plan', from_here(blueprint), lab=lab)}\n")
    return Exit.DONE


def forget(words: list[str], lab: str | None) -> int:
    """Run `hpcforge rehearse forget`. Returns the exit status."""
    meant, rest = parted(words, lab)
    (name,) = take(rest, 1, 1)
    with Progress() as progress:
        labs.forget(named_one(meant, "forget", name), name, progress.say)
    return Exit.DONE


def down(words: list[str], disks: bool, lab: str | None) -> int:
    """Run `hpcforge rehearse down`. Returns the exit status."""
    meant, rest = parted(words, lab)
    hostlist = next(iter(take(rest, 0, 1)), None)
    names = None if hostlist is None else _expanded(hostlist)
    name = named_one(meant, "down", *rest)
    with Progress() as progress:
        labs.down(name, names, progress.say, disks_too=disks)
    return Exit.DONE


def _kind(loaded: Loaded, name: str, on: str | None) -> LabKind:
    """What its nodes are to be: as was said, else as those that are there, else as the blueprint says."""
    if on is not None:
        if on not in KINDS:
            raise UsageError(f"{on!r} is not a kind of rehearsal", f"--on takes {' or '.join(KINDS)}")
        return next(kind for kind in KINDS if kind == on)
    there = labs.load(name)
    return lab_kind(loaded) if there is None else there.kind


def _image(loaded: Loaded, *, boots: bool) -> Manifest | None:
    """Return the image for new nodes. Nodes that boot no kernel can also use an image with one."""
    request = image_request(loaded)
    return (None if boots else found_for(request)) or found_for(bootable(loaded, request))


def _expanded(hostlist: str) -> tuple[str, ...]:
    try:
        return expand(hostlist)
    except HostlistError as error:
        raise UsageError(f"{hostlist!r} {error}", error.hint or "write it like w[01-03]") from error


def _nodes(loaded: Loaded, names: Sequence[str], *, boots: bool, bare: bool) -> list[labs.LabNode]:
    """These nodes, with their addresses or with those that the lab chooses; with cards and drives, if they boot.

    With `bare` the last worker comes without Python 3, as some machines do: bootstrap brings it.
    A real site's stand-ins have one plain network.
    """
    cluster, servers = loaded.cluster, loaded.catalog.servers
    nodes = [cluster.by_name[name] for name in names]
    without = [node.name for node in nodes if bare and "worker" in node.functions][-1:]
    return [
        labs.LabNode(
            node.name,
            node.address if loaded.wants_lab else None,
            python=node.name not in without,
            cards=cards(cluster, node) if boots and loaded.wants_lab else (),
            drives=drives(servers[node.hardware]) if boots else 0,
            release=cluster.os_of(node.name).release if node.platform else None,
        )
        for node in nodes
    ]


def _made_for_lab(blueprint: Path) -> bool:
    """Whether a blueprint alone means its rehearsal; one that cannot be read any more is taken for a real site's."""
    try:
        return load(blueprint).wants_lab
    except ExpectedError:
        return False


def _row(lab: ListedRehearsal) -> list[str]:
    blueprint = "-" if lab.blueprint is None else str(from_here(Path(lab.blueprint)))
    if lab.problem is not None:
        return [lab.name, "unknown", "-", "-", lab.problem]
    up = f"{len(lab.running)} of {len(lab.running) + len(lab.stopped)}"
    since = "-" if lab.since_s is None else moment(lab.since_s)
    return [lab.name, up, since, ", ".join(lab.saves) or "-", blueprint]


def _print(found: labs.LabStatus, as_json: bool) -> None:
    if as_json:
        printing.result(_json(found))
    else:
        printing.result(_table(found), "states")


def _table(found: labs.LabStatus) -> str:
    rows = [[node.name, node.address, node.state] for node in found.nodes]
    text = f"rehearsal {found.lab.name}\n" + table(("node", "address", "state"), rows)
    if found.saves:
        kept = [[save.name, moment(save.saved_s), fold(save.nodes), f"{save.size_mib} MiB"] for save in found.saves]
        text += "\n" + table(("save", "when", "nodes", "on disk"), kept)
    if step := found.lab.under_way:
        verb = "restore" if step.step == "restored" else "save"
        text += f"{verb} {step.save} was interrupted: run it again, or start the nodes with `rehearse up`\n"
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
