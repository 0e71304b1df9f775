"""What pairs show besides their rates: a long round trip, and what TCP sends again, twice or out of order. Pure.

A node shows a symptom if each of its pairs does, in three rounds; a path, if both its ends do not with other partners.
A line is a multiple of the fleet's median, and of the control pairs' in a round that is slow for all, and never below a
floor that a busy machine with healthy nodes stays under.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from hpcforge.isolation.lines import AGREEING, median
from hpcforge.isolation.state import Excess, Pair, Part, Quantity, State, Symptom, Why

FLOORS: Mapping[Quantity, float] = {
    "round_trip_ms": 1.0,
    "retransmits_per_1000_segments": 5.0,
    "duplicates_per_1000_segments": 5.0,
    "reorders_per_1000_segments": 5.0,
}
_MULTIPLE = 5.0
_MOST_PATHS = 4  # of so many pairs at most one is a path by itself: more are a longer way by design
_ROUNDS = 3
_PARTNERS, _CONTROLS = 2, 2  # in a round
Values = Mapping[tuple[int, int], Sequence[Symptom]]


@dataclass(frozen=True)
class _Suspects:
    """The parts whose every value of a quantity on a rail is high, and those of their pairs that are."""

    quantity: Quantity
    usual: float
    line: float
    high: Mapping[Part, Sequence[Symptom]]
    healthy: Sequence[tuple[int, int]]  # pairs without a suspect


def excesses(state: State, known: Collection[Part]) -> tuple[Excess, ...]:
    """Return the parts that show a symptom. Nodes that are `known` to be bad alone, and their pairs, do not count."""
    return tuple(
        Excess(part, each.quantity, median(it.value for it in high), each.usual, each.line, len(high), _rounds(high))
        for each in _every(state, known)
        for part, high in each.high.items()
        if len(high) >= AGREEING and len(_rounds(high)) >= _ROUNDS
    )


def symptoms_again(state: State, known: Collection[Part], usable: Collection[int]) -> Iterator[Pair]:
    """Yield the pairs that show whether suspects are bad: with healthy partners, and healthy pairs beside them."""
    for each in _every(state, known):
        open_ = [part for part, high in each.high.items() if len(_asked(state, part)) < _ROUNDS]
        bad = {part.of for part in each.high if part.kind == "cable"}
        good = [node for node in sorted(usable) if node not in bad]
        for part in open_:
            if part.kind == "pair":
                yield _pair(part.of, part.at, "repeat")
                continue
            turn = part.of + _PARTNERS * len(_asked(state, part))
            partners = [good[(turn + number) % len(good)] for number in range(min(_PARTNERS, len(good)))]
            yield from (_pair(part.of, node, "suspect") for node in partners if part.of in usable)
        if open_:
            yield from (_pair(*pair, "control") for pair in each.healthy[:_CONTROLS] if {*pair} <= {*usable})


def _pair(a: int, b: int, why: Why) -> Pair:
    return Pair(min(a, b), max(a, b), why)


def _rounds(values: Sequence[Symptom]) -> tuple[int, ...]:
    return tuple(sorted({each.round for each in values}))


def _asked(state: State, part: Part) -> set[int]:
    """Return the rounds in which a part was in a pair, with or without an answer."""
    ends = {part.of, part.at} if part.kind == "pair" else {part.of}
    return {met.round for met in state.met if ends <= {met.a, met.b}}


def _every(state: State, known: Collection[Part]) -> Iterator[_Suspects]:
    bad = {part.of for part in known if part.kind == "node"}
    sorted_: dict[tuple[Quantity, int], dict[tuple[int, int], list[Symptom]]] = defaultdict(lambda: defaultdict(list))
    for each in state.symptoms:
        if bad.isdisjoint((each.a, each.b)):
            sorted_[each.quantity, each.rail][each.a, each.b].append(each)
    for (quantity, rail), values in sorted_.items():
        yield _suspects(state, quantity, rail, values)


def _suspects(state: State, quantity: Quantity, rail: int, values: Values) -> _Suspects:
    by_node: dict[int, list[Symptom]] = defaultdict(list)
    for pair, of_pair in values.items():
        for node in pair:
            by_node[node] += of_pair
    line = _lines(state, quantity, values)
    late = {each for of_pair in values.values() for each in of_pair if each.least > line[_compared(state, each)]}
    high: dict[Part, Sequence[Symptom]] = {
        Part("cable", node, rail): of_node for node, of_node in by_node.items() if late.issuperset(of_node)
    }
    bad = {part.of for part in high}
    paths = [pair for pair, of_pair in values.items() if bad.isdisjoint(pair) and late.issuperset(of_pair)]
    if _MOST_PATHS * len(paths) <= len(values):
        high |= {Part("pair", *pair): values[pair] for pair in paths}
    ends = {node for part in high for node in ((part.of, part.at) if part.kind == "pair" else (part.of,))}
    healthy = [pair for pair in values if ends.isdisjoint(pair)]
    others = [each.value for pair in healthy for each in values[pair]] or [0.0]
    return _Suspects(quantity, median(others), line[min(line)], high, healthy)


def _compared(state: State, value: Symptom) -> tuple[int, bool]:
    """Return what a value is compared with: its round, and whether the pair is of two leaves."""
    return value.round, state.wiring.unit_of[value.a] != state.wiring.unit_of[value.b]


def _lines(state: State, quantity: Quantity, values: Values) -> Mapping[tuple[int, bool], float]:
    """Return the highest value that is not high, by what a value is compared with."""
    controls = {(now.number, pair.a, pair.b) for now in state.rounds for pair in now.pairs if pair.why == "control"}
    by_node: dict[bool, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    beside: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for each in (each for of_pair in values.values() for each in of_pair):
        place = _compared(state, each)
        beside[place] += [each.least] if (each.round, each.a, each.b) in controls else []
        for node in (each.a, each.b):
            by_node[place[1]][node].append(each.least)
    usual = {across: median_low(map(median_low, of_node.values())) for across, of_node in by_node.items()}
    return {
        place: max(FLOORS[quantity], _MULTIPLE * max([usual[place[1]], *([median(controls)] if controls else [])]))
        for place, controls in beside.items()
    }
