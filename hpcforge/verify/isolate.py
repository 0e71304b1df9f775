"""Run the rounds of a test that isolates bad parts, in its allocation, until they are named.

Each round is one launch on all nodes. Reports are checked against the launch: a node may report on itself, or on a pair
with itself as the first node; all others are refused. A missing report is a missing answer.
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

# Symptoms of pairs for people: the reason of a named part, a part by its latency, or an observation.
_COUNTED: Mapping[Quantity, str] = {
    "retransmits_per_1000_segments": "sent again",
    "duplicates_per_1000_segments": "arrived twice",
    "reorders_per_1000_segments": "arrived out of order",
}
_LATENCY: Quantity = "round_trip_ms"


def reasons(outcome: Conclusion, finding: BadPart, names: PartNames) -> tuple[str, ...]:
    """Return the symptoms of a finding's parts, the latency first, without those of earlier findings."""
    before = {part for earlier in outcome.findings[: outcome.findings.index(finding)] for part in earlier.parts}
    parts = {*finding.parts} - before
    return tuple(_describe(excess, names) for excess in outcome.excesses if excess.part in parts)


def latencies(outcome: Conclusion, names: PartNames) -> Iterator[NamedPart]:
    """Yield the parts that are bad by their latency alone."""
    alone = [finding.parts for finding in outcome.findings if len(finding.parts) == 1]
    for excess in outcome.excesses:
        if excess.quantity == _LATENCY and (excess.part,) not in alone:
            nodes = names.nodes(excess.part)
            text = [
                _describe(excess, names),
                *(_describe(symptom, names) for symptom in _other_symptoms(outcome, excess)),
            ]
            text.append(f"{excess.values} measurements in rounds {', '.join(map(str, excess.rounds))}")
            source = f"the median of the others is {excess.usual:.3g} ms"
            yield NamedPart(
                "bad",
                excess.part.kind,
                names.words(excess.part),
                nodes,
                excess.measured,
                "ms",
                0.0,
                source,
                "; ".join(text),
                next_command(excess.part, nodes),
                excess.at_most,
            )


def observations(outcome: Conclusion, names: PartNames) -> Iterator[str]:
    """Yield TCP's counts at nodes that no finding names."""
    parts = {part for finding in outcome.findings for part in finding.parts}
    parts |= {excess.part for excess in outcome.excesses if excess.quantity == _LATENCY}
    for excess in outcome.excesses:
        if excess.part.kind == "cable" and excess.part not in parts:
            yield _describe(excess, names)


def next_command(part: Part, nodes: Sequence[str]) -> str:
    """Return a command for the head that shows more about a part."""
    if part.kind in ("node", "gpu") and nodes:
        return f"scontrol show node {nodes[0]}"
    return f"ssh {nodes[0]} ip -statistics link" if nodes else "hpcforge verify BLUEPRINT --cabling"


def _other_symptoms(outcome: Conclusion, latency: Excess) -> Collection[Excess]:
    return [excess for excess in outcome.excesses if excess.part == latency.part and excess.quantity != _LATENCY]


def _describe(excess: Excess, names: PartNames) -> str:
    ends = " to ".join(names.nodes(excess.part))
    if excess.quantity == _LATENCY:
        return f"{ends}: latency {excess.measured:.3g} ms, the others {excess.usual:.2g} ms (median)"
    event = _COUNTED[excess.quantity]
    return f"{ends}: {excess.measured:.3g} of 1,000 TCP segments {event}, the others {excess.usual:.2g} (median)"


Plans = Callable[[], Sequence[Labels]]  # of fabrics, with the labels of their cables

MOST_BYTES = 100_000  # of all arguments: a shell may join them into one, of at most 131,072 on Linux
MOST_KEPT = 2_000  # measurements that a verdict keeps
_UNITS = {"node": "GFLOP/s", "gpu": "GFLOP/s", "adapter": "GB/s"}
_COMPUTE, _RATE = "gflop_per_s", "gb_per_s"
_SHORTEST = "shortest_round_trip_ms"
_SYMPTOMS: tuple[Quantity, ...] = get_args(Quantity)
_MOST = {_COMPUTE: 1e8, _RATE: 1e5}  # a hundred times a GPU's and a rail's rate today: more is refused
_MOST |= dict.fromkeys((*_SYMPTOMS, _SHORTEST), 1e6)
_STATUS: dict[str, Status] = {"bad": "missed", "unsteady": "missed", "could not tell": "unknown"}


