"""Kinds of faults that are planted in simulated clusters. They are data: a new kind is an entry of KINDS."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.simulated_cluster import GPUS, Fault, Routes
from hpcforge.isolation.state import Kind, Part
from hpcforge.isolation.wiring import NodeWiring

Near = Literal["", "node", "leaf"]


@dataclass(frozen=True)
class Plant:
    """A fault and where it is: anywhere, on the node of the one before it, or on the leaf."""

    kind: Kind
    factor: float
    way: Literal["", "out", "in"] = ""
    chance: float = 1.0
    until: int = 0
    of: Literal["compute", "network", "both"] = "compute"
    near: Near = ""


@dataclass(frozen=True)
class FaultKind:
    """What is planted together, and whether isolation has the plan and the routes are those that it assumes."""

    name: str
    plants: tuple[Plant, ...] = ()
    plan: bool = True
    routes: Routes = "by place"


_CABLE, _NODE, _GPU, _UPLINK = Plant("cable", 0.5), Plant("node", 0.9), Plant("gpu", 0.6), Plant("uplink", 0.5)
KINDS = (
    FaultKind("healthy"),
    FaultKind("healthy, no plan", plan=False),
    FaultKind("node, no answer", (Plant("node", 0.0),)),
    FaultKind("node x0.9", (_NODE,)),
    FaultKind("node x0.5 for two rounds", (Plant("node", 0.5, until=2),)),
    FaultKind("node x0.7, one time in 10", (Plant("node", 0.7, chance=0.1),)),
    FaultKind("node x0.8 and its network x0.6", (Plant("node", 0.8), Plant("node", 0.6, of="network", near="node"))),
    FaultKind("network of a node x0.5", (Plant("node", 0.5, of="network"),)),
    FaultKind("network of a node x0.5, sending", (Plant("node", 0.5, "out", of="network"),)),
    FaultKind("network of a node x0.5, receiving", (Plant("node", 0.5, "in", of="network"),)),
    FaultKind("GPU x0.6", (_GPU,)),
    FaultKind("adapter x0.5", (Plant("adapter", 0.5),)),
    FaultKind("cable x0.5", (_CABLE,)),
    FaultKind("cable x0.5, sending", (Plant("cable", 0.5, "out"),)),
    FaultKind("cable x0.7, receiving", (Plant("cable", 0.7, "in"),)),
    FaultKind("cable x0.5, one time in 10", (Plant("cable", 0.5, chance=0.1),)),
    FaultKind("cable x0.5 for two rounds", (Plant("cable", 0.5, until=2),)),
    FaultKind("GPU and cable of a node", (_GPU, Plant("cable", 0.5, near="node"))),
    FaultKind("two cables of a node", (_CABLE, Plant("cable", 0.6, near="node"))),
    FaultKind("two cables of a leaf", (_CABLE, Plant("cable", 0.5, near="leaf"))),
    FaultKind("path, no answer", (Plant("pair", 0.0),)),
    FaultKind("path x0.5, one way", (Plant("pair", 0.5, "out"),)),
    FaultKind("uplink x0.5", (_UPLINK,)),
    FaultKind("uplink x0.5, sending", (Plant("uplink", 0.5, "out"),)),
    FaultKind("uplinks of a leaf x0.5", (Plant("uplinks", 0.5),)),
    FaultKind("leaf x0.5", (Plant("leaf", 0.5),)),
    FaultKind("rail x0.5", (Plant("rail", 0.5),)),
    FaultKind("cable and node", (_CABLE, _NODE)),
    FaultKind("three cables", (_CABLE, _CABLE, _CABLE)),
    FaultKind("no plan: node x0.9", (_NODE,), plan=False),
    FaultKind("no plan: cable x0.5", (_CABLE,), plan=False),
    FaultKind("no plan: network of a node x0.5", (Plant("node", 0.5, of="network"),), plan=False),
    FaultKind("no plan: leaf x0.5", (Plant("leaf", 0.5),), plan=False),
    FaultKind("no plan: uplink x0.5", (_UPLINK,), plan=False),
    FaultKind("hashed routes: healthy", routes="hashed"),
    FaultKind("hashed routes: cable x0.5", (_CABLE,), routes="hashed"),
    FaultKind("hashed routes: uplink x0.5", (_UPLINK,), routes="hashed"),
    FaultKind("hashed routes: two uplinks", (_UPLINK, _UPLINK), routes="hashed"),
    FaultKind("hashed routes: uplinks of a leaf", (Plant("uplinks", 0.5),), routes="hashed"),
    FaultKind("adaptive routes: cable x0.5", (_CABLE,), routes="adaptive"),
    FaultKind("adaptive routes: uplink x0.5", (_UPLINK,), routes="adaptive"),
    FaultKind("adaptive routes: two uplinks", (_UPLINK, _UPLINK), routes="adaptive"),
    FaultKind("adaptive routes: leaf x0.5", (Plant("leaf", 0.5),), routes="adaptive"),
    FaultKind("routes by packet: healthy", routes="spread"),
    FaultKind("routes by packet: cable x0.5", (_CABLE,), routes="spread"),
    FaultKind("routes by packet: uplink x0.5", (_UPLINK,), routes="spread"),
)
_OF_LEAF = ("leaf", "uplinks", "uplink")
BY_NAME = {kind.name: kind for kind in KINDS}


def plant(of: NodeWiring, seed: int, plants: Sequence[Plant]) -> list[Fault]:
    """Put faults into parts by a seed, each into a part of its own; none where there is no part of its kind."""
    chosen, faults = random.Random(-seed - 1), list[Fault]()  # noqa: S311
    at = (0, 0)  # node and rail of the one before
    for each in plants:
        taken = () if each.near == "node" and each.kind == "node" else [fault.part for fault in faults]
        parts = [part for part in _parts(of, each.kind) if part not in taken and _is_near(of, part, each.near, at)]
        if parts:
            part = chosen.choice(parts)
            faults.append(Fault(part, each.factor, each.way, each.chance, each.until, each.of))
            if part.kind in ("node", "gpu", "cable", "adapter"):
                at = (part.of, part.at if part.kind in ("cable", "adapter") else 0)
    return faults


def _is_near(of: NodeWiring, part: Part, near: Near, at: tuple[int, int]) -> bool:
    node, rail = at
    if near == "node":
        return part.of == node
    leaf = of.leaf[node][rail] if near and of.known else 0
    return not near or not of.known or (part.at == rail and of.leaf[part.of][rail] == leaf)


def _parts(of: NodeWiring, kind: Kind) -> list[Part]:
    """All parts of a kind. Uplinks: those that can carry traffic out and in."""
    nodes = range(len(of.nodes))
    full = [leaf for leaf, links in of.on_leaf.items() if of.uplinks[leaf] and len(links) >= of.uplinks[leaf]]
    full = full if len(of.units) > 1 else []
    leaves: dict[Kind, list[Part]] = {
        "uplink": [
            Part("uplink", leaf, up)
            for leaf in full
            for up in range(of.uplinks[leaf])
            if of.reached_over(leaf, up, of.on_leaf[leaf][0][1])
        ],
        "uplinks": [Part("uplinks", leaf) for leaf in full],
        "leaf": [Part("leaf", leaf) for leaf in of.on_leaf],
        "rail": [Part("rail", rail) for rail in range(of.rails)],
        "node": [Part("node", node) for node in nodes],
    }
    if kind in leaves:
        return leaves[kind]
    if kind == "pair":
        return [Part("pair", *sorted((node, _neighbour(of, node)))) for node in nodes] if len(nodes) > 1 else []
    return [Part(kind, node, at) for node in nodes for at in range(GPUS if kind == "gpu" else of.rails)]


def _neighbour(of: NodeWiring, node: int) -> int:
    unit = of.units[of.unit_of[node]]
    place = unit.index(node)
    other = place ^ 1 if place ^ 1 < len(unit) else place - 1
    return unit[other] if other >= 0 else (node + 1) % len(of.nodes)


def expected(of: NodeWiring, faults: Sequence[Fault]) -> dict[Part, Fault]:
    """The parts that are named where each fault is named exactly. A node that is slow explains its network."""
    parts: dict[Part, Fault] = {}
    slow = {each.part.of for each in faults if each.part.kind == "node" and each.of != "network"}
    for fault in faults:
        part = fault.part
        if part.kind in ("cable", "adapter", "gpu", "node") and part.of in slow:
            part = Part("node", part.of)
        elif part.kind == "node" and of.rails == 1:
            part = Part("cable", part.of)
        elif part.kind == "rail" and len({leaves[part.of] for leaves in of.leaf}) == 1 and of.rails > 1:
            part = Part("leaf", of.leaf[0][part.of])
        parts[part] = fault
    return parts


def merged(of: NodeWiring, faults: Sequence[Fault]) -> list[Fault]:
    """The faults, as one those that no measurement tells from it: every leaf of a rail, every path of a node."""
    parts = {fault.part: fault for fault in faults if fault.part.kind == "leaf" or not fault.way}
    whole: dict[Part, list[Part]] = {}
    for rail in range(of.rails if of.known else 0):
        whole[Part("rail", rail)] = [Part("leaf", leaf) for leaf in sorted({leaf[rail] for leaf in of.leaf})]
    nodes = range(len(of.nodes))
    for node in nodes:
        whole[Part("node", node)] = [Part("pair", *sorted((node, other))) for other in nodes if other != node]
    whole = {part: each for part, each in whole.items() if len(each) > 1 and parts.keys() >= {*each}}
    taken = {part for each in whole.values() for part in each}
    rest = [fault for fault in faults if fault.part not in taken]
    return [*rest, *(replace(parts[each[0]], part=part, of="network") for part, each in whole.items())]


def touches(of: NodeWiring, part: Part, fault: Fault, plan: bool) -> bool:
    """Whether a part is at the place of a fault: the same, a part of it, or it is a part of that."""
    kind, number, at = fault.part
    if part == fault.part or part in expected(of, [fault]):
        return True
    if kind in ("node", "gpu", "cable", "adapter"):
        same = part.kind in ("node", "gpu", "cable", "adapter") and part.of == number
        return same and (kind == "node" or part.kind == "node" or part.at == at)
    if kind == "pair":
        return part.kind == "cable" and part.of in (number, at)
    if kind == "rail":
        leaves = {leaf[number] for leaf in of.leaf}
        return (part.kind == "leaf" and part.of in leaves) or (not plan and part == Part("cable", part.of, number))
    if plan:
        return part.of == number and part.kind in _OF_LEAF and (part.kind, kind) != ("uplink", "uplink")
    on_leaf = [node for node, _ in of.on_leaf[number]]
    if part.kind == "cable" and len(of.units[of.unit_of[part.of]]) == 1:
        return True  # all that a node alone on its leaf sends crosses
    return part.of in on_leaf or (part.kind == "pair" and part.at in on_leaf)
