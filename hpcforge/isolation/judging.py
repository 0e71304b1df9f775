"""Find the low values of a round. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median_low

from hpcforge.isolation.lines import AGREEING, higher_line, line_of, median
from hpcforge.isolation.state import (
    Alone,
    BadPart,
    Counts,
    Excess,
    FleetLine,
    Judgement,
    Met,
    NodeValues,
    Pair,
    Part,
    Quantity,
    Results,
    Round,
    SeenAlone,
    State,
    Symptom,
    Why,
)
from hpcforge.isolation.wiring import NodeWiring

# Symptoms of pairs besides rates: long round trips, and segments that TCP sends again, twice or out of order. Pure.
#
# A node shows a symptom if each of its pairs does, in three rounds; a path, if both its ends do not with other
# partners. A line is a multiple of the fleet's median, and of the control pairs' in a round that is slow for all, and
# never below a floor that a busy machine with healthy nodes stays under.


FLOORS: Mapping[Quantity, float] = {
    "round_trip_ms": 1.0,
    "retransmits_per_1000_segments": 5.0,
    "duplicates_per_1000_segments": 5.0,
    "reorders_per_1000_segments": 5.0,
}
_MULTIPLE = 5.0
_MOST_PATHS = 4  # at most one of this many pairs is a slow path: more are a longer way by design
_ROUNDS = 3
_PARTNERS, _CONTROLS = 2, 2  # in a round
Values = Mapping[tuple[int, int], Sequence[Symptom]]


@dataclass(frozen=True)
class _Suspects:
    """The parts with only high values of a quantity on a rail, and these values."""

    quantity: Quantity
    usual: float
    line: float
    high: Mapping[Part, Sequence[Symptom]]
    healthy: Sequence[tuple[int, int]]  # pairs without a suspect


def excesses(state: State, bad_parts: Collection[Part]) -> tuple[Excess, ...]:
    """Return the parts that show a symptom. Nodes of `bad_parts`, and their pairs, do not count."""
    return tuple(
        Excess(
            part,
            suspects.quantity,
            median(symptom.value for symptom in high),
            suspects.usual,
            suspects.line,
            len(high),
            _rounds(high),
        )
        for suspects in _every(state, bad_parts)
        for part, high in suspects.high.items()
        if len(high) >= AGREEING and len(_rounds(high)) >= _ROUNDS
    )


def symptoms_again(state: State, bad_parts: Collection[Part], usable: Collection[int]) -> Iterator[Pair]:
    """Yield the pairs that show whether suspects are bad: with healthy partners, and healthy pairs beside them."""
    for suspects in _every(state, bad_parts):
        open_ = [part for part, high in suspects.high.items() if len(_rounds_with(state, part)) < _ROUNDS]
        bad = {part.of for part in suspects.high if part.kind == "cable"}
        good = [node for node in sorted(usable) if node not in bad]
        for part in open_:
            if part.kind == "pair":
                yield _pair(part.of, part.at, "repeat")
                continue
            turn = part.of + _PARTNERS * len(_rounds_with(state, part))
            partners = [good[(turn + number) % len(good)] for number in range(min(_PARTNERS, len(good)))]
            yield from (_pair(part.of, node, "suspect") for node in partners if part.of in usable)
        if open_:
            yield from (_pair(*pair, "control") for pair in suspects.healthy[:_CONTROLS] if {*pair} <= {*usable})


def _pair(a: int, b: int, reason: Why) -> Pair:
    return Pair(min(a, b), max(a, b), reason)


def _rounds(values: Sequence[Symptom]) -> tuple[int, ...]:
    return tuple(sorted({symptom.round for symptom in values}))


def _rounds_with(state: State, part: Part) -> set[int]:
    """Return the rounds in which a part was in a pair, with or without an answer."""
    ends = {part.of, part.at} if part.kind == "pair" else {part.of}
    return {measurement.round for measurement in state.met if ends <= {measurement.a, measurement.b}}


def _every(state: State, bad_parts: Collection[Part]) -> Iterator[_Suspects]:
    bad = {part.of for part in bad_parts if part.kind == "node"}
    sorted_: dict[tuple[Quantity, int], dict[tuple[int, int], list[Symptom]]] = defaultdict(lambda: defaultdict(list))
    for symptom in state.symptoms:
        if bad.isdisjoint((symptom.a, symptom.b)):
            sorted_[symptom.quantity, symptom.rail][symptom.a, symptom.b].append(symptom)
    for (quantity, rail), values in sorted_.items():
        yield _suspects(state, quantity, rail, values)


def _suspects(state: State, quantity: Quantity, rail: int, values: Values) -> _Suspects:
    by_node: dict[int, list[Symptom]] = defaultdict(list)
    for pair, of_pair in values.items():
        for node in pair:
            by_node[node] += of_pair
    line = _lines(state, quantity, values)
    late = {
        symptom for of_pair in values.values() for symptom in of_pair if symptom.least > line[_compared(state, symptom)]
    }
    high: dict[Part, Sequence[Symptom]] = {
        Part("cable", node, rail): of_node for node, of_node in by_node.items() if late.issuperset(of_node)
    }
    bad = {part.of for part in high}
    paths = [pair for pair, of_pair in values.items() if bad.isdisjoint(pair) and late.issuperset(of_pair)]
    if _MOST_PATHS * len(paths) <= len(values):
        high |= {Part("pair", *pair): values[pair] for pair in paths}
    ends = {node for part in high for node in ((part.of, part.at) if part.kind == "pair" else (part.of,))}
    healthy = [pair for pair in values if ends.isdisjoint(pair)]
    others = [symptom.value for pair in healthy for symptom in values[pair]] or [0.0]
    return _Suspects(quantity, median(others), line[min(line)], high, healthy)


def _compared(state: State, value: Symptom) -> tuple[int, bool]:
    """Return the key of comparable values: the round, and whether the pair is across leaves."""
    return value.round, state.wiring.unit_of[value.a] != state.wiring.unit_of[value.b]


def _lines(state: State, quantity: Quantity, values: Values) -> Mapping[tuple[int, bool], float]:
    """Return the highest normal value, by the key of comparable values."""
    controls = {
        (round_.number, pair.a, pair.b) for round_ in state.rounds for pair in round_.pairs if pair.why == "control"
    }
    by_node: dict[bool, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    control_values: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for symptom in (symptom for of_pair in values.values() for symptom in of_pair):
        place = _compared(state, symptom)
        control_values[place] += [symptom.least] if (symptom.round, symptom.a, symptom.b) in controls else []
        for node in (symptom.a, symptom.b):
            by_node[place[1]][node].append(symptom.least)
    usual = {across: median_low(map(median_low, of_node.values())) for across, of_node in by_node.items()}
    return {
        place: max(FLOORS[quantity], _MULTIPLE * max([usual[place[1]], *([median(controls)] if controls else [])]))
        for place, controls in control_values.items()
    }


_FEW = 3  # the least number of pairs to judge a rail, and of nodes that may all be bad instead
_NEARLY_ALL = 0.9  # the share of low values of a rail that is slow as a whole
Lines = Mapping[str, FleetLine]
PairValues = Mapping[tuple[int, int], tuple[float, ...]]


def judged(state: State, round_: Round, results: Results) -> State:
    """Return the state with the results of a round. The first measurement of a kind sets its lines."""
    lines = dict(state.lines)
    lines |= _lines_of_nodes(results) if "node" not in lines else {}
    kinds, slow = dict[str, dict[tuple[int, int], tuple[float, ...]]](), dict(state.slow_rails)
    for (a, b), values in results.pairs.items():
        kinds.setdefault(_kind(state.wiring, a, b), {})[a, b] = values
    for kind, pairs in sorted(kinds.items(), reverse=True):  # those inside of leaves first
        if f"{kind} 0" not in lines:
            reached = _levels(results.pairs if kind == "inside" else pairs)  # inside of leaves is as fast as across
            lines |= dict(_lines_of_pairs(kind, pairs, reached, lines, state.wiring))
            rails = {*_slow_rails(kind, lines, state.wiring.rails)}
            for rail in rails:
                middle, low = lines[f"{kind} {rail}"].median, 2 * len(pairs)
                good = any(
                    max(values[2 * rail : 2 * rail + 2]) >= lines[kind].at_least for values in results.pairs.values()
                )
                verdict: Judgement = "could not tell" if good or _bad_instead(pairs) <= _FEW else "bad"
                finding = BadPart(
                    verdict, (_rail(state.wiring, rail, rails, pairs),), middle, lines[kind], low, 0, (round_.number,)
                )
                slow[rail] = (*slow.get(rail, ()), finding)
    quiet = _slow_moment(round_, results, lines)
    alone = [_measured_alone(round_.number, test, results, lines, quiet) for test in round_.alone]
    measured_pairs = [*_measured_pairs(state.wiring, round_, results, lines)]
    counts = {
        "alone": _counted(state, "alone", sum(map(_size, results.alone.values()))),
        "pair": _counted(state, "pair", 2 * state.wiring.rails * len(round_.pairs)),
    }
    return replace(
        state,
        rounds=(*state.rounds, round_),
        seen=(*state.seen, *alone),
        met=(*state.met, *measured_pairs),
        lines=lines,
        slow_rails=slow,
        counts=counts,
        symptoms=(*state.symptoms, *results.symptoms),
    )


def _counted(state: State, kind: str, values: int) -> Counts:
    counts = state.counts.get(kind, Counts())
    return replace(counts, values=counts.values + values)


def _size(values: NodeValues) -> int:
    return len(values.compute) + len(values.loopback)


def _kind(wiring: NodeWiring, a: int, b: int) -> str:
    """Return the kind of pairs to compare a pair with: inside of leaves, or across them."""
    return "across" if wiring.unit_of[a] != wiring.unit_of[b] else "inside"


def _lines_of_nodes(results: Results) -> Iterator[tuple[str, FleetLine]]:
    every = results.alone.values()
    if not every:
        return
    yield "node", line_of("node", [[median(values.compute)] for values in every])
    yield "gpu", line_of("gpu", [values.compute for values in every])
    if any(values.loopback for values in every):
        yield "adapter", line_of("adapter", [values.loopback for values in every])


def _lines_of_pairs(
    kind: str, pairs: PairValues, levels: Sequence[float], before: Lines, wiring: NodeWiring
) -> Iterator[tuple[str, FleetLine]]:
    """Yield a line for each rail: by all rails, or by its own values if it is slow as a whole.

    Across leaves a rail is slow as a whole only if it is inside of them, too: else one leaf is, which many pairs share.
    By a plan, all pairs can be as fast as those of some nodes are, and across leaves as fast as inside of them.
    """
    rails = wiring.rails
    every = line_of("pair", _by_node(pairs, slice(None)))
    if wiring.known:
        every = higher_line(every, levels, [*chain.from_iterable(pairs.values())])
    inside = before.get("inside")
    if kind == "across" and inside and wiring.unblocked and every.median < inside.at_least:
        every = inside
    yield kind, every
    slow_before = {*_slow_rails("inside", before, rails)} if "inside" in before else {*range(rails)}
    for rail in range(rails):
        places = slice(2 * rail, 2 * rail + 2)
        low = sum(value < every.at_least for values in pairs.values() for value in values[places])
        slow = low > _NEARLY_ALL * 2 * len(pairs) and len(pairs) >= _FEW and rail in slow_before
        yield f"{kind} {rail}", line_of("pair", _by_node(pairs, places)) if slow else every


def _by_node(pairs: PairValues, places: slice) -> list[list[float]]:
    """Return the values of pairs by node, at both ends: as the reporting first end alone a node has few."""
    by_node: dict[int, list[float]] = {}
    for pair, values in pairs.items():
        for node in pair:
            by_node.setdefault(node, []).extend(values[places])
    return [*by_node.values()]


def _levels(pairs: PairValues) -> list[float]:
    """Return each node's rate with its second best partner, or the only one: the best may report any value."""
    by_node: dict[int, list[float]] = {}
    for pair, values in pairs.items():
        level = sorted(values)[3 * len(values) // 4]
        for node in pair:
            by_node.setdefault(node, []).append(level)
    return [sorted(levels)[-2:][0] for levels in by_node.values()]


def _bad_instead(pairs: Collection[tuple[int, int]]) -> int:
    """Return how many nodes must be bad to make all pairs low: one of each pair, or all nodes but one."""
    return min(len(pairs), len({node for pair in pairs for node in pair}) - 1)


def _slow_rails(kind: str, lines: Lines, rails: int) -> Iterator[int]:
    return (rail for rail in range(rails) if lines[f"{kind} {rail}"].median < lines[kind].at_least)


def _rail(wiring: NodeWiring, rail: int, slow: Collection[int], pairs: Collection[tuple[int, int]]) -> Part:
    """Return a rail; or the leaf that each pair loads there, where everything on the leaf is slow."""
    if wiring.known:
        shared = set.intersection(*({wiring.leaf[a][rail], wiring.leaf[b][rail]} for a, b in pairs))
        for leaf in shared:
            if wiring.rails > 1 and {at for _, at in wiring.on_leaf[leaf]} <= {*slow}:
                return Part("leaf", leaf)
    return Part("rail", rail)


def _slow_moment(round_: Round, results: Results, lines: Lines) -> float:
    """Return the speed of known good nodes in this round, at most 1: others of the round are compared with it."""
    good = [
        median(results.alone[test.node].compute)
        for test in round_.alone
        if test.why == "control" and test.node in results.alone
    ]
    return min(1.0, median(good) / lines["node"].median) if good and lines["node"].median else 1.0


def _measured_alone(number: int, test: Alone, results: Results, lines: Lines, slow: float) -> SeenAlone:
    node, values = test.node, results.alone.get(test.node)
    if values is None:
        return SeenAlone(number, node, (Part("node", node),), (0.0,), silent=True)
    low = [*_low_alone(node, values, lines, slow)]
    return SeenAlone(number, node, tuple(part for part, _ in low), tuple(value for _, value in low), silent=False)


def _low_alone(node: int, values: NodeValues, lines: Lines, slow: float) -> Iterator[tuple[Part, float]]:
    """Yield the node by its GPUs' median, so that one GPU does not make it slow; each of several GPUs by itself."""
    middle = median(values.compute)
    if middle < lines["node"].at_least * slow:
        yield Part("node", node), middle
    if len(values.compute) > 1:
        yield from (
            (Part("gpu", node, gpu), value)
            for gpu, value in enumerate(values.compute)
            if value < lines["gpu"].at_least * slow
        )
    if "adapter" in lines:
        yield from (
            (Part("adapter", node, rail), value)
            for rail, value in enumerate(values.loopback)
            if value < lines["adapter"].at_least
        )


def _measured_pairs(wiring: NodeWiring, round_: Round, results: Results, lines: Lines) -> Iterator[Met]:
    at_least = {}
    for kind in ("inside", "across"):
        from_ = kind if kind in lines else {"inside": "across", "across": "inside"}[kind]
        if from_ in lines:
            at_least[kind] = [lines[f"{from_} {place // 2}"].at_least for place in range(2 * wiring.rails)]
    highest = {kind: max(bounds) for kind, bounds in at_least.items()}
    slow = _slow_pairs(wiring, round_, results, lines)
    every = tuple(range(2 * wiring.rails))
    for a, b, _ in round_.pairs:
        values = results.pairs.get((a, b))
        if values is None:
            yield Met(round_.number, a, b, every, (0.0,) * len(every), silent=True)
            continue
        kind = _kind(wiring, a, b)
        if min(values) >= highest[kind] * slow:
            yield Met(round_.number, a, b, (), (), silent=False)
            continue
        low = tuple(place for place in every if values[place] < at_least[kind][place] * slow)
        yield Met(round_.number, a, b, low, tuple(values[place] for place in low), silent=False)


def _slow_pairs(wiring: NodeWiring, round_: Round, results: Results, lines: Lines) -> float:
    """Return the speed of known good pairs in this round, at most 1: others of the round are compared with it."""
    good = [
        median(results.pairs[pair.a, pair.b]) / lines[kind].median
        for pair in round_.pairs
        if pair.why == "control"
        and (pair.a, pair.b) in results.pairs
        and (kind := _kind(wiring, pair.a, pair.b)) in lines
        and lines[kind].median
    ]
    return min(1.0, median(good)) if good else 1.0