@dataclass(frozen=True)
class _Reports:
    """The results of a round, and the nodes with refused reports."""

    results: Results
    refused: tuple[str, ...]


def run_isolation(
    cluster: Cluster, head: Head, job: Launch, hold: HeldAllocation, progress: Callable[[str], None], names: PartNames
) -> tuple[Verdict, Mapping[str, str]]:
    """Run rounds until there is nothing left to measure; `names` has the wiring of the job's nodes.

    Also return the nodes that made Slurm end the first round before it began, with reasons. Raise NotLaunchableError.
    """
    due_s = time.monotonic() + job.time_limit_s
    measurements: list[Measurement] = []
    rounds: list[MeasuredRound] = []
    decision: Round | Conclusion
    state, decision = begin(names.wiring)
    while isinstance(decision, Round):
        began = time.monotonic()
        round_, left_s = decision, max(1, round(due_s - time.monotonic()))
        progress(_describe_round(round_, names))
        launch = _launch(cluster, job, round_, names, left_s)
        ran = run_step(head, launch, hold)
        transcript = read(ran, job.turns[0].test, job.layout)
        if stopped := _stopped(head, launch, hold, ran, transcript):
            verdict, out = stopped
            if round_.pairs and verdict.status in ("wrong", "timed_out"):
                verdict = blamed(job, verdict, Blame(verdict.status, verdict.detail))  # of a pair, either end
            return replace(verdict, isolation=Isolation(tuple(rounds))), out if not rounds else {}
        reports = _reports(job, round_, names, transcript)
        if reports.refused:
            text = f"reported unrequested measurements: {fold(sorted({*reports.refused}))}"
            node = reports.refused[0] if len({*reports.refused}) == 1 else None
            return _unusable(job, names, tuple(rounds), measurements, Blame("failed", text, None, node)), {}
        if round_.pairs and not reports.results.pairs and not any(not measurement.silent for measurement in state.met):
            reason = f": {transcript.silent[0]}" if transcript.silent else ""
            blame = Blame("unknown", f"no pair of nodes gave an answer{reason}")
            return _unusable(job, names, tuple(rounds), measurements, blame), {}
        state, decision = step(state, round_, reports.results)
        measurements += transcript.measurements
        rounds.append(_measured(state, round_, names, time.monotonic() - began))
    verdict = _verdict(job, state, decision, names, tuple(rounds), measurements)
    return replace(verdict, backend=text_of(transcript, "backend")), {}


def names_of(job: Launch, plans: Sequence[Labels]) -> PartNames:
    """Return the names of the parts of a launch's nodes, by the plan of the fabric that the launch uses.

    A plan is used if each rail can be measured: it has one rail, or each node has a GPU for each.
    """
    nodes = [node.name for node in job.nodes]
    gpus = job.real_gpus
    places = {
        node.name: f"rack {node.rack}" + (f", U{node.rack_u}" if node.rack_u else "") for node in job.nodes if node.rack
    }
    for labels in plans:
        fabric = labels.fabric
        node_wiring = wiring(nodes, fabric)
        if job.fabric and fabric.name == job.fabric.name and node_wiring.known and fabric.rails in (1, gpus):
            return PartNames(node_wiring, labels, places)
    return PartNames(NodeWiring(tuple(nodes), max(1, gpus)), None, places)


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


def _describe_round(round_: Round, names: PartNames) -> str:
    """Describe the measurements of a round, and their reason."""
    repeats = sorted({names.wiring.nodes[test.node] for test in round_.alone if test.why == "repeat"})
    suspects = sorted(
        {names.wiring.nodes[node] for p in round_.pairs if p.why in ("repeat", "suspect") for node in p[:2]}
    )
    count = [f"{len(round_.alone)} nodes alone"] if round_.alone else []
    count += [f"{len(round_.pairs)} pairs"] if round_.pairs else []
    purposes = [f"{fold(repeats)} alone again"] if repeats else []
    purposes += [f"{fold(suspects)} again, with partners that are good"] if suspects else []
    return f"round {round_.number}: {', '.join(count)}" + (f" ({'; '.join(purposes)})" if purposes else "")


