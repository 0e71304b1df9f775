"""Summarise a fabric with its cables: bisection, paths, and the cost of one failure. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.design import (
    SWITCH_KINDS,
    CableLot,
    CableMove,
    Cutting,
    FabricDesign,
    Loss,
    SwitchPlace,
    Ways,
)
from hpcforge.design.fabric.graph import CABLE_KINDS, ENDS, Fabric, columns, oversubscription

# A fabric folded up, and the maximum flow through it.
#
# The spines of a group are folded to one switch, and all cores to one. Every leaf has equally many links to every
# spine of its group, and every group to the cores of every plane, so traffic can be spread evenly. The folded fabric
# therefore carries as much as the fabric (a test compares it with the maximum flow of the graph). A group of a
# dragonfly is folded to one switch, too; that is exact if halves are whole groups.
Key = TypeVar("Key")
Half = Callable[[int, list[int]], float]  # of a leaf and the nodes on it, by link: how many of these links send


@dataclass(frozen=True)
class Folded:
    """A fabric folded up, in numbers of links; devices by their number in the fabric."""

    ends: Mapping[int, list[int]]  # leaf: the node of each link that is plugged into it
    group: Mapping[int, int]  # leaf: its group, or itself without a spine above it
    up: Mapping[int, int]  # leaf: links to its group; none without a spine above it
    group_up: Mapping[int, int]  # group: links to the cores
    pairs: Mapping[tuple[int, int], int]  # links between two groups that are joined directly
    rate_gbps: float  # of a node's link
    link_gbps: float  # of any other


def fold(fabric: Fabric) -> Folded:
    """Fold a fabric up."""
    units = [device.unit or 0 for device in fabric.devices]
    ends: dict[int, list[int]] = {n: [] for n, device in enumerate(fabric.devices) if device.kind == "leaf"}
    for node, leaf in zip(*columns(fabric, "node_leaf"), strict=True):
        ends[leaf].append(node)
    lower, upper = columns(fabric, "leaf_spine")
    up = Counter(lower)
    above = dict(zip(lower, upper, strict=True))
    joined = fabric.topology in ("dragonfly", "dragonfly+")
    group = {leaf: units[above.get(leaf, leaf)] if above or joined else leaf for leaf in ends}
    group_up = Counter(map(units.__getitem__, columns(fabric, "spine_core")[0]))
    pairs: Counter[tuple[int, int]] = Counter(zip(*columns(fabric, "peer"), strict=True))
    pairs += Counter((units[a], units[b]) for a, b in zip(*columns(fabric, "global"), strict=True))
    return Folded(ends, group, up, group_up, pairs, fabric.rate_gbps, fabric.uplink_rate_gbps)


def without_switch(fabric: Fabric, folded: Folded, switch: int) -> Folded:
    """Return a folded fabric without one switch."""
    units = [device.unit or 0 for device in fabric.devices]
    device = fabric.devices[switch]
    pairs = Counter(folded.pairs)
    for kind in ("peer", "global"):
        for a, b in zip(*columns(fabric, kind), strict=True):
            if switch in (a, b):
                pairs[(a, b) if kind == "peer" else (units[a], units[b])] -= 1
    if device.kind == "leaf":
        up = _less(folded.up, [switch] * folded.up.get(switch, 0))
        return replace(folded, ends={**folded.ends, switch: []}, up=up, pairs=pairs)
    lower, upper = columns(fabric, "leaf_spine")
    up = _less(folded.up, (leaf for leaf, spine in zip(lower, upper, strict=True) if spine == switch))
    lower, upper = columns(fabric, "spine_core")
    lost = (units[spine] for spine, core in zip(lower, upper, strict=True) if switch in (spine, core))
    return replace(folded, up=up, group_up=_less(folded.group_up, lost), pairs=pairs)


def without_cable(fabric: Fabric, folded: Folded, number: int) -> Folded:
    """Return a folded fabric without one cable."""
    a, b = fabric.cables.a[number], fabric.cables.b[number]
    kind = CABLE_KINDS[fabric.cables.kind[number]]
    unit, two = fabric.devices[a].unit or 0, fabric.devices[b].unit or 0
    if kind == "node_leaf":
        remaining = list(folded.ends[b])
        remaining.remove(a)
        return replace(folded, ends={**folded.ends, b: remaining})
    if kind == "leaf_spine":
        return replace(folded, up=_less(folded.up, [a]))
    if kind == "spine_core":
        return replace(folded, group_up=_less(folded.group_up, [unit]))
    pair = (a, b) if kind == "peer" else (unit, two)
    return replace(folded, pairs=_less(folded.pairs, [pair] if kind in ("peer", "global") else []))


def _less(counts: Mapping[Key, int], lost: Iterable[Key]) -> dict[Key, int]:
    remaining = dict(counts)
    for key in lost:
        remaining[key] -= 1
    return remaining


def flow_gbps(folded: Folded, half: Half) -> float:
    """Return the maximum flow from one half of the ends to the other, Gb/s. Leaves alike are folded to one, too."""
    from networkx import DiGraph, maximum_flow_value  # noqa: PLC0415  # 0.1 s, which no other verb waits for

    alike = Counter(
        (folded.group[leaf], half(leaf, nodes), len(nodes), folded.up[leaf] if folded.up else inf)
        for leaf, nodes in folded.ends.items()
    )
    ends: list[tuple[object, object, float]] = []
    both: list[tuple[object, object, float]] = []  # links, which carry as much in either direction
    for leaf, ((group, send, links, up), count) in enumerate(alike.items()):
        ends.append(("senders", ("leaf", leaf), count * send * folded.rate_gbps))
        ends.append((("leaf", leaf), "takers", count * (links - send) * folded.rate_gbps))
        both.append((("leaf", leaf), group, count * up * folded.link_gbps))
    both += [(group, "cores", links * folded.link_gbps) for group, links in folded.group_up.items()]
    both += [(*pair, links * folded.link_gbps) for pair, links in folded.pairs.items()]
    graph = DiGraph()
    graph.add_weighted_edges_from((*ends, *both, *((b, a, gbps) for a, b, gbps in both)), weight="capacity")
    return float(maximum_flow_value(graph, "senders", "takers"))


def halves(fabric: Fabric, folded: Folded) -> tuple[Half, ...]:
    """Cut a fabric in half in two ways: by nodes in their order, and by leaves in theirs.

    An odd node, or the leaf in the middle, is half on either side. In a leaf pair, whose nodes are on both leaves,
    there is only the first.
    """
    count = fabric.count("node")
    weights = [min(1.0, max(0.0, count / 2 - node)) for node in range(count)]
    parts: dict[int, float] = {}
    remaining = sum(map(len, folded.ends.values())) / 2
    for leaf in sorted(folded.ends, key=lambda leaf: (folded.group[leaf], leaf)):
        links = len(folded.ends[leaf])
        parts[leaf] = min(1.0, max(0.0, remaining / links)) if links else 0.0
        remaining -= links

    def by_nodes(_: int, nodes: list[int]) -> float:
        return sum(map(weights.__getitem__, nodes))

    def by_leaves(leaf: int, nodes: list[int]) -> float:
        return parts[leaf] * len(nodes)

    return (by_nodes,) if fabric.topology == "leaf-pair" else (by_nodes, by_leaves)


@dataclass(frozen=True)
class Failure:
    """The loss of one switch or one cable, the first of its kind."""

    what: str  # "leaf", "spine", "core", or a kind of cable
    name: str  # the switch, or both ends of the cable
    alike: int  # number of its kind
    links_lost: int  # links of nodes
    nodes_cut_off: int  # nodes without a remaining link
    bisection_gbps: float  # that remains between the same halves


@dataclass(frozen=True)
class Paths:
    """Shortest ways between two leaves."""

    between: str  # "leaves of one group" or "leaves of two groups"
    switches: int  # at the top of the way, to choose from
    ways: int  # that differ in a cable
    disjoint: int  # of which no two share a cable


@dataclass(frozen=True)
class Metrics:
    """The measures of a fabric."""

    oversubscription: dict[str, float]
    bisection_gbps: float  # at which half of the nodes can send to the other half at once: the smaller of two halvings
    paths: tuple[Paths, ...]
    failures: tuple[Failure, ...]


def metrics(fabric: Fabric) -> Metrics:
    """Compute the measures of a fabric."""
    folded = fold(fabric)
    cuts = halves(fabric, folded)
    carried = min(flow_gbps(folded, half) for half in cuts)
    return Metrics(oversubscription(fabric), carried, paths(fabric), tuple(_failures(fabric, cuts, folded)))


def paths(fabric: Fabric) -> tuple[Paths, ...]:
    """Return the shortest ways from the first leaf to the last of its group, and to the last of another group.

    In one group: over each spine, links from the one leaf x links to the other. In two groups: over each core, ways up
    to it x ways down from it. As many of these share no cable as can leave the leaf and continue from the spine.
    """
    links: dict[int, Counter[int]] = defaultdict(Counter)  # from a device up
    for kind in ("leaf_spine", "spine_core"):
        for (a, b), count in Counter(zip(*columns(fabric, kind), strict=True)).items():
            links[a][b] = count
    if not links:
        return tuple(_direct(fabric))
    group = {device: fabric.devices[next(iter(ups))].unit for device, ups in links.items()}
    leaves = [number for number, device in enumerate(fabric.devices) if device.kind == "leaf"]
    first = leaves[0]
    near = [leaf for leaf in leaves[1:] if group[leaf] == group[first]]
    far = [leaf for leaf in leaves[1:] if group[leaf] != group[first]]
    near_paths = [_over("leaves of one group", links[first], links[near[-1]])] if near else []
    if far and fabric.count("core"):
        uplinks, two = (_up_to_cores(links, leaf) for leaf in (first, far[-1]))
        over = _over("leaves of two groups", uplinks, two)
        disjoint = min(_disjoint_up(links, first), _disjoint_up(links, far[-1]))
        near_paths.append(Paths(over.between, over.switches, over.ways, disjoint))
    return (*near_paths, *_direct(fabric))


def _over(between: str, uplinks: Counter[int], two: Counter[int]) -> Paths:
    common = uplinks.keys() & two.keys()
    ways = sum(uplinks[top] * two[top] for top in common)
    return Paths(between, len(common), ways, sum(min(uplinks[top], two[top]) for top in common))


def _up_to_cores(links: dict[int, Counter[int]], leaf: int) -> Counter[int]:
    ways: Counter[int] = Counter()
    for spine, down in links[leaf].items():
        for core, up in links[spine].items():
            ways[core] += down * up
    return ways


def _disjoint_up(links: dict[int, Counter[int]], leaf: int) -> int:
    return sum(min(down, links[spine].total()) for spine, down in links[leaf].items())


def _direct(fabric: Fabric) -> Iterator[Paths]:
    """Yield the ways without a switch between: of a leaf pair, and of two groups of a dragonfly."""
    peers = fabric.cable_counts["peer"]
    if peers:
        yield Paths("the two leaves", 0, peers, peers)
    joined = fold(fabric).pairs if fabric.cable_counts["global"] else {}
    if joined:
        fewest = min(joined.values())
        yield Paths("two groups", 0, fewest, fewest)


def _failures(fabric: Fabric, cuts: Sequence[Half], folded: Folded) -> Iterator[Failure]:
    """Yield what the loss of the first switch of each kind costs, and of the first cable of each."""
    links = Counter(node for nodes in folded.ends.values() for node in nodes)
    for device_kind in ("leaf", "spine", "core"):
        number = next((index for index, device in enumerate(fabric.devices) if device.kind == device_kind), None)
        if number is not None:
            yield _failure(
                fabric, cuts, links, device_kind, without_switch(fabric, folded, number), fabric.devices[number].name
            )
    kinds = fabric.cables.kind
    for index, kind in enumerate(CABLE_KINDS):
        if fabric.cable_counts[kind] and kind not in ("other_leaf", "local"):
            cut = kinds.index(index)
            yield _failure(fabric, cuts, links, kind, without_cable(fabric, folded, cut), _cable(fabric, cut))


def _failure(fabric: Fabric, cuts: Sequence[Half], links: Counter[int], kind: str, rest: Folded, name: str) -> Failure:
    still = Counter(node for nodes in rest.ends.values() for node in nodes)
    count = fabric.cables.kind.count(CABLE_KINDS.index(kind)) if kind in CABLE_KINDS else _count(fabric, kind)
    return Failure(
        what=kind,
        name=name,
        alike=count,
        links_lost=links.total() - still.total(),
        nodes_cut_off=len(links) - len(still),
        bisection_gbps=min(flow_gbps(rest, half) for half in cuts),
    )


def _count(fabric: Fabric, kind: str) -> int:
    return sum(device.kind == kind for device in fabric.devices)


def _cable(fabric: Fabric, number: int) -> str:
    """Return both ends of a cable: "gpu001 rail 1 - compute-leaf-001 1/1"."""
    c, devices = fabric.cables, fabric.devices
    a, b = c.a[number], c.b[number]
    port, two = fabric.port_label(a, c.a_port[number]), fabric.port_label(b, c.b_port[number])
    return f"{devices[a].name} {port} - {devices[b].name} {two}"


def fabric_design(cabling: Cabled) -> FabricDesign:
    """Return the summary of a fabric."""
    fabric = cabling.fabric
    carried = metrics(fabric)
    return FabricDesign(
        name=fabric.name,
        kind=fabric.kind,
        topology=fabric.topology,
        tiers=fabric.tiers,
        rate_gbps=fabric.rate_gbps,
        uplink_rate_gbps=fabric.uplink_rate_gbps,
        breakout=fabric.breakout,
        rails=fabric.rails,
        nodes=fabric.count("node"),
        endpoints=fabric.count("endpoint"),
        designed_for=fabric.designed_for,
        switches={kind: fabric.count(kind) for kind in SWITCH_KINDS},
        cables=fabric.cable_counts,
        capacity_gbps={
            kind: sum((rate * count for rate, count in fabric.rates.get(kind, {}).items()), 0.0) for kind in CABLE_KINDS
        },
        oversubscription=carried.oversubscription,
        bisection_gbps=carried.bisection_gbps,
        paths=tuple(Ways(path.between, path.switches, path.ways, path.disjoint) for path in carried.paths),
        failures=tuple(
            Loss(
                failure.what,
                failure.name,
                failure.alike,
                failure.links_lost,
                failure.nodes_cut_off,
                failure.bisection_gbps,
            )
            for failure in carried.failures
        ),
        cutting=_cutting(cabling),
        placed=tuple(_placed(cabling)),
        notes=fabric.notes,
        moves=tuple(_moves(fabric)),
    )


def _cutting(cabling: Cabled) -> Cutting:
    lots = [CableLot(model, length_m, count, ends) for (model, length_m, ends), count in sorted(cabling.bought.items())]
    return Cutting(
        total_m=sum(lot.length_m * lot.count for lot in lots),
        longest_m=max((lot.length_m for lot in lots), default=None),
        not_checked=cabling.model.count(UNKNOWN),
        lots=tuple(lots),
    )


def _placed(cabling: Cabled) -> Iterator[SwitchPlace]:
    used = Counter(cabling.fabric.cables.a)
    used.update(cabling.fabric.cables.b)
    for index, (device, spot) in enumerate(zip(cabling.fabric.devices, cabling.spots, strict=True)):
        if device.kind not in ENDS:
            yield SwitchPlace(
                name=device.name,
                kind=device.kind,  # type: ignore[arg-type]  # a switch, as it is not an end
                model=device.model or "",
                unit=None if device.unit is None else device.unit + 1,
                rail=None if device.rail is None else device.rail + 1,
                ports_used=used[index],
                room=spot.room if spot else None,
                rack=spot.rack if spot else None,
                u=spot.u if spot else None,
            )


def _moves(fabric: Fabric) -> Iterator[CableMove]:
    for move in fabric.moves:
        yield CableMove(move.kind, _ends(fabric, move.taken), _ends(fabric, move.to) if move.to else None)


def _ends(fabric: Fabric, ends: tuple[str, int, str, int]) -> tuple[str, str]:
    a, a_port, b, b_port = ends
    return _end(fabric, a, a_port), _end(fabric, b, b_port)


def _end(fabric: Fabric, name: str, port: int) -> str:
    """Return device and port; a device that the fabric has lost shows the port's number."""
    device = fabric.index.get(name)
    if device is None:
        return f"{name} port {port}"
    label = fabric.port_label(device, port)
    return f"{name} {label}" if fabric.devices[device].kind in ENDS else f"{name} port {label}"
