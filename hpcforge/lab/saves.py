"""What a lab becomes by a save, a restore or the loss of disks. Pure.

A save moves nothing. A node writes to its own top disk above read-only disks. A save records the present disks, and
the node gets a new top disk above them. A restore records the old list again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab, PlacedNode, Save, UnderWay

MOST_DISKS = 100  # that a node lies on: an overlay has a page (4096 bytes) for all paths


def check_save(lab: Lab, name: str, *, replacing: bool) -> None:
    """`LabError` if the lab cannot be saved under this name."""
    if not replacing and any(save.name == name for save in lab.saves):
        raise LabError(f"lab {lab.name} has a save {name!r} already", "use another name, or replace it: `--replace`")
    if full := [node.name for node in lab.nodes if len(node.disks) >= MOST_DISKS]:
        raise LabError(
            f"node {full[0]} already uses the disks of {MOST_DISKS - 1} saves, the highest number",
            "go back to an older save (`hpcforge rehearse restore`), or take the lab down",
        )


def saved(lab: Lab, name: str, *, saved_s: float, running: Collection[str]) -> Lab:
    """The lab with all disks as they are set aside under a name, and a new one for each node."""
    ran = tuple(node.name for node in lab.nodes if node.name in running)
    save = Save(name, saved_s, lab.nodes, ran, lab.in_blueprint, lab.blueprint, lab.network)
    others = tuple(other for other in lab.saves if other.name != name)
    return replace(
        _on_new_disks(lab, lab.nodes), saves=(*others, save), under_way=UnderWay("saved", name, ran)
    )  # fmt: skip


def restored(lab: Lab, save: Save, names: Sequence[str] | None) -> Lab:
    """The lab as it was at a save; or, of all that is in it now, only these nodes."""
    if names is None:
        back = replace(lab, in_blueprint=save.in_blueprint, blueprint=save.blueprint, network=save.network)
        return replace(_on_new_disks(back, save.nodes), under_way=UnderWay("restored", save.name, save.running))
    there = {node.name: node for node in save.nodes}
    if strange := [name for name in names if name not in there]:
        raise LabError(f"save {save.name} has no node {strange[0]!r}", f"its nodes: {', '.join(there)}")
    back = _on_new_disks(lab, [there[lab.node(name).name] for name in names])
    fresh = {node.name: node for node in back.nodes}
    nodes = tuple(fresh.get(node.name, node) for node in lab.nodes)
    start = tuple(name for name in save.running if name in names)
    return replace(back, nodes=nodes, under_way=UnderWay("restored", save.name, start))


def forgotten(lab: Lab, name: str) -> Lab:
    """Return the lab without a save, and without the disks that only it used."""
    lab.save(name)
    return replace(lab, saves=tuple(save for save in lab.saves if save.name != name))


def without_disks(lab: Lab, names: Collection[str]) -> Lab:
    """These nodes are to be made anew: on an empty disk, and on none that a save has set aside."""
    bare = [replace(node, disks=()) for node in lab.nodes if node.name in names]
    back = _on_new_disks(lab, bare)
    fresh = {node.name: node for node in back.nodes}
    return replace(back, nodes=tuple(fresh.get(node.name, node) for node in lab.nodes))


def ended(lab: Lab, not_started: Collection[str] = ()) -> Lab:
    """Nothing is under way any more; or, with names, these nodes need not be started any more."""
    if lab.under_way is None or not not_started:
        return replace(lab, under_way=None)
    start = tuple(name for name in lab.under_way.start if name not in not_started)
    return replace(lab, under_way=replace(lab.under_way, start=start))


def disks_of(nodes: Collection[PlacedNode]) -> set[tuple[str, int]]:
    """The disks of nodes: node and number."""
    return {(node.name, disk) for node in nodes for disk in node.disks}


def wanted_disks(lab: Lab) -> set[tuple[str, int]]:
    """All disks that the lab or one of its saves needs."""
    return disks_of(lab.nodes).union(*(disks_of(save.nodes) for save in lab.saves))


def _on_new_disks(lab: Lab, nodes: Sequence[PlacedNode]) -> Lab:
    """Return the lab with only these nodes, each with a new disk above its others."""
    fresh = (
        replace(node, disks=(disk, *node.disks)) for disk, node in enumerate(nodes, start=lab.disks_made + 1)
    )  # fmt: skip
    return replace(lab, nodes=tuple(fresh), disks_made=lab.disks_made + len(nodes))
