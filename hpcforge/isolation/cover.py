"""Pairs that load every part once: inside leaves, then across neighbouring leaves, so that each uplink carries traffic.

Neighbouring leaves are taken two at a time, the last of them three or four where the number is odd or the last leaf has
fewer nodes. Nodes at the same place of these leaves form pairs: a shift pattern, which a fat-tree carries without
contention. A node without another at its place is paired with a node of another leaf. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hpcforge.isolation.state import Part, State
from hpcforge.isolation.wiring import NodeWiring

SMALL = 8  # nodes of which every pair is measured


def inside(wiring: NodeWiring, usable: Collection[int]) -> list[tuple[int, int]]:
    """Return pairs of nodes that share leaves; with an odd number one node is in two. A few nodes: every pair."""
    if len(wiring.nodes) <= SMALL:
        return [*_every_pair(sorted(usable))]
    pairs: list[tuple[int, int]] = []
    for unit in wiring.units:
        present = [node for node in unit if node in usable]
        pairs += zip(present[::2], present[1::2], strict=False)
        if len(present) % 2 and len(present) > 1:
            pairs.append((present[-2], present[-1]))
    return pairs


def across(wiring: NodeWiring, usable: Collection[int]) -> list[tuple[int, int]]:
    """Return pairs of nodes at the same place of neighbouring leaves; without a plan, of neighbours not yet paired."""
    if len(wiring.nodes) <= SMALL:
        return []
    if not wiring.known:
        present = [node for node in wiring.units[0] if node in usable]
        return [*zip(present[1::2], present[2::2], strict=False)]
    units = [present for unit in wiring.units if (present := [node for node in unit if node in usable])]
    return [pair for group in _neighbours(units) for pair in _same_places(group, wiring)]


def _every_pair(nodes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each pair once, in turns with one partner for each node."""
    ring = [*nodes, *([-1] if len(nodes) % 2 else [])]
    for _ in range(len(ring) - 1):
        yield from ((a, b) for a, b in zip(ring[: len(ring) // 2], reversed(ring), strict=False) if a >= 0 and b >= 0)
        ring = [ring[0], ring[-1], *ring[1:-1]]


def _neighbours(units: Sequence[list[int]]) -> Iterator[Sequence[list[int]]]:
    if len(units) < 2:
        return
    last = 2
    if len(units) % 2:
        last = 3
    elif len(units) > 2 and len(units[-1]) < len(units[-2]):
        last = 4
    yield from (units[first : first + 2] for first in range(0, len(units) - last, 2))
    yield units[len(units) - last :]


def _same_places(units: Sequence[list[int]], wiring: NodeWiring) -> Iterator[tuple[int, int]]:
    """Yield pairs of one group of leaves: the first node of a place with the others, or with one of another leaf."""
    at_place: dict[int, list[int]] = {}
    for unit in units:
        for node in unit:
            at_place.setdefault(wiring.place[node][0], []).append(node)
    turn = 0
    for place in sorted(at_place):
        first, *others = at_place[place]
        yield from ((first, partner) for partner in others)
        if not others:
            elsewhere = [node for unit in units if first not in unit for node in unit]
            yield elsewhere[turn % len(elsewhere)], first
            turn += 1


def loads(wiring: NodeWiring, a: int, b: int) -> Iterator[tuple[Part, str]]:
    """Yield the cables and uplinks that a pair loads, and the direction: `out` of a node or leaf, or `in`."""
    for rail in range(wiring.rails):
        for source, target in ((a, b), (b, a)):
            yield Part("cable", source, rail), "out"
            yield Part("cable", target, rail), "in"
            if wiring.crosses(source, target, rail):
                for leaf, direction in ((wiring.leaf[source][rail], "out"), (wiring.leaf[target][rail], "in")):
                    uplink = wiring.uplink(leaf, target, rail)
                    if uplink is not None:
                        yield Part("uplink", leaf, uplink), direction


def not_loaded(state: State) -> tuple[tuple[Part, ...], int]:
    """Return cables and uplinks without load in any answered measurement, and the number of uplinks loaded one way."""
    wiring = state.wiring
    loaded: set[tuple[Part, str]] = set()
    for pair in {(measurement.a, measurement.b) for measurement in state.met if not measurement.silent}:
        loaded.update(loads(wiring, *pair))
    cables = [Part("cable", node, rail) for node in range(len(wiring.nodes)) for rail in range(wiring.rails)]
    uplinks = [Part("uplink", leaf, up) for leaf in wiring.on_leaf for up in range(wiring.uplinks[leaf])]
    ways = {part: ((part, "out") in loaded) + ((part, "in") in loaded) for part in (*cables, *uplinks)}
    return tuple(part for part in ways if not ways[part]), sum(ways[part] == 1 for part in uplinks)


def unmet(state: State, usable: Collection[int]) -> list[tuple[int, int]]:
    """Return pairs for usable nodes without a measured pair, preferably inside of their leaf."""
    paired = {node for measurement in state.met for node in (measurement.a, measurement.b)}
    pairs = []
    for node in sorted({*usable} - paired):
        near = [peer for peer in state.wiring.units[state.wiring.unit_of[node]] if peer in usable and peer != node]
        peer = next(iter(near), next((peer for peer in sorted(usable) if peer != node), None))
        if peer is not None:
            pairs.append((node, peer))
    return pairs
