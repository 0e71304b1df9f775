"""Rehearsal clusters: up, status, save, restore, forget, down.

`up` records a lab before it makes anything on the host, so that `down` can remove a lab after any interruption. A save
or restore records its result in one step while no node runs, so an interrupted one can run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import yaml

from hpcforge.atomic import write_atomically
from hpcforge.host.commands import HostError, require_root, run
from hpcforge.host.paths import Progress, host_lock, remove_tree
from hpcforge.lab import network as subnets
from hpcforge.lab import packages, state, target_state
from hpcforge.lab.errors import LabError, UnknownKindError
from hpcforge.lab.kinds import KINDS, kind_of, require_programs
from hpcforge.lab.names import (
    check_lab_name,
    check_save_name,
    forget_lab_lock,
    lab_directory,
    lab_lock,
    lab_names,
    tag_for,
)
from hpcforge.lab.network import choose_subnet, parse_cidr
from hpcforge.lab.ssh import ssh_argv
from hpcforge.lab.state import Lab, LabNode, PlacedNode, Save, UnderWay
from hpcforge.lab.target_state import UpRequest
from hpcforge.tally import Tallies, silent


# Access to a lab's nodes: keys, host keys, inventory.
def make_key(lab: Lab) -> None:
    """Make the lab's own key pair if it is missing."""
    if not (lab.key.exists() and lab.key.with_name("key.pub").exists()):
        lab.key.unlink(missing_ok=True)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"hpcforge lab {lab.name}", "-f", lab.key)


def write_access_files(lab: Lab) -> None:
    """Write known_hosts of all nodes that were ever started, and the inventory of the blueprint's nodes."""
    keys = {node.name: key for node in lab.nodes if (key := kind_of(lab).host_key(lab, node)) is not None}
    lines = [f"{lab.node(name).address},{name} {key}\n" for name, key in keys.items()]
    write_atomically(lab.known_hosts, "".join(lines))
    inventory = {
        "schema": 1,
        "access": {"key": str(lab.key)},
        "networks": {lab.network: {"cidr": lab.cidr}},
        "nodes": {
            name: {"address": lab.node(name).address, "host_keys": [keys[name]]}
            for name in lab.in_blueprint
            if name in keys
        },
    }
    heading = f"# Written by `hpcforge rehearse up` for lab {lab.name}.\n"
    write_atomically(lab.inventory, heading + yaml.safe_dump(inventory, sort_keys=False, width=1000))


__all__ = [
    "Lab",
    "LabError",
    "LabNode",
    "LabNodeStatus",
    "LabStatus",
    "PlacedNode",
    "SaveStatus",
    "UpRequest",
    "down",
    "forget",
    "lab_names",
    "load",
    "restore",
    "runs",
    "save",
    "ssh_argv",
    "status",
    "up",
]

_AT_ONCE = 8  # nodes that start or stop at the same time


@dataclass(frozen=True)
class LabNodeStatus:
    """The present state of a node."""

    name: str
    state: Literal["running", "stopped"]
    address: str


@dataclass(frozen=True)
class SaveStatus:
    """A save: its time (seconds since 1970, UTC), its nodes, and the running ones.

    `size_mib` is the size of all its disks on the host, including disks that it shares with other saves.
    """

    name: str
    saved_s: float
    nodes: tuple[str, ...]
    running: tuple[str, ...]
    size_mib: int


@dataclass(frozen=True)
class LabStatus:
    """The present state of a lab."""

    lab: Lab
    nodes: tuple[LabNodeStatus, ...]
    saves: tuple[SaveStatus, ...]


def up(
    request: UpRequest,
    progress: Progress,
    *,
    tallies: Tallies = silent,
    image: AbstractContextManager[Path] | None = None,
    start: bool = True,
    sources: Sequence[str] = (),
) -> Lab:
    """Start a lab with these nodes, and wait until they answer on SSH.

    Running nodes are reused, stopped ones start with their disk and host key, new ones are added. `image` yields the
    tree for new nodes in place of a base system, and keeps it while it is open. `sources` are the only origins of
    packages that the nodes may fetch over TLS. `progress` gets a line for each action, `tallies` the counts of nodes.
    """
    check_lab_name(request.name)
    target_state.check(request)
    require_root()
    require_programs(KINDS[request.kind])
    with lab_lock(request.name, progress):
        with image or nullcontext() as tree:
            lab = _reach(_settle(request, tree, progress), sources, progress)
        cut_off = lab.under_way.start if lab.under_way else ()
        _run(lab, [*lab.in_blueprint, *cut_off] if start else (), progress, tallies)
        lab = state.ended(lab)
        state.save(lab)
        if others := [node.name for node in lab.nodes if node.name not in (*lab.in_blueprint, *cut_off)]:
            progress(f"not in the blueprint, left as they are: {', '.join(others)}")
    return lab


