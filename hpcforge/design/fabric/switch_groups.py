"""A fabric as nested groups of nodes: below one switch, below one spine group, and each group's uplinks. Pure.

A scheduler needs these groups to keep a job together, and they bound the traffic between the nodes of a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Fabric

# The kinds of cables that join groups at each level. Nodes join the first: leaves that share a node are one group.
_JOINS: tuple[frozenset[CableKind], ...] = (
    frozenset({"node_leaf"}),  # other ends do not count: storage on two leaves does not make them one
    frozenset({"leaf_spine", "local", "peer"}),
    frozenset({"spine_core", "global"}),
)
_BY: tuple[tuple[Literal["leaf", "spine", "core", "group", "whole"], ...], ...] = (
    ("leaf", "spine", "core"),
    ("leaf", "group", "whole"),  # dragonflies
)


@dataclass(frozen=True)
class SwitchGroup:
    """Nodes and switches that are joined without anything above them."""

    switches: tuple[int, ...]  # devices, ascending; leaves first
    nodes: tuple[str, ...]  # in the order of the fabric
    up_gbps: float  # of the group's links to the level above, one direction; 0 at the top


@dataclass(frozen=True)
class Level:
    """All groups of one level. No two of them share a node."""

    by: Literal["leaf", "spine", "core", "group", "whole"]  # the common switch; "group" and "whole" of a dragonfly
    groups: tuple[SwitchGroup, ...]


def levels(fabric: Fabric) -> tuple[Level, ...]:
    """Return the levels of a fabric, from leaves to the whole; a level that joins nothing new is left out.

    The rails of one scalable unit are one group, since each of its nodes is on all of its leaves; so is a leaf pair.
    """
    parent = list(range(len(fabric.devices)))
    distinct_levels: list[Level] = []
    for depth, joins in enumerate(_JOINS):
        codes = {CABLE_KINDS.index(kind) for kind in joins}
        used = False
        for a, b, kind in zip(fabric.cables.a, fabric.cables.b, fabric.cables.kind, strict=True):
            if kind in codes:
                used = True
                parent[_root(parent, a)] = _root(parent, b)
        if used or not depth:
            level = Level(_BY["dragonfly" in fabric.topology][depth], _groups(fabric, parent))
            if not distinct_levels or len(level.groups) < len(distinct_levels[-1].groups):
                distinct_levels.append(level)
    return tuple(distinct_levels)


def _root(parent: list[int], device: int) -> int:
    while parent[device] != device:
        parent[device] = parent[parent[device]]
        device = parent[device]
    return device


def _groups(fabric: Fabric, parent: list[int]) -> tuple[SwitchGroup, ...]:
    """Return the groups that hold nodes, in the order of their first node."""
    switches: dict[int, list[int]] = {}
    nodes: dict[int, list[str]] = {}
    for index, device in enumerate(fabric.devices):
        root = _root(parent, index)
        if device.kind == "node":
            nodes.setdefault(root, []).append(device.name)
        elif device.kind != "endpoint":
            switches.setdefault(root, []).append(index)
    up: dict[int, float] = {}
    other_code = CABLE_KINDS.index("other_leaf")
    for a, b, kind in zip(fabric.cables.a, fabric.cables.b, fabric.cables.kind, strict=True):
        root_a, root_b = _root(parent, a), _root(parent, b)
        if root_a != root_b and kind != other_code:
            up[root_a] = up.get(root_a, 0.0) + fabric.uplink_rate_gbps
            up[root_b] = up.get(root_b, 0.0) + fabric.uplink_rate_gbps
    return tuple(
        SwitchGroup(tuple(switches.get(root, ())), tuple(names), up.get(root, 0.0)) for root, names in nodes.items()
    )


def among(level: Level, nodes: Iterable[str]) -> tuple[tuple[SwitchGroup, tuple[str, ...]], ...]:
    """Return the groups of a level with some of these nodes, each with its share of them."""
    selected = frozenset(nodes)
    shares = ((group, tuple(name for name in group.nodes if name in selected)) for group in level.groups)
    return tuple((group, share) for group, share in shares if share)
