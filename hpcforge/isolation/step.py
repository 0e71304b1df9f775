"""The next round by the evidence, or the names. Pure.

1. Every node alone: dead and slow nodes, GPUs and adapters are found before another node waits for them.
2. Pairs that share leaves; every pair of few nodes.
3. Pairs across neighbouring leaves, at the same place: every uplink that can carry traffic does.
4. Only low pairs and parts, with good partners, until three measurements agree, or more if low values pass often.

A node or GPU that is low alone is bad; a cable or adapter that is low with every partner; an uplink that is low
from every leaf. Parts that are low now and then, too often for chance, are unsteady.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from hpcforge.isolation.cover import across, inside, unmet
from hpcforge.isolation.evidence import Evidence, Low
from hpcforge.isolation.explain import PairReading, explain
from hpcforge.isolation.judging import excesses, judged, symptoms_again
from hpcforge.isolation.lines import AGREEING, median, needed, surprise
from hpcforge.isolation.state import (
    Alone,
    BadPart,
    Conclusion,
    Counts,
    FleetLine,
    Judgement,
    Pair,
    Part,
    Results,
    Round,
    SeenAlone,
    State,
    Why,
)
from hpcforge.isolation.unsteady import PATIENCE, SUSPECT, UNSTEADY
from hpcforge.isolation.wiring import NodeWiring

# The choice of repeated measurements, their partners and reasons.
_PARTNERS = 2  # partners of a suspect in a round
_TURNS = 4  # pairs of a node in a round
_CONTROL_PAIRS = 2


class Pairs:
    """The pairs of a round under construction: each once, and a bounded number for each node."""

    def __init__(self) -> None:
        self.chosen: dict[tuple[int, int], Pair] = {}
        self.turns: Counter[int] = Counter()

    def add(self, pair: Pair) -> bool:
        """Add a pair if both nodes have a free turn; return whether it is chosen."""
        a, b = sorted((pair.a, pair.b))
        if (a, b) in self.chosen:
            return True
        if a == b or max(self.turns[a], self.turns[b]) >= _TURNS:
            return False
        self.chosen[a, b] = Pair(a, b, pair.why)
        self.turns.update((a, b))
        return True


def pairs_again(evidence: Evidence, explained: PairReading, usable: Collection[int]) -> tuple[Pair, ...]:
    """Return the pairs of the next round: repeats of low pairs, and parts that were never good with good partners."""
    chosen, tainted = Pairs(), _tainted(evidence, explained)
    open_pairs = {
        (measurement.a, measurement.b): number
        for number, _ in explained.open
        for measurement in (evidence.state.met[number],)
    }
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
    """Return nodes and rails that cannot prove another one good: they have a low value, or a bad part."""
    tainted: set[tuple[int, int]] = set()
    for number, place in explained.open:
        measurement = evidence.state.met[number]
        tainted |= {(measurement.a, place // 2), (measurement.b, place // 2)}
    for finding in explained.findings:
        for part in finding.parts:
            if part.kind == "cable":
                tainted.add((part.of, part.at))
            elif part.kind == "node":
                tainted |= {(part.of, rail) for rail in range(evidence.state.wiring.rails)}
            elif part.kind == "leaf":
                tainted |= {*evidence.state.wiring.on_leaf[part.of]}
    return tainted


def _never_good(evidence: Evidence, lows: Collection[Low]) -> Iterator[Part]:
    """Yield the cables and uplinks of low values without a good value in that direction."""
    for low in lows:
        for part in evidence.path(low):
            if part.kind in ("cable", "uplink") and any(low in weight.low for weight in evidence.bad_ways(part)):
                yield part


def _others(
    evidence: Evidence, part: Part, tainted: Collection[tuple[int, int]], usable: Collection[int], chosen: Pairs
) -> Iterator[Pair]:
    """Yield pairs that load a part and otherwise good parts, nodes with the fewest turns first."""
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
        partner
        for number in evidence.of_node[part.of]
        for measurement in (evidence.state.met[number],)
        for partner in measurement[1:3]
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
    """Yield pairs of a leaf's nodes with others over an uplink; nodes at its own place load it both ways."""
    wiring = evidence.state.wiring
    measurements = evidence.state.met
    # drop cables that have carried good values: these do not make this uplink look bad
    tainted = {link for link in tainted if evidence.bad_ways(Part("cable", *link))}
    links = [(node, rail) for node, rail in wiring.on_leaf[part.of] if node in usable and (node, rail) not in tainted]
    links = links or [(node, rail) for node, rail in wiring.on_leaf[part.of] if node in usable]
    later: list[Pair] = []  # of nodes that were paired before
    for node, rail in sorted(links, key=lambda link: wiring.uplink(part.of, *link) != part.at):
        paired = {partner for number in evidence.of_node[node] for partner in measurements[number][1:3]}
        before = {wiring.unit_of[partner] for partner in paired}
        reached = wiring.reached_over(part.of, part.at, rail)
        partners = [partner for partner in reached if partner in usable and (partner, rail) not in tainted]
        own, units = wiring.unit_of[node], len(wiring.units)
        partners.sort(key=lambda partner: (wiring.unit_of[partner] in before, (wiring.unit_of[partner] - own) % units))
        later += [Pair(node, partner, "suspect") for partner in partners if partner in paired]
        yield from (Pair(node, partner, "suspect") for partner in partners if partner not in paired)
    yield from later