def status(name: str) -> LabStatus:
    """Return the state of a lab; `LabError` if it does not exist."""
    lab = _existing(name)
    sizes = kind_of(lab).disk_sizes_kib(lab, set().union(*(state.disks_of(save.nodes) for save in lab.saves)))
    saves = tuple(_save_status(save, sizes) for save in lab.saves)
    return LabStatus(lab, tuple(_status(lab, node) for node in lab.nodes), saves)


def save(name: str, save_name: str, progress: Progress, *, replace: bool = False) -> Lab:
    """Save the present lab under a name: power its nodes off, keep their disks, and start the same nodes again.

    Nothing is copied. With `replace` an older save of that name is removed.
    """
    check_save_name(save_name)
    with lab_lock(name, progress):
        lab = _existing(name)
        if not kind_of(lab).SAVES:
            raise LabError(f"a rehearsal on {lab.kind} keeps no saves", "use another kind: `rehearse up --on vm`")
        if not (lab.under_way and (lab.under_way.step, lab.under_way.save) == ("saved", save_name)):
            lab = _record_save(lab, save_name, replace, progress)
        return _finish(lab, progress)


def restore(name: str, save_name: str, progress: Progress, *, nodes: Sequence[str] | None = None) -> Lab:
    """Restore the lab to a save: disks, host keys, and running nodes. Later changes are lost.

    Newer nodes are removed. With `nodes`, only these are restored, and all others stay unchanged.
    """
    with lab_lock(name, progress):
        lab = _existing(name)
        back = state.restored(lab, lab.save(save_name), nodes)
        affected = [node for node in lab.nodes if nodes is None or node.name in nodes]
        for node in back.nodes:
            kind_of(back).check_disks(back, node)
        # Killed, not powered off: these disks are lost.
        _at_once(affected, lambda node: kind_of(lab).stop(lab, node, graceful=False))
        state.save(back)
        names = {node.name for node in back.nodes}
        for node in affected:
            if node.name not in names:
                progress(f"{node.name}: is not in save {save_name}, and was removed")
        return _finish(back, progress)


def forget(name: str, save_name: str, progress: Progress) -> None:
    """Remove a save, and its disks that no node and no other save uses."""
    with lab_lock(name, progress):
        lab = _existing(name)
        remaining = state.forgotten(lab, save_name)
        state.save(remaining)
        shared = state.disks_of(lab.save(save_name).nodes) & state.wanted_disks(remaining)
        kind_of(remaining).remove_other_disks(remaining, state.wanted_disks(remaining))
        still = "; some of its disks stay, since nodes or other saves use them" if shared else ""
        progress(f"save {save_name} is gone{still}")


def down(name: str, nodes: Sequence[str] | None, progress: Progress, *, disks_too: bool = False) -> None:
    """Stop some nodes but keep their disks, so that `up` starts them again; with None, remove the whole lab.

    With `disks_too` remove their disks, too: `up` makes new machines under their names.
    """
    check_lab_name(name)
    require_root()
    with lab_lock(name, progress):
        if nodes is None:
            _remove(name, progress)
            forget_lab_lock(name)
        else:
            lab = _existing(name)
            stopped = [lab.node(node) for node in dict.fromkeys(nodes)]
            _for_all(stopped, lambda node: _stop(lab, node, disks_too), progress)
            if disks_too:
                lab = state.without_disks(lab, nodes)
            lab = state.ended(lab, nodes)
            state.save(lab)
            kind_of(lab).remove_other_disks(lab, state.wanted_disks(lab))


def runs(lab: Lab, node: str) -> bool:
    """Return whether a node runs; `LabError` if the lab has no such node."""
    return kind_of(lab).running(lab, lab.node(node))


def load(name: str) -> Lab | None:
    """Return the lab of that name, up or not, or None."""
    check_lab_name(name)
    require_root()
    return state.read(name)


