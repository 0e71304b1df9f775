"""Run the rounds of a test that isolates bad parts, in its allocation, until they are named.

Each round is one launch on all nodes. What nodes report is checked against the launch: a node speaks of itself alone,
or of a pair that it is the first of, and everything else is refused. What is not reported gave no answer.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.design.fabric.cabling import Labels
from hpcforge.isolation.cover import not_loaded
from hpcforge.isolation.names import PartNames
from hpcforge.isolation.state import (
    BadPart,
    Conclusion,
    Excess,
    NodeValues,
    Part,
    Quantity,
    Results,
    Round,
    State,
    Symptom,
)
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring, wiring
from hpcforge.programs.rank_ports import RANGE
from hpcforge.verify.attribution import TIMED_OUT, Blame, blamed, text_of
from hpcforge.verify.head import Completed, Head
from hpcforge.verify.job_end_reason import end_of
from hpcforge.verify.jobs import HeldAllocation
from hpcforge.verify.launches import run_step
from hpcforge.verify.measurements import Measurement, headline, numbers
from hpcforge.verify.process_verdict import judge_tasks
from hpcforge.verify.step_output import Transcript, read
from hpcforge.verify.step_verdict import unheard
from hpcforge.verify.submit import Launch, NotLaunchableError
from hpcforge.verify.verdicts import Isolation, MeasuredRound, NamedPart, Status, Verdict

# Symptoms of pairs for people: the reason of a part that is named, a part by its latency, or an observation.
_COUNTED: Mapping[Quantity, str] = {
    "retransmits_per_1000_segments": "sent again",
    "duplicates_per_1000_segments": "arrived twice",
    "reorders_per_1000_segments": "arrived out of order",
}
_LATENCY: Quantity = "round_trip_ms"


def reasons(outcome: Conclusion, finding: BadPart, names: PartNames) -> tuple[str, ...]:
    """Return the symptoms of what a finding names, the latency first; none of what another before it names."""
    before = {part for other in outcome.findings[: outcome.findings.index(finding)] for part in other.parts}
    parts = {*finding.parts} - before
    return tuple(_words(each, names) for each in outcome.excesses if each.part in parts)


def latencies(outcome: Conclusion, names: PartNames) -> Iterator[NamedPart]:
    """Yield the parts that only their latency tells."""
    alone = [finding.parts for finding in outcome.findings if len(finding.parts) == 1]
    for each in outcome.excesses:
        if each.quantity == _LATENCY and (each.part,) not in alone:
            nodes = names.nodes(each.part)
            text = [_words(each, names), *(_words(it, names) for it in _beside(outcome, each))]
            text.append(f"{each.values} measurements in rounds {', '.join(map(str, each.rounds))}")
            source = f"the median of the others is {each.usual:.3g} ms"
            yield NamedPart(
                "bad",
                each.part.kind,
                names.words(each.part),
                nodes,
                each.measured,
                "ms",
                0.0,
                source,
                "; ".join(text),
                next_command(each.part, nodes),
                each.at_most,
            )


def observations(outcome: Conclusion, names: PartNames) -> Iterator[str]:
    """Yield what TCP counted at a node that nothing else names."""
    parts = {part for finding in outcome.findings for part in finding.parts}
    parts |= {each.part for each in outcome.excesses if each.quantity == _LATENCY}
    for each in outcome.excesses:
        if each.part.kind == "cable" and each.part not in parts:
            yield _words(each, names)


def next_command(part: Part, nodes: Sequence[str]) -> str:
    """Return what to type on the head to learn more of a part."""
    if part.kind in ("node", "gpu") and nodes:
        return f"scontrol show node {nodes[0]}"
    return f"ssh {nodes[0]} ip -statistics link" if nodes else "hpcforge verify BLUEPRINT --cabling"


def _beside(outcome: Conclusion, latency: Excess) -> Collection[Excess]:
    return [each for each in outcome.excesses if each.part == latency.part and each.quantity != _LATENCY]


def _words(excess: Excess, names: PartNames) -> str:
    where = " to ".join(names.nodes(excess.part))
    if excess.quantity == _LATENCY:
        return f"{where}: latency {excess.measured:.3g} ms, the others {excess.usual:.2g} ms (median)"
    what = _COUNTED[excess.quantity]
    return f"{where}: {excess.measured:.3g} of 1,000 TCP segments {what}, the others {excess.usual:.2g} (median)"


Plans = Callable[[], Sequence[Labels]]  # of fabrics, with what is on the labels of their cables

MOST_BYTES = 100_000  # of all arguments: they may go through one, of which Linux takes 131,072
MOST_KEPT = 2_000  # measurements that a verdict keeps
_UNITS = {"node": "GFLOP/s", "gpu": "GFLOP/s", "adapter": "GB/s"}
_COMPUTE, _RATE = "gflop_per_s", "gb_per_s"
_SHORTEST = "shortest_round_trip_ms"
_SYMPTOMS: tuple[Quantity, ...] = get_args(Quantity)
_MOST = {_COMPUTE: 1e8, _RATE: 1e5}  # a hundred times what a GPU computes and a rail carries today: more is refused
_MOST |= dict.fromkeys((*_SYMPTOMS, _SHORTEST), 1e6)
_STATUS: dict[str, Status] = {"bad": "missed", "unsteady": "missed", "could not tell": "unknown"}


@dataclass(frozen=True)
class _Reports:
    """What a round reported, and what of it was refused."""

    results: Results
    refused: tuple[str, ...]


def run_isolation(
    cluster: Cluster, head: Head, job: Launch, hold: HeldAllocation, progress: Callable[[str], None], names: PartNames
) -> tuple[Verdict, Mapping[str, str]]:
    """Run rounds until there is nothing left to measure; `names` has the wiring of the job's nodes.

    Also the nodes because of which Slurm ended the first round before it began, with why. Raises NotLaunchableError.
    """
    due_s = time.monotonic() + job.time_limit_s
    measurements: list[Measurement] = []
    rounds: list[MeasuredRound] = []
    told: Round | Conclusion
    state, told = begin(names.wiring)
    while isinstance(told, Round):
        began = time.monotonic()
        asked, left_s = told, max(1, round(due_s - time.monotonic()))
        progress(_asks(asked, names))
        launch = _launch(cluster, job, asked, names, left_s)
        ran = run_step(head, launch, hold)
        seen = read(ran, job.turns[0].test, job.layout)
        if stopped := _stopped(head, launch, hold, ran, seen):
            verdict, out = stopped
            if asked.pairs and verdict.status in ("wrong", "timed_out"):
                verdict = blamed(job, verdict, Blame(verdict.status, verdict.detail))  # it may be either end of a pair
            return replace(verdict, isolation=Isolation(tuple(rounds))), out if not rounds else {}
        reports = _reports(job, asked, names, seen)
        if reports.refused:
            text = f"reported measurements that nothing asked for: {fold(sorted({*reports.refused}))}"
            node = reports.refused[0] if len({*reports.refused}) == 1 else None
            return _unusable(job, names, tuple(rounds), measurements, Blame("failed", text, None, node)), {}
        if asked.pairs and not reports.results.pairs and not any(not met.silent for met in state.met):
            why = f": {seen.silent[0]}" if seen.silent else ""
            blame = Blame("unknown", f"no pair of nodes gave an answer{why}")
            return _unusable(job, names, tuple(rounds), measurements, blame), {}
        state, told = step(state, asked, reports.results)
        measurements += seen.measurements
        rounds.append(_measured(state, asked, names, time.monotonic() - began))
    verdict = _verdict(job, state, told, names, tuple(rounds), measurements)
    return replace(verdict, backend=text_of(seen, "backend")), {}


def no_plans() -> Sequence[Labels]:
    """No fabric is known, as in a rehearsal."""
    return ()


def names_of(job: Launch, plans: Sequence[Labels]) -> PartNames:
    """Return the names of the parts of a launch's nodes, by the plan of the fabric that the launch uses.

    A plan is of use where each rail can be measured: it has one, or each node has a GPU for each.
    """
    nodes = [node.name for node in job.nodes]
    gpus = job.real_gpus
    where = {
        node.name: f"rack {node.rack}" + (f", U{node.rack_u}" if node.rack_u else "") for node in job.nodes if node.rack
    }
    for labels in plans:
        fabric = labels.fabric
        of = wiring(nodes, fabric)
        if job.fabric and fabric.name == job.fabric.name and of.known and fabric.rails in (1, gpus):
            return PartNames(of, labels, where)
    return PartNames(NodeWiring(tuple(nodes), max(1, gpus)), None, where)


def _unusable(
    job: Launch,
    names: PartNames,
    rounds: tuple[MeasuredRound, ...],
    measurements: Sequence[Measurement],
    blame: Blame,
) -> Verdict:
    """Return the verdict if a round names no part: the measuring program is more likely at fault than every node."""
    verdict = Verdict(
        job.turns[0].test,
        blame.status,
        names.wiring.nodes,
        launcher=job.launcher,
        ranks=job.ranks,
        measurements=tuple(measurements),
        isolation=Isolation(rounds),
    )
    return blamed(job, verdict, blame)


def _asks(asked: Round, names: PartNames) -> str:
    """Describe the measurements of a round, and their reason."""
    again = sorted({names.wiring.nodes[test.node] for test in asked.alone if test.why == "repeat"})
    suspects = sorted(
        {names.wiring.nodes[node] for p in asked.pairs if p.why in ("repeat", "suspect") for node in p[:2]}
    )
    count = [f"{len(asked.alone)} nodes alone"] if asked.alone else []
    count += [f"{len(asked.pairs)} pairs"] if asked.pairs else []
    why = [f"{fold(again)} alone again"] if again else []
    why += [f"{fold(suspects)} again, with partners that are good"] if suspects else []
    return f"round {asked.number}: {', '.join(count)}" + (f" ({'; '.join(why)})" if why else "")


def _launch(cluster: Cluster, job: Launch, asked: Round, names: PartNames, left_s: int) -> Launch:
    """Return the launch of a round. Its groups are arguments, which no shell reads."""
    (turn,) = job.turns
    nodes = names.wiring.nodes
    told = (
        *turn.arguments,
        f"--nodes={','.join(f'{name}={cluster.by_name[name].address}' for name in nodes)}",
        f"--alone={','.join(nodes[test.node] for test in asked.alone)}",
        f"--pairs={','.join(f'{nodes[pair.a]}:{nodes[pair.b]}' for pair in asked.pairs)}",
        f"--port={RANGE.start + secrets.randbelow(len(RANGE) - 64)}",
        f"--gpus={job.real_gpus}",
    )
    if sum(map(len, told)) > MOST_BYTES:
        raise NotLaunchableError(f"{turn.test} names too many nodes for one launch: {len(nodes)}")
    return replace(job, turns=(replace(turn, arguments=told, time_limit_s=left_s),))


def _stopped(
    head: Head, job: Launch, hold: HeldAllocation, ran: Completed, seen: Transcript
) -> tuple[Verdict, Mapping[str, str]] | None:
    """Return the verdict if a round is unusable, by its time limit, Slurm or a wrong result; None: it is usable."""
    ended_well = ran.rc in (0, None)
    end = None if ended_well else end_of(head, job, hold.number, hold.stay)
    if (
        ran.rc in (TIMED_OUT, None)
        or end is not None
        or seen.wrong
        or seen.failed
        or not (seen.measurements or seen.done)
    ):
        verdict = judge_tasks(job, ran, end)
        return verdict, {} if ended_well else unheard(job, ran, end)
    return None


def _reports(job: Launch, asked: Round, names: PartNames, seen: Transcript) -> _Reports:
    """Return the values of a round, by its measured parts."""
    nodes = {name: number for number, name in enumerate(names.wiring.nodes)}
    alone = {test.node for test in asked.alone}
    pairs = {(pair.a, pair.b) for pair in asked.pairs}
    gpus = range(max(1, job.real_gpus))
    compute: dict[int, dict[int, float]] = {}
    rates: dict[tuple[int, int], dict[int, float]] = {}
    symptoms: list[Symptom] = []
    refused: list[str] = []
    for each in seen.measurements:
        host, node, peer = (nodes.get(str(each.get(key, ""))) for key in ("host", "of_node", "of_peer"))
        if host is None or node != host:
            refused.append(str(each.get("host", "")))
        elif "of_peer" not in each and node in alone and _number(each, _COMPUTE) and each.get("gpu", 0) in gpus:
            compute.setdefault(node, {})[int(each.get("gpu", 0))] = float(each[_COMPUTE])
        elif (
            peer is not None
            and (node, peer) in pairs
            and (place := _place(each, max(names.wiring.rails, job.real_gpus))) is not None
        ):
            if place >= 2 * names.wiring.rails:
                continue  # each GPU measures, and the wiring has fewer rails
            rates.setdefault((node, peer), {})[place] = float(each[_RATE])
            symptoms += _symptoms(each, asked.number, (node, peer), place // 2)
        else:
            refused.append(str(each.get("host", "")))
    every = range(2 * names.wiring.rails)
    results = Results(
        {node: NodeValues(tuple(of.get(gpu, 0.0) for gpu in gpus)) for node, of in compute.items()},
        {pair: tuple(of.get(place, 0.0) for place in every) for pair, of in rates.items()},
        tuple(symptoms),
    )
    return _Reports(results, tuple(refused))


def _symptoms(each: Measurement, number: int, pair: tuple[int, int], rail: int) -> Iterator[Symptom]:
    for name in _SYMPTOMS:
        if name in each:
            least = each.get(_SHORTEST, each[name]) if name == "round_trip_ms" else each[name]
            yield Symptom(number, *pair, rail, name, float(each[name]), float(least))


def _number(each: Measurement, name: str) -> bool:
    value = each.get(name)
    return isinstance(value, (int, float)) and 0 <= value <= _MOST[name] and isinstance(each.get("gpu", 0), int)


def _place(each: Measurement, rails: int) -> int | None:
    """Where a pair's value is among those of the pair; None: it is of no rail that there is."""
    rail, direction = each.get("of_rail"), each.get("of_direction")
    names = (_RATE, *(name for name in (*_SYMPTOMS, _SHORTEST) if name in each))
    if not isinstance(rail, int) or direction not in ("out", "in") or not all(_number(each, name) for name in names):
        return None
    return 2 * rail + (direction == "in") if 0 <= rail < rails else None