def _launch(cluster: Cluster, job: Launch, round_: Round, names: PartNames, left_s: int) -> Launch:
    """Return the launch of a round. Its groups are arguments, which no shell reads."""
    (turn,) = job.turns
    nodes = names.wiring.nodes
    arguments = (
        *turn.arguments,
        f"--nodes={','.join(f'{name}={cluster.by_name[name].address}' for name in nodes)}",
        f"--alone={','.join(nodes[test.node] for test in round_.alone)}",
        f"--pairs={','.join(f'{nodes[pair.a]}:{nodes[pair.b]}' for pair in round_.pairs)}",
        f"--port={RANGE.start + secrets.randbelow(len(RANGE) - 64)}",
        f"--gpus={job.real_gpus}",
    )
    if sum(map(len, arguments)) > MOST_BYTES:
        raise NotLaunchableError(f"{turn.test} names too many nodes for one launch: {len(nodes)}")
    return replace(job, turns=(replace(turn, arguments=arguments, time_limit_s=left_s),))


def _stopped(
    head: Head, job: Launch, hold: HeldAllocation, ran: Completed, transcript: Transcript
) -> tuple[Verdict, Mapping[str, str]] | None:
    """Return the verdict if a round is unusable, by its time limit, Slurm or a wrong result; None: it is usable."""
    ended_well = ran.rc in (0, None)
    end = None if ended_well else end_of(head, job, hold.number, hold.stay)
    if (
        ran.rc in (TIMED_OUT, None)
        or end is not None
        or transcript.wrong
        or transcript.failed
        or not (transcript.measurements or transcript.done)
    ):
        verdict = judge_tasks(job, ran, end)
        return verdict, {} if ended_well else unheard(job, ran, end)
    return None