def _record_save(lab: Lab, save_name: str, replacing: bool, progress: Progress) -> Lab:
    """Power all nodes off and record the save."""
    state.check_save(lab, save_name, replacing=replacing)
    kind = kind_of(lab)
    if bare := [node.name for node in lab.nodes if kind.host_key(lab, node) is None]:
        raise LabError(f"node {bare[0]} was never started, so it has nothing to save", "`hpcforge rehearse up`")
    running = {node.name for node in lab.nodes if kind.running(lab, node)}
    running.update(lab.under_way.start if lab.under_way else ())  # nodes that an interrupted save has stopped
    lab = replace(lab, under_way=UnderWay("saving", save_name, tuple(running)))
    state.save(lab)
    _for_all([lab.node(name) for name in running], lambda node: _power_off(lab, node), progress)
    for node in lab.nodes:
        kind.stop(lab, node, graceful=True)  # the root of a node without power may still be mounted
        kind.written(lab, node)
    lab = state.saved(lab, save_name, saved_s=time.time(), running=running)
    state.save(lab)
    return lab


def _finish(lab: Lab, progress: Progress) -> Lab:
    """Finish a recorded save or restore."""
    with host_lock(progress):
        kind_of(lab).prepare_host()
    kind_of(lab).remove_other_disks(lab, state.wanted_disks(lab))  # before nodes boot: in parallel it takes seconds
    _run(lab, lab.under_way.start if lab.under_way else (), progress)
    lab = state.ended(lab)
    state.save(lab)
    return lab


def _reach(lab: Lab, sources: Sequence[str], progress: Progress) -> Lab:
    """Let the proxy pass these sources, and record which of them this host reaches through it."""
    lab = replace(lab, sources=dict.fromkeys(sources, False))
    subnets.ensure_bridges(lab)
    packages.ensure_proxy(lab)
    lab = replace(lab, sources=packages.reached(lab))
    state.save(lab)
    for source, available in lab.sources.items():
        progress(f"package source {source} {'is reached' if available else 'is out of reach of this machine'}")
    return lab


def _run(lab: Lab, names: Sequence[str], progress: Progress, tallies: Tallies = silent) -> None:
    """Start these nodes, and wait until they answer."""
    subnets.ensure_bridges(lab)
    packages.ensure_proxy(lab)
    kind_of(lab).lay_out(lab, progress)
    nodes = [lab.node(name) for name in dict.fromkeys(names)]
    if not nodes:
        write_access_files(lab)
        return
    with tallies("starting nodes", [node.name for node in nodes]) as tally:

        def start(node: PlacedNode) -> str:
            with tally.part(node.name):
                return _start(lab, node, progress)

        _for_all(nodes, start, progress)
    write_access_files(lab)


def _existing(name: str) -> Lab:
    lab = load(name)
    if lab is None:
        names = ", ".join(lab_names()) or "none"
        raise LabError(
            f"lab {name!r} does not exist on this host (existing: {names})",
            "start it: `hpcforge rehearse up BLUEPRINT`; `hpcforge rehearse list` shows which blueprints have one",
        )
    return lab


def _settle(request: UpRequest, tree: Path | None, progress: Progress) -> Lab:
    """Record the target state of the lab, with its choices of resources that labs share."""
    with host_lock(progress):
        existing, others = state.read(request.name), state.others(request.name)
        labs = [*others, *([existing] if existing else [])]
        kind, in_use = KINDS[request.kind], set().union(*(lab.trees for lab in labs))
        made = {} if tree is None else {request.release: target_state.trees_of(tree)}
        for release in target_state.releases(request):
            if kind.BOOTS and not target_state.comes(existing, request):
                # they boot their own disks, whatever the blueprint has now
                made.setdefault(release, target_state.Trees((), ()))
            elif release not in made:
                made[release] = kind.trees(release, in_use, progress)
        if existing is None:
            lab = _new_lab(request, others, made, progress)
        else:
            _refuse_another_blueprint(existing, request)
            bare = [node.name for node in existing.nodes if kind.host_key(existing, node) is None]
            lab = target_state.grown_lab(existing, request, made, bare)
            progress(f"lab {lab.name} already exists, on {lab.cidr}")
        state.save(lab)
        make_key(lab)
        kind.prepare_host()
    return lab


def _refuse_another_blueprint(lab: Lab, request: UpRequest) -> None:
    """Raise `LabError` if the name belongs to the lab of another blueprint. A moved blueprint counts as the same."""
    blueprint = request.blueprint.absolute()
    if Path(lab.blueprint) != blueprint and Path(lab.blueprint).is_file():
        raise LabError(
            f"lab {lab.name} is the rehearsal of {lab.blueprint}, not of {blueprint}",
            "give this one another name (`--lab`; without, it has one of its own), or take that one down first: "
            f"`hpcforge rehearse down --lab {lab.name}`",
        )


