"""The next round by what is known, or the names. Pure.

1. Every node alone: dead and slow nodes, GPUs and adapters are found before another node waits for them.
2. Pairs that share leaves; of a few nodes every pair.
3. Pairs across neighbouring leaves, at the same place: every uplink that can carry traffic does.
4. Only what was low, with partners that are good, until three measurements agree, or more where low values pass often.

A node or GPU that is low alone is bad; a cable or adapter that is low with every partner; an uplink that is low
from every leaf. Parts that are low now and then, too often for chance, are unsteady.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from hpcforge.isolation.again import pairs_again
from hpcforge.isolation.cover import across, inside, unmet
from hpcforge.isolation.evidence import Evidence
from hpcforge.isolation.explain import explain
from hpcforge.isolation.judging import judged
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
from hpcforge.isolation.symptoms import excesses, symptoms_again
from hpcforge.isolation.unsteady import PATIENCE, SUSPECT, UNSTEADY
from hpcforge.isolation.wiring import NodeWiring

MOST_ROUNDS = 16
_CONTROLS = 3


def begin(wiring: NodeWiring) -> tuple[State, Round]:
    """The first round: every node alone."""
    nodes = range(len(wiring.nodes))
    return State(wiring), Round(1, alone=tuple(Alone(node, "first") for node in nodes))


def step(state: State, now: Round, results: Results) -> tuple[State, Round | Conclusion]:
    """The state with the results of a round, and the next round, or the names."""
    state = judged(state, now, results)
    nodes = _alone(state)
    last = now.number >= MOST_ROUNDS
    evidence = Evidence(state)
    known = {part for finding in nodes.findings for part in finding.parts}
    told = explain(evidence, known)
    counts = dict(state.counts)
    counts |= {
        "alone": replace(counts["alone"], passing=nodes.passing),
        "pair": replace(counts["pair"], passing=told.passing),
    }
    state = replace(state, counts=counts)
    usable = {
        node for node in range(len(state.wiring.nodes)) if node not in nodes.silent and Part("node", node) not in known
    }
    pairs: Sequence[Pair] = ()
    if now.number <= 2:
        chosen = inside(state.wiring, usable) if now.number == 1 else across(state.wiring, usable)
        pairs = [_pair(a, b, "first") for a, b in chosen]
    if not pairs and not last:
        pairs = [*(_pair(a, b, "cover") for a, b in unmet(state, usable)), *pairs_again(evidence, told, usable)]
        pairs += symptoms_again(state, known, usable)
    again = () if last else nodes.again
    if not pairs and not again:
        outcome = _outcome(state, (*nodes.findings, *told.findings), told.open, evidence)
        return state, replace(outcome, excesses=excesses(state, known))
    alone = [Alone(node, "repeat") for node in again]
    if alone:
        doubtful = {*again, *nodes.silent, *(part.of for part in known)}
        alone += [Alone(node, "control") for node in sorted(usable - doubtful)[:_CONTROLS]]
    return state, Round(now.number + 1, tuple(alone), _once(pairs))


def _pair(a: int, b: int, why: Why) -> Pair:
    return Pair(min(a, b), max(a, b), why)


def _once(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    return tuple({(pair.a, pair.b): pair for pair in reversed(pairs)}.values())[::-1]


@dataclass(frozen=True)
class _Nodes:
    """What measurements of nodes alone say: who is measured again, and who gave no answer the last time."""

    findings: tuple[BadPart, ...]
    again: tuple[int, ...]
    silent: frozenset[int]
    passing: int


def _alone(state: State) -> _Nodes:
    by_node: dict[int, list[SeenAlone]] = defaultdict(list)
    for seen in state.seen:
        by_node[seen.node].append(seen)
    doubtful = sorted({seen.node for seen in state.seen if seen.low})
    findings: list[BadPart] = []
    again: list[int] = []
    passing = 0
    for node in doubtful:
        found, open_, passed = _node(state, by_node[node])
        findings += found
        passing += passed
        if open_:
            again.append(node)
    silent = frozenset(node for node in doubtful if by_node[node][-1].silent)
    return _Nodes(tuple(findings), tuple(again), silent, passing)


def _node(state: State, runs: Sequence[SeenAlone]) -> tuple[list[BadPart], bool, int]:
    """What is named of one node, whether it is to be measured again, and how many low values passed."""
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
            findings.append(_found(state, "bad", part, low, good))
        elif good and len(low) >= AGREEING and chance < UNSTEADY:
            findings.append(_found(state, "unsteady", part, low, good))
        elif not good or (len(low) > 1 and chance < SUSPECT and len(later) < PATIENCE):
            open_ = True
        else:
            passing += len(low)
    return findings, open_, passing


def _found(state: State, verdict: Judgement, part: Part, low: Sequence[SeenAlone], good: int) -> BadPart:
    values = [value for run in low for of, value in zip(run.low, run.values, strict=True) if of == part]
    line = state.lines.get(part.kind, FleetLine(0.0, 0.0))
    rounds = tuple(run.round for run in low)
    return BadPart(verdict, (part,), median(values), line, len(low), good, rounds)


def _outcome(
    state: State, findings: Sequence[BadPart], open_: Collection[tuple[int, int]], evidence: Evidence
) -> Conclusion:
    slow: dict[tuple[Part, ...], list[BadPart]] = defaultdict(list)  # rails of one leaf are one finding
    for of in state.slow_rails.values():
        slow[of[0].parts] += of
    weakest = [min(each, key=lambda it: it.verdict == "bad") for each in slow.values()]
    rails = [replace(it, low=sum(other.low for other in slow[it.parts])) for it in weakest]
    rest = [*_not_settled(evidence, open_)]
    return Conclusion((*rails, *findings, *rest))


def _not_settled(evidence: Evidence, lows: Collection[tuple[int, int]]) -> Iterator[BadPart]:
    """What was still low at the end and never good: each pair, since no other partner told which end it is."""
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for low in lows:
        met = evidence.state.met[low[0]]
        pairs[met.a, met.b].append(low)
    for (a, b), of in pairs.items():
        part = Part("pair", a, b)
        yield BadPart("could not tell", (part,), *evidence.measured(of), len(of), 0, evidence.rounds(of))
