"""A fabric folded up, and the maximum flow through it. Pure.

The spines of a group are folded to one switch, and all cores to one. Every leaf has equally many links to every spine
of its group, and every group to the cores of every plane, so that traffic can be spread evenly: what the folded fabric
carries, the fabric carries (a test compares it with the maximum flow of the graph). A group of a dragonfly is folded
to one switch, too; that is exact where halves are whole groups.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Fabric

Key = TypeVar("Key")
Half = Callable[[int, list[int]], float]  # of a leaf and the nodes on it, by link: how many of these links send


@dataclass(frozen=True)
class Folded:
    """A fabric folded up, in numbers of links; devices by their number in the fabric."""

    ends: Mapping[int, list[int]]  # leaf: the node of each link that is plugged into it
    group: Mapping[int, int]  # leaf: its group, or itself where no spine is above it
    up: Mapping[int, int]  # leaf: links to its group; none where no spine is above it
    group_up: Mapping[int, int]  # group: links to the cores
    pairs: Mapping[tuple[int, int], int]  # links between two groups that are joined directly
    rate_gbps: float  # of a node's link
    link_gbps: float  # of any other


def columns(fabric: Fabric, kind: CableKind) -> tuple[array[int], array[int]]:
    """Devices at both ends of the cables of a kind; they stand together in a fabric."""
    cables, number = fabric.cables, CABLE_KINDS.index(kind)
    count = cables.kind.count(number)
    first = cables.kind.index(number) if count else 0
    return cables.a[first : first + count], cables.b[first : first + count]


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


def without_switch(fabric: Fabric, whole: Folded, switch: int) -> Folded:
    """What is left of a folded fabric when a switch is lost."""
    units = [device.unit or 0 for device in fabric.devices]
    device = fabric.devices[switch]
    pairs = Counter(whole.pairs)
    for kind in ("peer", "global"):
        for a, b in zip(*columns(fabric, kind), strict=True):
            if switch in (a, b):
                pairs[(a, b) if kind == "peer" else (units[a], units[b])] -= 1
    if device.kind == "leaf":
        up = _less(whole.up, [switch] * whole.up.get(switch, 0))
        return replace(whole, ends={**whole.ends, switch: []}, up=up, pairs=pairs)
    lower, upper = columns(fabric, "leaf_spine")
    up = _less(whole.up, (leaf for leaf, spine in zip(lower, upper, strict=True) if spine == switch))
    lower, upper = columns(fabric, "spine_core")
    lost = (units[spine] for spine, core in zip(lower, upper, strict=True) if switch in (spine, core))
    return replace(whole, up=up, group_up=_less(whole.group_up, lost), pairs=pairs)


def without_cable(fabric: Fabric, whole: Folded, number: int) -> Folded:
    """What is left of a folded fabric when a cable is lost."""
    a, b = fabric.cables.a[number], fabric.cables.b[number]
    kind = CABLE_KINDS[fabric.cables.kind[number]]
    unit, two = fabric.devices[a].unit or 0, fabric.devices[b].unit or 0
    if kind == "node_leaf":
        left = list(whole.ends[b])
        left.remove(a)
        return replace(whole, ends={**whole.ends, b: left})
    if kind == "leaf_spine":
        return replace(whole, up=_less(whole.up, [a]))
    if kind == "spine_core":
        return replace(whole, group_up=_less(whole.group_up, [unit]))
    pair = (a, b) if kind == "peer" else (unit, two)
    return replace(whole, pairs=_less(whole.pairs, [pair] if kind in ("peer", "global") else []))


def _less(counts: Mapping[Key, int], lost: Iterable[Key]) -> dict[Key, int]:
    left = dict(counts)
    for key in lost:
        left[key] -= 1
    return left


def flow_gbps(folded: Folded, half: Half) -> float:
    """The maximum flow from one half of the ends to the other, Gb/s.

    It is the smallest cut: every leaf, every group and the cores are put on the senders' side or on the other, and what
    leads from the one to the other is summed up. On the senders' side a leaf costs what its ends take, on the other
    what they send.
    """
    sender: dict[int, float] = defaultdict(float)  # what a group costs that is on the senders' side
    taker: dict[int, float] = defaultdict(float)
    for leaf, nodes in folded.ends.items():
        send = half(leaf, nodes)
        a, b = send * folded.rate_gbps, (len(nodes) - send) * folded.rate_gbps
        up = folded.up[leaf] * folded.link_gbps if folded.up else inf
        sender[folded.group[leaf]] += min(b, a + up)
        taker[folded.group[leaf]] += min(a, b + up)
    if not folded.group_up:
        return _joined(folded, sender, taker)
    ups = {group: links * folded.link_gbps for group, links in folded.group_up.items()}
    return min(
        sum(min(sender[group], taker[group] + up) for group, up in ups.items()),
        sum(min(taker[group], sender[group] + up) for group, up in ups.items()),
    )


def _joined(folded: Folded, sender: Mapping[int, float], taker: Mapping[int, float]) -> float:
    """The smallest cut where groups are joined in pairs, all by equally many links.

    With k of g groups on the senders' side, k x (g - k) pairs are cut, whichever groups they are: so those are taken
    that cost least there.
    """
    beside: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (unit, two), links in folded.pairs.items():
        beside[unit].append((two, links))
        beside[two].append((unit, links))
    best = total = sum(taker.values())
    sending: set[int] = set()
    for group in sorted(sender, key=lambda g: sender[g] - taker[g]):
        across = sum(-links if other in sending else links for other, links in beside[group])
        total += sender[group] - taker[group] + across * folded.link_gbps
        sending.add(group)
        best = min(best, total)
    return best


def halves(fabric: Fabric, whole: Folded) -> tuple[Half, ...]:
    """The two ways in which a fabric is cut in half: by nodes in their order, and by leaves in theirs.

    An odd node, or the leaf in the middle, is half on either side. In a leaf pair, whose nodes are on both leaves,
    there is only the first.
    """
    count = fabric.count("node")
    weights = [min(1.0, max(0.0, count / 2 - node)) for node in range(count)]
    parts: dict[int, float] = {}
    left = sum(map(len, whole.ends.values())) / 2
    for leaf in sorted(whole.ends, key=lambda leaf: (whole.group[leaf], leaf)):
        there = len(whole.ends[leaf])
        parts[leaf] = min(1.0, max(0.0, left / there)) if there else 0.0
        left -= there

    def by_nodes(_: int, nodes: list[int]) -> float:
        return sum(map(weights.__getitem__, nodes))

    def by_leaves(leaf: int, nodes: list[int]) -> float:
        return parts[leaf] * len(nodes)

    return (by_nodes,) if fabric.topology == "leaf-pair" else (by_nodes, by_leaves)