def _across(evidence: Evidence, leaf: int, usable: Collection[int]) -> Iterator[Pair]:
    """Yield a pair of each node of a leaf with a node of another leaf, in turn with all of them."""
    units, unit_of = evidence.state.wiring.units, evidence.state.wiring.unit_of
    for place, (node, _) in enumerate(evidence.state.wiring.on_leaf[leaf]):
        turn = len(evidence.of_node[node])
        unit = units[(unit_of[node] + 1 + turn % max(1, len(units) - 1)) % len(units)]
        partner = unit[(place + turn) % len(unit)]
        if node in usable and partner in usable:
            yield Pair(node, partner, "suspect")


def _add_controls(
    evidence: Evidence, chosen: Pairs, tainted: Collection[tuple[int, int]], usable: Collection[int]
) -> None:
    """Add pairs of nodes without low values that are not in the round yet."""
    doubtful = {node for node, _ in tainted} | {*chosen.turns}
    free = [
        number
        for number, measurement in enumerate(evidence.state.met[: 4 * len(evidence.state.wiring.nodes)])
        if not measurement.low
        and measurement.a in usable
        and measurement.b in usable
        and doubtful.isdisjoint((measurement.a, measurement.b))
    ]
    used: set[int] = set()
    for number in free:
        measurement = evidence.state.met[number]
        if len(used) < 2 * _CONTROL_PAIRS and used.isdisjoint((measurement.a, measurement.b)):
            used |= {measurement.a, measurement.b}
            chosen.add(Pair(measurement.a, measurement.b, "control"))


MOST_ROUNDS = 16
_CONTROLS = 3


def begin(wiring: NodeWiring) -> tuple[State, Round]:
    """Return the first round: every node alone."""
    nodes = range(len(wiring.nodes))
    return State(wiring), Round(1, alone=tuple(Alone(node, "first") for node in nodes))


def step(state: State, round_: Round, results: Results) -> tuple[State, Round | Conclusion]:
    """Return the state with the results of a round, and the next round, or the names."""
    state = judged(state, round_, results)
    nodes = _alone(state)
    last = round_.number >= MOST_ROUNDS
    evidence = Evidence(state)
    bad = {part for finding in nodes.findings for part in finding.parts}
    reading = explain(evidence, bad)
    counts = dict(state.counts)
    counts |= {
        "alone": replace(counts["alone"], passing=nodes.passing),
        "pair": replace(counts["pair"], passing=reading.passing),
    }
    state = replace(state, counts=counts)
    usable = {
        node for node in range(len(state.wiring.nodes)) if node not in nodes.silent and Part("node", node) not in bad
    }
    pairs: Sequence[Pair] = ()
    if round_.number <= 2:
        chosen = inside(state.wiring, usable) if round_.number == 1 else across(state.wiring, usable)
        pairs = [_pair(a, b, "first") for a, b in chosen]
    if not pairs and not last:
        pairs = [*(_pair(a, b, "cover") for a, b in unmet(state, usable)), *pairs_again(evidence, reading, usable)]
        pairs += symptoms_again(state, bad, usable)
    repeats = () if last else nodes.again
    if not pairs and not repeats:
        outcome = _outcome(state, (*nodes.findings, *reading.findings), reading.open, evidence)
        return state, replace(outcome, excesses=excesses(state, bad))
    alone = [Alone(node, "repeat") for node in repeats]
    if alone:
        doubtful = {*repeats, *nodes.silent, *(part.of for part in bad)}
        alone += [Alone(node, "control") for node in sorted(usable - doubtful)[:_CONTROLS]]
    return state, Round(round_.number + 1, tuple(alone), _once(pairs))