def _measured(state: State, asked: Round, names: PartNames, seconds: float) -> MeasuredRound:
    """Return a round for the report: its measurements, their reason, and the low ones."""
    nodes, number = names.wiring.nodes, asked.number
    low = [names.words(part) for seen in state.seen if seen.round == number for part in seen.low]
    for met in (met for met in state.met if met.round == number and met.low):
        ends = f"{nodes[met.a]} and {nodes[met.b]}"
        low.append(f"{ends}: no answer" if met.silent else f"{ends}: {_ways(met.low, met.values, names)}")
    return MeasuredRound(
        number,
        round(seconds, 1),
        tuple(f"{nodes[test.node]} ({test.why})" for test in asked.alone),
        tuple(f"{nodes[pair.a]}-{nodes[pair.b]} ({pair.why})" for pair in asked.pairs),
        tuple(low),
    )


def _ways(places: Sequence[int], values: Sequence[float], names: PartNames) -> str:
    rails = names.wiring.rails > 1
    return ", ".join(
        f"{f'rail {place // 2 + 1} ' if rails else ''}{'back' if place % 2 else 'out'} {value:.3g} GB/s"
        for place, value in zip(places, values, strict=True)
    )


def _verdict(
    job: Launch,
    state: State,
    outcome: Conclusion,
    names: PartNames,
    rounds: tuple[MeasuredRound, ...],
    measurements: Sequence[Measurement],
) -> Verdict:
    (turn,) = job.turns
    named = tuple(
        _named(finding, names, _direction(state, finding.parts[0]), reasons(outcome, finding, names))
        for finding in without_repeats(outcome.findings)
    )
    named += tuple(latencies(outcome, names))
    parts, one_way = not_loaded(state)
    idle = tuple(_idle(parts, names))
    verdict = Verdict(
        turn.test,
        "passed",
        names.wiring.nodes,
        launcher=job.launcher,
        ranks=job.ranks,
        measurements=tuple(measurements) if len(measurements) <= MOST_KEPT else (),
        headline=f"{headline(turn.program, numbers(turn.program, measurements))}; {len(rounds)} rounds",
        isolation=Isolation(rounds, named, idle, one_way, tuple(observations(outcome, names))),
    )
    if not named:
        return verdict
    worst = min(named, key=lambda each: ("bad", "unsteady", "could not tell").index(each.verdict))
    status: Status = "failed" if worst.verdict == "bad" and not worst.measured else _STATUS[worst.verdict]
    detail = "; ".join(f"{each.part}: {each.detail}" for each in named[:8])
    more = f"; and {len(named) - 8} more parts" if len(named) > 8 else ""
    nodes = {each.nodes for each in named if each.verdict == worst.verdict}
    only = nodes.pop() if len(nodes) == 1 else ()
    node = only[0] if len(only) == 1 else None
    return blamed(job, verdict, Blame(status, detail + more, None, node, worst.next_command))


