"""What is measured again, with which partners, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from hpcforge.isolation.evidence import Evidence, Low
from hpcforge.isolation.explain import PairReading
from hpcforge.isolation.state import Pair, Part

_PARTNERS = 2  # others that a suspect meets in a round
_TURNS = 4  # pairs that a node takes in a round
_CONTROLS = 2


class Pairs:
    """The pairs of a round while it is put together: each once, and a bounded number for each node."""

    def __init__(self) -> None:
        self.chosen: dict[tuple[int, int], Pair] = {}
        self.turns: Counter[int] = Counter()

    def add(self, pair: Pair) -> bool:
        """Add a pair if both have a turn left; whether it is among those chosen now."""
        a, b = sorted((pair.a, pair.b))
        if (a, b) in self.chosen:
            return True
        if a == b or max(self.turns[a], self.turns[b]) >= _TURNS:
            return False
        self.chosen[a, b] = Pair(a, b, pair.why)
        self.turns.update((a, b))
        return True


def pairs_again(evidence: Evidence, explained: PairReading, usable: Collection[int]) -> tuple[Pair, ...]:
    """Pairs of the next round: each that was low repeats, and parts that were never good meet others that are good."""
    chosen, tainted = Pairs(), _tainted(evidence, explained)
    open_pairs = {(met.a, met.b): number for number, _ in explained.open for met in (evidence.state.met[number],)}
    for a, b in sorted(open_pairs):
        if a in usable and b in usable:
            chosen.add(Pair(a, b, "repeat"))
    suspects = dict.fromkeys((*_never_good(evidence, explained.open), *explained.suspects))
    for part in suspects:
        added = 0
        for pair in _others(evidence, part, tainted, usable, chosen):
            added += chosen.add(pair)
            if added >= _PARTNERS and part.kind != "uplinks":
                break
    if chosen.chosen:
        _add_controls(evidence, chosen, tainted, usable)
    return tuple(chosen.chosen.values())


def _tainted(evidence: Evidence, explained: PairReading) -> set[tuple[int, int]]:
    """Nodes and rails that cannot show that another is good: there is a low value, or a bad part, on them."""
    found: set[tuple[int, int]] = set()
    for number, place in explained.open:
        met = evidence.state.met[number]
        found |= {(met.a, place // 2), (met.b, place // 2)}
    for finding in explained.findings:
        for part in finding.parts:
            if part.kind == "cable":
                found.add((part.of, part.at))
            elif part.kind == "node":
                found |= {(part.of, rail) for rail in range(evidence.state.wiring.rails)}
            elif part.kind == "leaf":
                found |= {*evidence.state.wiring.on_leaf[part.of]}
    return found


def _never_good(evidence: Evidence, lows: Collection[Low]) -> Iterator[Part]:
    """The cables and uplinks on the way of low values through which nothing was good in that direction."""
    for low in lows:
        for part in evidence.path(low):
            if part.kind in ("cable", "uplink") and any(low in weight.low for weight in evidence.bad_ways(part)):
                yield part


def _others(
    evidence: Evidence, part: Part, tainted: Collection[tuple[int, int]], usable: Collection[int], chosen: Pairs
) -> Iterator[Pair]:
    """Pairs that load a part and otherwise parts that are good, those first that take no more turns than others."""
    wiring = evidence.state.wiring
    if part.kind == "pair":
        yield Pair(part.of, part.at, "suspect")
        return
    if part.kind == "uplink":
        yield from _over_uplink(evidence, part, tainted, usable)
        return
    if part.kind == "uplinks":
        yield from _across(evidence, part.of, usable)
        return
    if part.of not in usable:
        return
    before = {
        other for number in evidence.of_node[part.of] for met in (evidence.state.met[number],) for other in met[1:3]
    }
    near = wiring.units[wiring.unit_of[part.of]]
    good = [node for node in near if node in usable and node != part.of and (node, part.at) not in tainted]
    if len(good) < _PARTNERS:
        unit = {*near}
        good += [node for node in sorted(usable) if node not in unit and (node, part.at) not in tainted]
    start = part.of % max(1, len(good))
    ordered = sorted(good[start:] + good[:start], key=lambda node: (chosen.turns[node], node in before))
    yield from (Pair(part.of, node, "suspect") for node in ordered)


def _over_uplink(
    evidence: Evidence, part: Part, tainted: Collection[tuple[int, int]], usable: Collection[int]
) -> Iterator[Pair]:
    """Nodes of a leaf with nodes of others, reached over an uplink; those at its own place load it both ways."""
    wiring = evidence.state.wiring
    met = evidence.state.met
    # the cable of a node with low values has carried good ones: then it does not make this uplink look bad
    tainted = {link for link in tainted if evidence.bad_ways(Part("cable", *link))}
    links = [(node, rail) for node, rail in wiring.on_leaf[part.of] if node in usable and (node, rail) not in tainted]
    links = links or [(node, rail) for node, rail in wiring.on_leaf[part.of] if node in usable]
    later: list[Pair] = []  # those that have met
    for node, rail in sorted(links, key=lambda link: wiring.uplink(part.of, *link) != part.at):
        paired = {other for number in evidence.of_node[node] for other in met[number][1:3]}
        before = {wiring.unit_of[other] for other in paired}
        there = wiring.reached_over(part.of, part.at, rail)
        partners = [other for other in there if other in usable and (other, rail) not in tainted]
        own, units = wiring.unit_of[node], len(wiring.units)
        partners.sort(key=lambda other: (wiring.unit_of[other] in before, (wiring.unit_of[other] - own) % units))
        later += [Pair(node, other, "suspect") for other in partners if other in paired]
        yield from (Pair(node, other, "suspect") for other in partners if other not in paired)
    yield from later


def _across(evidence: Evidence, leaf: int, usable: Collection[int]) -> Iterator[Pair]:
    """Each node of a leaf with a node of another, by turns with all of them."""
    units, unit_of = evidence.state.wiring.units, evidence.state.wiring.unit_of
    for place, (node, _) in enumerate(evidence.state.wiring.on_leaf[leaf]):
        turn = len(evidence.of_node[node])
        unit = units[(unit_of[node] + 1 + turn % max(1, len(units) - 1)) % len(units)]
        other = unit[(place + turn) % len(unit)]
        if node in usable and other in usable:
            yield Pair(node, other, "suspect")


def _add_controls(
    evidence: Evidence, chosen: Pairs, tainted: Collection[tuple[int, int]], usable: Collection[int]
) -> None:
    """Pairs of nodes on which nothing was low, and which are not in the round yet."""
    doubtful = {node for node, _ in tainted} | {*chosen.turns}
    free = [
        number
        for number, met in enumerate(evidence.state.met[: 4 * len(evidence.state.wiring.nodes)])
        if not met.low and met.a in usable and met.b in usable and doubtful.isdisjoint((met.a, met.b))
    ]
    taken: set[int] = set()
    for number in free:
        met = evidence.state.met[number]
        if len(taken) < 2 * _CONTROLS and taken.isdisjoint((met.a, met.b)):
            taken |= {met.a, met.b}
            chosen.add(Pair(met.a, met.b, "control"))