def _pair(a: int, b: int, reason: Why) -> Pair:
    return Pair(min(a, b), max(a, b), reason)


def _once(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple({(pair.a, pair.b): pair for pair in reversed(pairs)}.values())[::-1]


@dataclass(frozen=True)
class _Nodes:
    """The result of nodes' own measurements: findings, nodes to measure again, and nodes without a last answer."""

    findings: tuple[BadPart, ...]
    again: tuple[int, ...]
    silent: frozenset[int]
    passing: int


def _alone(state: State) -> _Nodes:
    by_node: dict[int, list[SeenAlone]] = defaultdict(list)
    for measurement in state.seen:
        by_node[measurement.node].append(measurement)
    doubtful = sorted({measurement.node for measurement in state.seen if measurement.low})
    findings: list[BadPart] = []
    repeats: list[int] = []
    passing = 0
    for node in doubtful:
        node_findings, open_, passed = _node(state, by_node[node])
        findings += node_findings
        passing += passed
        if open_:
            repeats.append(node)
    silent = frozenset(node for node in doubtful if by_node[node][-1].silent)
    return _Nodes(tuple(findings), tuple(repeats), silent, passing)


def _node(state: State, runs: Sequence[SeenAlone]) -> tuple[list[BadPart], bool, int]:
    """Return the findings of one node, whether to measure it again, and the number of low values that passed."""
    counts = state.counts.get("alone", Counts())
    findings: list[BadPart] = []
    open_, passing = False, 0
    parts = dict.fromkeys(part for run in runs for part in run.low)
    for part in sorted(parts, key=lambda part: part.kind != "node"):
        if findings and findings[0].parts[0].kind == "node":
            break
        low = [run for run in runs if part in run.low]
        later = [run for run in runs if run.round >= low[0].round]
        good = len([run for run in later if part not in run.low and not run.silent])
        chance = surprise(counts, len(low), good)
        if not good and len(low) >= needed(counts):
            findings.append(_finding(state, "bad", part, low, good))
        elif good and len(low) >= AGREEING and chance < UNSTEADY:
            findings.append(_finding(state, "unsteady", part, low, good))
        elif not good or (len(low) > 1 and chance < SUSPECT and len(later) < PATIENCE):
            open_ = True
        else:
            passing += len(low)
    return findings, open_, passing


def _finding(state: State, verdict: Judgement, part: Part, low: Sequence[SeenAlone], good: int) -> BadPart:
    values = [value for run in low for low_part, value in zip(run.low, run.values, strict=True) if low_part == part]
    line = state.lines.get(part.kind, FleetLine(0.0, 0.0))
    rounds = tuple(run.round for run in low)
    return BadPart(verdict, (part,), median(values), line, len(low), good, rounds)


def _outcome(
    state: State, findings: Sequence[BadPart], open_: Collection[tuple[int, int]], evidence: Evidence
) -> Conclusion:
    slow: dict[tuple[Part, ...], list[BadPart]] = defaultdict(list)  # rails of one leaf are one finding
    for rail_findings in state.slow_rails.values():
        slow[rail_findings[0].parts] += rail_findings
    weakest = [min(candidates, key=lambda finding: finding.verdict == "bad") for candidates in slow.values()]
    rails = [replace(finding, low=sum(rail.low for rail in slow[finding.parts])) for finding in weakest]
    rest = [*_not_settled(evidence, open_)]
    return Conclusion((*rails, *findings, *rest))


def _not_settled(evidence: Evidence, lows: Collection[tuple[int, int]]) -> Iterator[BadPart]:
    """Yield the pairs still low at the end and never good: no other partner shows which end is bad."""
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for low in lows:
        measurement = evidence.state.met[low[0]]
        pairs[measurement.a, measurement.b].append(low)
    for (a, b), pair_lows in pairs.items():
        part = Part("pair", a, b)
        yield BadPart(
            "could not tell", (part,), *evidence.measured(pair_lows), len(pair_lows), 0, evidence.rounds(pair_lows)
        )