def _new_lab(
    request: UpRequest,
    others: Sequence[Lab],
    trees: Mapping[str, target_state.Trees],
    progress: Progress,
) -> Lab:
    desired = parse_cidr(request.cidr)
    used = [*subnets.taken_subnets(), *(lab.network_address for lab in others), *request.avoid]
    subnet = choose_subnet(desired, used)
    if subnet != desired:
        progress(f"{desired} is in use on this host: the lab gets {subnet}")
    tag = tag_for(request.name, [lab.tag for lab in others])
    store = packages.choose_cache({*(lab.packages_cache for lab in others), *packages.served_caches()})
    lab = target_state.new_lab(
        request, trees, subnet=subnet, tag=tag, port=packages.choose_port(), packages_cache=store
    )
    progress(f"lab {lab.name}: bridge {lab.bridge}, {lab.cidr}")
    return lab


def _start(lab: Lab, node: PlacedNode, progress: Progress) -> str:
    began = time.monotonic()
    if kind_of(lab).start(lab, node, progress):
        without = "" if node.python else ", built without Python"
        return f"started at {node.address} in {time.monotonic() - began:.1f} s{without}"
    return f"runs already at {node.address}"


def _stop(lab: Lab, node: PlacedNode, disk_too: bool) -> str:
    was = "stopped" if kind_of(lab).running(lab, node) else "was stopped already"
    kind_of(lab).stop(lab, node, graceful=not disk_too)
    return f"{was}, its disk {'is gone' if disk_too else 'is kept'}"


def _power_off(lab: Lab, node: PlacedNode) -> str:
    began = time.monotonic()
    in_order = kind_of(lab).stop(lab, node, graceful=True)
    took = f"{time.monotonic() - began:.1f} s"
    return f"powered off in {took}" if in_order else f"did not power off, and was killed after {took}"


def _at_once(nodes: Sequence[PlacedNode], work: Callable[[PlacedNode], object]) -> None:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(work, nodes))


def _for_all(nodes: Sequence[PlacedNode], work: Callable[[PlacedNode], str], progress: Progress) -> None:
    """Do the same for several nodes at once; try all of them before the first error is raised."""
    errors = []
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        futures = {pool.submit(work, node): node for node in nodes}
        try:
            for future in as_completed(futures):
                error = future.exception()
                if error is None:
                    progress(f"{futures[future].name}: {future.result()}")
                else:
                    errors.append(error)
        except KeyboardInterrupt:
            pool.shutdown(wait=True, cancel_futures=True)  # active work ends, so that `down` finds nothing half done
            raise
    if errors:
        raise errors[0]


def _status(lab: Lab, node: PlacedNode) -> LabNodeStatus:
    return LabNodeStatus(node.name, "running" if kind_of(lab).running(lab, node) else "stopped", node.address)


def _save_status(save: Save, sizes: Mapping[tuple[str, int], int]) -> SaveStatus:
    nodes = tuple(node.name for node in save.nodes)
    size_kib = sum(sizes.get(disk, 0) for disk in state.disks_of(save.nodes))
    return SaveStatus(save.name, save.saved_s, nodes, save.running, round(size_kib / 1024))


def _remove(name: str, progress: Progress) -> None:
    """Remove a whole lab, by the present state of the host, not by records."""
    directory = lab_directory(name)
    lab = _readable(name)
    bridges = subnets.bridges_of(name) | ({lab.tag} if lab else set())
    kinds = [kind_of(lab)] if lab else list(KINDS.values())  # all: its kind is unknown
    for kind in kinds:
        kind.remove(directory, bridges)
    packages.stop_proxy(name)
    for bridge in bridges:
        subnets.remove_bridge(bridge)
    existed = directory.exists()
    if (nodes := directory / "nodes").exists():
        remove_tree(nodes)  # it may take long, so not under the host lock
    with host_lock(progress):
        if existed:
            remove_tree(directory)
        for kind in kinds:
            kind.restore_host()
    progress(f"lab {name}: removed" if existed else f"lab {name}: nothing to remove")


def _readable(name: str) -> Lab | None:
    """Return the recorded lab if it can be read; raise `UnknownKindError` for an unsupported kind."""
    try:
        return state.read(name)
    except UnknownKindError:
        raise
    except HostError:
        return None
