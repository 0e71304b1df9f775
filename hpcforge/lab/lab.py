"""Rehearsal clusters: up, status, down.

`up` writes a lab down before it makes anything on the host, so `down` removes a lab that was cut off at any point.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcforge.lab import base, cgroups, disks, host, machines, network, packages, settle, state
from hpcforge.lab.access import make_key, ssh_argv, write_access_files
from hpcforge.lab.errors import LabError
from hpcforge.lab.names import check_lab_name, default_lab_name, tag_for
from hpcforge.lab.places import Progress, forget_lab_lock, host_lock, lab_directory, lab_lock, lab_names
from hpcforge.lab.state import Lab, LabNode, PlacedNode
from hpcforge.lab.subnets import choose_subnet, parse_cidr

__all__ = [
    "Lab",
    "LabError",
    "LabNode",
    "LabStatus",
    "NodeStatus",
    "PlacedNode",
    "default_lab_name",
    "down",
    "lab_names",
    "load",
    "ssh_argv",
    "status",
    "up",
]

_AT_ONCE = 8  # nodes that start or stop at the same time


@dataclass(frozen=True)
class NodeStatus:
    """A node as it is now."""

    name: str
    state: Literal["running", "stopped"]
    address: str


@dataclass(frozen=True)
class LabStatus:
    """A lab as it is now."""

    lab: Lab
    nodes: tuple[NodeStatus, ...]


def up(
    cluster_nodes: Sequence[LabNode],
    *,
    name: str,
    cidr_wanted: str,
    login_user: str,
    release: str,
    blueprint: Path,
    progress: Progress,
    network_name: str = "cluster",
) -> Lab:
    """Have a lab with these nodes running and answering on SSH.

    What runs is reused, what is stopped is started with its disk and host key, what is new is added. `cidr_wanted` is
    used if it is free on this host, else another subnet of its size in which every node keeps its host part.
    `network_name` is the blueprint's name for that network. `progress` gets a line for each thing done.
    """
    request = settle.Request(
        check_lab_name(name), tuple(cluster_nodes), cidr_wanted, login_user, release, blueprint, network_name
    )
    settle.check(request)
    host.require_root()
    host.require_programs()
    with lab_lock(name, progress):
        lab = _settle(request, progress)
        network.ensure_bridge(lab)
        packages.ensure_proxy(lab)
        asked = [lab.node(node) for node in lab.in_blueprint]
        _each(asked, lambda node: _start(lab, node), progress)
        write_access_files(lab)
        if others := [node.name for node in lab.nodes if node.name not in lab.in_blueprint]:
            progress(f"not in the blueprint, left as they are: {', '.join(others)}")
    return lab


def status(name: str) -> LabStatus:
    """What runs of a lab; `LabError` if there is no such lab."""
    lab = _existing(name)
    return LabStatus(lab, tuple(_status(lab, node) for node in lab.nodes))


def down(name: str, nodes: Sequence[str] | None, progress: Progress, *, disks_too: bool = False) -> None:
    """Stop some nodes but keep their disks, so that `up` starts them again; with None, remove all of the lab.

    With `disks_too` the disks of these nodes go, and `up` starts other machines under their names.
    """
    check_lab_name(name)
    host.require_root()
    with lab_lock(name, progress):
        if nodes is None:
            _remove(name, progress)
            forget_lab_lock(name)
        else:
            lab = _existing(name)
            stopped = [lab.node(node) for node in dict.fromkeys(nodes)]
            _each(stopped, lambda node: _stop(lab, node, disks_too), progress)


def load(name: str) -> Lab | None:
    """The lab of that name, up or not, or None."""
    check_lab_name(name)
    host.require_root()
    return state.read(name)


def _existing(name: str) -> Lab:
    lab = load(name)
    if lab is None:
        known = ", ".join(lab_names()) or "none"
        raise LabError(
            f"there is no lab {name!r} on this host (there are: {known})", "start it: `hpcforge rehearse up`"
        )
    return lab


def _settle(request: settle.Request, progress: Progress) -> Lab:
    """Write down what the lab is to be, with all that it shares with other labs settled."""
    with host_lock(progress):
        existing, others = state.read(request.name), state.others(request.name)
        labs = [*others, *([existing] if existing else [])]
        in_use = [Path(layer) for lab in labs for node in lab.nodes for layer in node.layers]
        base.ensure(request.release, in_use, progress)
        trees = settle.Trees(_layers(request.release, python=True), _layers(request.release, python=False))
        if existing is None:
            lab = _new_lab(request, others, trees, progress)
        else:
            lab = settle.grown_lab(existing, request, trees)
            progress(f"lab {lab.name} is there already, on {lab.cidr}")
        state.save(lab)
        make_key(lab)
        host.raise_inotify_limit()
    return lab


def _new_lab(request: settle.Request, others: Sequence[Lab], trees: settle.Trees, progress: Progress) -> Lab:
    wanted = parse_cidr(request.cidr)
    taken = [*network.taken_subnets(), *(lab.network_address for lab in others)]
    subnet = choose_subnet(wanted, taken)
    if subnet != wanted:
        progress(f"{wanted} is taken on this host: the lab gets {subnet}")
    tag = tag_for(request.name, [lab.tag for lab in others])
    store = packages.choose_cache([lab.packages_cache for lab in others])
    lab = settle.new_lab(request, trees, subnet=subnet, tag=tag, port=packages.choose_port(), packages_cache=store)
    progress(f"lab {lab.name}: bridge {lab.bridge}, {lab.cidr}")
    return lab


def _layers(release: str, *, python: bool) -> tuple[str, ...]:
    return tuple(str(layer) for layer in base.layers(release, python))


def _start(lab: Lab, node: PlacedNode) -> str:
    began = time.monotonic()
    if machines.start(lab, node):
        without = "" if node.python else ", built without Python"
        return f"started at {node.address} in {time.monotonic() - began:.1f} s{without}"
    return f"runs already at {node.address}"


def _stop(lab: Lab, node: PlacedNode, disk_too: bool) -> str:
    was = "stopped" if machines.running(lab.machine(node.name)) else "was stopped already"
    machines.stop(lab, node.name, graceful=not disk_too)
    if disk_too:
        disks.forget(lab, node.name)
    return f"{was}, its disk {'is gone' if disk_too else 'is kept'}"


def _each(nodes: Sequence[PlacedNode], work: Callable[[PlacedNode], str], progress: Progress) -> None:
    """Do the same with several nodes at once; all of them are tried before the first error is raised."""
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
            pool.shutdown(wait=True, cancel_futures=True)  # what has begun ends, so that `down` finds nothing half done
            raise
    if errors:
        raise errors[0]


def _status(lab: Lab, node: PlacedNode) -> NodeStatus:
    return NodeStatus(node.name, "running" if machines.running(lab.machine(node.name)) else "stopped", node.address)


def _remove(name: str, progress: Progress) -> None:
    """Remove all of a lab, found by what is on the host rather than by what is written down."""
    directory = lab_directory(name)
    bridges = network.bridges_of(name) | _written_tag(name)
    found = machines.machines_of(directory) | cgroups.machines_of(bridges)
    # Killed, not powered off: nothing of these disks is kept.
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(lambda machine: machines.stop_machine(machine, graceful=False), sorted(found)))
    packages.stop_proxy(name)
    disks.unmount(directory)
    for bridge in bridges:
        network.remove_bridge(bridge)
    existed = directory.exists()
    with host_lock(progress):
        if existed:
            shutil.rmtree(directory)
        host.restore_inotify_limit()
    progress(f"lab {name}: removed" if existed else f"lab {name}: there was nothing to remove")


def _written_tag(name: str) -> set[str]:
    try:
        lab = state.read(name)
    except LabError:
        return set()
    return {lab.tag} if lab else set()
