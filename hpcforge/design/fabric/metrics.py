"""What a fabric carries: oversubscription, bisection, path diversity, and what one failure costs. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from hpcforge.design.fabric.graph import CABLE_KINDS, Fabric
from hpcforge.design.fabric.max_flow import (
    Folded,
    Half,
    columns,
    flow_gbps,
    fold,
    halves,
    without_cable,
    without_switch,
)


@dataclass(frozen=True)
class Failure:
    """What is lost with one switch, or one cable: the first of its kind."""

    what: str  # "leaf", "spine", "core", or a kind of cable
    name: str  # the switch, or both ends of the cable
    alike: int  # how many there are of its kind
    links_lost: int  # links of nodes
    nodes_cut_off: int  # nodes that have no link left
    bisection_gbps: float  # what is left between the same halves


@dataclass(frozen=True)
class Paths:
    """Shortest ways between two leaves."""

    between: str  # "leaves of one group" or "leaves of two groups"
    switches: int  # at the top of the way, to choose from
    ways: int  # that differ in a cable
    disjoint: int  # of which no two share a cable


@dataclass(frozen=True)
class Metrics:
    """What a fabric carries."""

    oversubscription: dict[str, float]
    bisection_gbps: float  # in one direction
    paths: tuple[Paths, ...]
    failures: tuple[Failure, ...]


def metrics(fabric: Fabric) -> Metrics:
    """Compute all of it."""
    whole = fold(fabric)
    cuts = halves(fabric, whole)
    carried = min(flow_gbps(whole, half) for half in cuts)
    return Metrics(oversubscription(fabric), carried, paths(fabric), tuple(_failures(fabric, cuts, whole)))


def bisection_gbps(fabric: Fabric) -> float:
    """What half of the nodes can send to the other half at once, Gb/s of one direction.

    The smaller of two: nodes halved in their order, and leaves halved in theirs. For a tree that is not oversubscribed
    this is nodes x links x rate / 2.
    """
    whole = fold(fabric)
    return min(flow_gbps(whole, half) for half in halves(fabric, whole))


def oversubscription(fabric: Fabric) -> dict[str, float]:
    """What goes down from a switch divided by what goes up, by tier, with every place for a node taken.

    leaf: links of ends x their rate / (uplinks x their rate), of the leaf that has most ends; of a dragonfly to its
    local links. Ports that nothing is to be plugged into do not count. spine, where there are cores: links to leaves /
    links to cores, of a spine that has most leaves. global, of a dragonfly: links of ends of a group x their rate /
    (its global links x their rate). A single switch, and a leaf pair, in which every node is on both switches, have 1.
    """
    down_gbps = fabric.leaf_gbps
    ups = Counter(chain(columns(fabric, "leaf_spine")[0], *columns(fabric, "local")))
    ratios = {"leaf": down_gbps / (max(ups.values()) * fabric.uplink_rate_gbps) if ups else 1.0}
    above = Counter(columns(fabric, "spine_core")[0])
    if above:
        below = Counter(columns(fabric, "leaf_spine")[1])
        ratios["spine"] = max(below.values()) / max(above.values())
    joined = Counter(fabric.devices[device].unit for device in chain(*columns(fabric, "global")))
    if joined:
        leaves = Counter(device.unit for device in fabric.devices if device.kind == "leaf")
        ratios["global"] = down_gbps * max(leaves.values()) / (max(joined.values()) * fabric.uplink_rate_gbps)
    return ratios


def paths(fabric: Fabric) -> tuple[Paths, ...]:
    """Shortest ways between the first leaf and the last of its group, and the last of another group.

    In one group: over each spine, links from the one leaf x links to the other. In two groups: over each core, ways up
    to it x ways down from it; of these as many share no cable as can leave the leaf and go on from the spine.
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
    found = [_over("leaves of one group", links[first], links[near[-1]])] if near else []
    if far and fabric.count("core"):
        uplinks, two = (_up_to_cores(links, leaf) for leaf in (first, far[-1]))
        over = _over("leaves of two groups", uplinks, two)
        disjoint = min(_disjoint_up(links, first), _disjoint_up(links, far[-1]))
        found.append(Paths(over.between, over.switches, over.ways, disjoint))
    return (*found, *_direct(fabric))


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
    """Ways over no other switch: between the switches of a leaf pair, and between groups of a dragonfly."""
    peers = fabric.cable_counts["peer"]
    if peers:
        yield Paths("the two leaves", 0, peers, peers)
    joined = fold(fabric).pairs if fabric.cable_counts["global"] else {}
    if joined:
        fewest = min(joined.values())
        yield Paths("two groups", 0, fewest, fewest)


def _failures(fabric: Fabric, cuts: Sequence[Half], whole: Folded) -> Iterator[Failure]:
    """Yield what the loss of the first switch of each kind costs, and of the first cable of each."""
    links = Counter(node for nodes in whole.ends.values() for node in nodes)
    for what in ("leaf", "spine", "core"):
        number = next((index for index, device in enumerate(fabric.devices) if device.kind == what), None)
        if number is not None:
            yield _failure(
                fabric, cuts, links, what, without_switch(fabric, whole, number), fabric.devices[number].name
            )
    kinds = fabric.cables.kind
    for index, kind in enumerate(CABLE_KINDS):
        if fabric.cable_counts[kind] and kind not in ("other_leaf", "local"):
            cut = kinds.index(index)
            yield _failure(fabric, cuts, links, kind, without_cable(fabric, whole, cut), _cable(fabric, cut))


def _failure(fabric: Fabric, cuts: Sequence[Half], links: Counter[int], what: str, left: Folded, name: str) -> Failure:
    still = Counter(node for nodes in left.ends.values() for node in nodes)
    alike = fabric.cables.kind.count(CABLE_KINDS.index(what)) if what in CABLE_KINDS else _count(fabric, what)
    return Failure(
        what=what,
        name=name,
        alike=alike,
        links_lost=links.total() - still.total(),
        nodes_cut_off=len(links) - len(still),
        bisection_gbps=min(flow_gbps(left, half) for half in cuts),
    )


def _count(fabric: Fabric, kind: str) -> int:
    return sum(device.kind == kind for device in fabric.devices)


def _cable(fabric: Fabric, number: int) -> str:
    """Both ends of a cable: "gpu001 rail 1 - compute-leaf-001 1/1"."""
    c, devices = fabric.cables, fabric.devices
    a, b = c.a[number], c.b[number]
    port, two = fabric.port_label(a, c.a_port[number]), fabric.port_label(b, c.b_port[number])
    return f"{devices[a].name} {port} - {devices[b].name} {two}"