def _reports(job: Launch, round_: Round, names: PartNames, transcript: Transcript) -> _Reports:
    """Return the values of a round, by its measured parts."""
    nodes = {name: number for number, name in enumerate(names.wiring.nodes)}
    alone = {test.node for test in round_.alone}
    pairs = {(pair.a, pair.b) for pair in round_.pairs}
    gpus = range(max(1, job.real_gpus))
    compute: dict[int, dict[int, float]] = {}
    rates: dict[tuple[int, int], dict[int, float]] = {}
    symptoms: list[Symptom] = []
    refused: list[str] = []
    for report in transcript.measurements:
        host, node, peer = (nodes.get(str(report.get(key, ""))) for key in ("host", "of_node", "of_peer"))
        if host is None or node != host:
            refused.append(str(report.get("host", "")))
        elif "of_peer" not in report and node in alone and _number(report, _COMPUTE) and report.get("gpu", 0) in gpus:
            compute.setdefault(node, {})[int(report.get("gpu", 0))] = float(report[_COMPUTE])
        elif (
            peer is not None
            and (node, peer) in pairs
            and (place := _place(report, max(names.wiring.rails, job.real_gpus))) is not None
        ):
            if place >= 2 * names.wiring.rails:
                continue  # each GPU measures, and the wiring has fewer rails
            rates.setdefault((node, peer), {})[place] = float(report[_RATE])
            symptoms += _symptoms(report, round_.number, (node, peer), place // 2)
        else:
            refused.append(str(report.get("host", "")))
    every = range(2 * names.wiring.rails)
    results = Results(
        {node: NodeValues(tuple(values.get(gpu, 0.0) for gpu in gpus)) for node, values in compute.items()},
        {pair: tuple(values.get(place, 0.0) for place in every) for pair, values in rates.items()},
        tuple(symptoms),
    )
    return _Reports(results, tuple(refused))


def _symptoms(measurement: Measurement, number: int, pair: tuple[int, int], rail: int) -> Iterator[Symptom]:
    for name in _SYMPTOMS:
        if name in measurement:
            least = measurement.get(_SHORTEST, measurement[name]) if name == "round_trip_ms" else measurement[name]
            yield Symptom(number, *pair, rail, name, float(measurement[name]), float(least))


def _number(measurement: Measurement, name: str) -> bool:
    value = measurement.get(name)
    return isinstance(value, (int, float)) and 0 <= value <= _MOST[name] and isinstance(measurement.get("gpu", 0), int)


def _place(row: Measurement, rails: int) -> int | None:
    """Return the place of a value among those of its pair; None if it has no valid rail."""
    rail, direction = row.get("of_rail"), row.get("of_direction")
    names = (_RATE, *(name for name in (*_SYMPTOMS, _SHORTEST) if name in row))
    if not isinstance(rail, int) or direction not in ("out", "in") or not all(_number(row, name) for name in names):
        return None
    return 2 * rail + (direction == "in") if 0 <= rail < rails else None


def _measured(state: State, round_: Round, names: PartNames, seconds: float) -> MeasuredRound:
    """Return a round for the report: its measurements, their reason, and the low ones."""
    nodes, number = names.wiring.nodes, round_.number
    low = [names.words(part) for alone in state.seen if alone.round == number for part in alone.low]
    for measurement in (measurement for measurement in state.met if measurement.round == number and measurement.low):
        ends = f"{nodes[measurement.a]} and {nodes[measurement.b]}"
        low.append(
            f"{ends}: no answer"
            if measurement.silent
            else f"{ends}: {_ways(measurement.low, measurement.values, names)}"
        )
    return MeasuredRound(
        number,
        round(seconds, 1),
        tuple(f"{nodes[test.node]} ({test.why})" for test in round_.alone),
        tuple(f"{nodes[pair.a]}-{nodes[pair.b]} ({pair.why})" for pair in round_.pairs),
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
    named_parts = tuple(
        _name_part(finding, names, _direction(state, finding.parts[0]), reasons(outcome, finding, names))
        for finding in without_repeats(outcome.findings)
    )
    named_parts += tuple(latencies(outcome, names))
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
        isolation=Isolation(rounds, named_parts, idle, one_way, tuple(observations(outcome, names))),
    )
    if not named_parts:
        return verdict
    worst = min(named_parts, key=lambda part: ("bad", "unsteady", "could not tell").index(part.verdict))
    status: Status = "failed" if worst.verdict == "bad" and not worst.measured else _STATUS[worst.verdict]
    detail = "; ".join(f"{part.part}: {part.detail}" for part in named_parts[:8])
    more = f"; and {len(named_parts) - 8} more parts" if len(named_parts) > 8 else ""
    nodes = {part.nodes for part in named_parts if part.verdict == worst.verdict}
    only = nodes.pop() if len(nodes) == 1 else ()
    node = only[0] if len(only) == 1 else None
    return blamed(job, verdict, Blame(status, detail + more, None, node, worst.next_command))


def without_repeats(findings: Sequence[BadPart]) -> Iterator[BadPart]:
    """Yield findings without repeats of a named network: the network again, or two or more of its paths.

    Losses make some paths of a node low each time and others at times: one fault, and one name.
    """
    single = [(finding, finding.parts[0]) for finding in findings if len(finding.parts) == 1]
    networks = {part.of for finding, part in single if part.kind == "cable" and finding.verdict != "could not tell"}
    paths = Counter(node for _, part in single if part.kind == "pair" for node in (part.of, part.at))
    several = {node for node in networks if paths[node] > 1}
    before: set[tuple[Part, ...]] = set()
    for finding in findings:
        path = finding.parts[0] if len(finding.parts) == 1 and finding.parts[0].kind == "pair" else None
        if finding.parts not in before and not (path and {path.of, path.at} & several):
            yield finding
        before.add(finding.parts)


def _direction(state: State, part: Part) -> str:
    """Return the only direction in which a node's link was low: "towards" or "from" it; "" for both."""
    if part.kind != "cable":
        return ""
    sends = {
        (place % 2 == 0) == (measurement.a == part.of)
        for measurement in state.met
        if part.of in (measurement.a, measurement.b)
        for place in measurement.low
        if place // 2 == part.at
    }
    return ("from" if sends.pop() else "towards") if len(sends) == 1 else ""


def _name_part(finding: BadPart, names: PartNames, direction: str, symptoms: Sequence[str]) -> NamedPart:
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
    prefix = {"bad": "", "unsteady": "unsteady: ", "could not tell": which}[finding.verdict]
    nodes = tuple(dict.fromkeys(node for named_part in finding.parts for node in names.nodes(named_part)))
    return NamedPart(
        finding.verdict,
        part.kind,
        names.all(finding),
        nodes,
        finding.measured,
        unit,
        line.at_least,
        source,
        prefix + detail,
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