def without_repeats(findings: Sequence[BadPart]) -> Iterator[BadPart]:
    """Yield findings but for those that belong to a network that is named: that again, and two or more of its paths.

    Losses make some paths of a node low each time and others now and then: one fault, and one name.
    """
    single = [(each, each.parts[0]) for each in findings if len(each.parts) == 1]
    networks = {part.of for each, part in single if part.kind == "cable" and each.verdict != "could not tell"}
    paths = Counter(node for _, part in single if part.kind == "pair" for node in (part.of, part.at))
    several = {node for node in networks if paths[node] > 1}
    before: set[tuple[Part, ...]] = set()
    for each in findings:
        path = each.parts[0] if len(each.parts) == 1 and each.parts[0].kind == "pair" else None
        if each.parts not in before and not (path and {path.of, path.at} & several):
            yield each
        before.add(each.parts)


def _direction(state: State, part: Part) -> str:
    """Return the only direction in which a node's link was low: "towards" or "from" it; "" for both."""
    if part.kind != "cable":
        return ""
    sends = {
        (place % 2 == 0) == (met.a == part.of)
        for met in state.met
        if part.of in (met.a, met.b)
        for place in met.low
        if place // 2 == part.at
    }
    return ("from" if sends.pop() else "towards") if len(sends) == 1 else ""


def _named(finding: BadPart, names: PartNames, direction: str, symptoms: Sequence[str]) -> NamedPart:
    """Return a finding with the names of its parts."""
    part, line = finding.parts[0], finding.line
    unit = _UNITS.get(part.kind, "GB/s")
    if finding.measured:
        numbers_ = f"{finding.measured:.3g} {unit}, must be at least {line.at_least:.3g} {unit}"
    else:
        numbers_ = "no answer"
    agree = f"{finding.low} values below the line in rounds {', '.join(map(str, finding.rounds))}"
    agree += f", {finding.good} not" if finding.good else ""
    source = f"{line.at_least / line.median:.2f} of the median {line.median:.3g} {unit}" if line.median else ""
    only = f"only {direction} {names.wiring.nodes[part.of]}" if direction else ""
    numbers_ += f", {source}" if source and finding.measured else ""
    detail = "; ".join(text for text in (*symptoms, numbers_, only, agree) if text)
    which = "cannot tell which end: " if part.kind in ("cable", "pair") else "cannot tell which: "
    said = {"bad": "", "unsteady": "unsteady: ", "could not tell": which}[finding.verdict]
    nodes = tuple(dict.fromkeys(node for each in finding.parts for node in names.nodes(each)))
    return NamedPart(
        finding.verdict,
        part.kind,
        names.all(finding),
        nodes,
        finding.measured,
        unit,
        line.at_least,
        source,
        said + detail,
        next_command(part, nodes),
    )


def _idle(parts: Sequence[Part], names: PartNames) -> Iterator[str]:
    """Yield the parts that no round loaded: cables by name, uplinks by leaf."""
    yield from (names.words(part) for part in parts if part.kind == "cable")
    of_leaf: dict[int, int] = {}
    for part in parts:
        if part.kind == "uplink":
            of_leaf[part.of] = of_leaf.get(part.of, 0) + 1
    yield from (f"{count} uplinks of {names.words(Part('leaf', leaf))}" for leaf, count in of_leaf.items())
