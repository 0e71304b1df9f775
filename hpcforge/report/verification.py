"""A verification as data: what was tested, when, from which commit, and every number with its lines.

The JSON of `hpcforge verify --json`, its JUnit file and its page are all made from this.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Literal

from hpcforge.blueprint.smoke_tests import Level
from hpcforge.cluster.model import Node, SmokeTest
from hpcforge.report.text import clean, one_line
from hpcforge.run.result import Verified
from hpcforge.verify.baselines import PastVerification
from hpcforge.verify.measurements import Numbers, numbers
from hpcforge.verify.verdicts import Assertion, Line, Verdict, assertion_row

if TYPE_CHECKING:
    from hpcforge.node.answer_types import Facts, GpuAnswer


# The parts that verdicts blame, and what a supplier asks for of their nodes. Pure.


_HEALTH = {"bios": "BIOS", "firmware": "adapters' firmware", "gpu_driver": "GPU driver"}  # measures of node_health

_HARDWARE = (  # how the names of these parts of node_health begin
    "GPU ", "NVLink fabric of ", "adapter ", "fatal SXids ", "hardware threads:", "link of ", "memory, MiB:",
    "model of GPU ", "number of GPUs:", "rate of ",
)  # fmt: skip


@dataclass(frozen=True)
class BlamedPart:
    """A node, a cable or another part, and the test that blames it. No part: the test names none."""

    part: str
    nodes: tuple[str, ...]
    test: str
    status: str  # "missed", "could not tell"
    why: str
    next_command: str
    hardware: bool = True  # False: a difference of software, names or accounts


@dataclass(frozen=True)
class NodeIdentity:
    """A node as its supplier knows it; "" for what neither inventory nor node reports."""

    node: str
    hardware: str
    serial: str
    place: str
    parts: Mapping[str, str]  # "GPU 0": "NVIDIA H200, serial number 1, VBIOS 96.00"


def blamed_parts(verdicts: Iterable[Verdict]) -> list[BlamedPart]:
    """Return each blamed part with each test that blames it, and the tests that failed and blame none."""
    return [blamed for verdict in verdicts if not verdict.passed for blamed in _blamed(verdict)]


def _blamed(verdict: Verdict) -> Iterator[BlamedPart]:
    named = verdict.isolation.named if verdict.isolation else ()
    for part in named:
        yield BlamedPart(part.part, part.nodes, verdict.test, part.verdict, part.detail, part.next_command)
    if not named:
        node = verdict.node or ""
        where = f"rank {verdict.rank}: " if verdict.rank is not None else ""
        status, command = verdict.status.replace("_", " "), verdict.next_command or ""
        nodes, why = (node,) if node else (), where + verdict.detail
        yield BlamedPart(node, nodes, verdict.test, status, why, command, _of_hardware(verdict))


def _of_hardware(verdict: Verdict) -> bool:
    """Whether a supplier can repair it; of `node_health` by the parts of the node that differ."""
    parts = verdict.reasons.get(verdict.node or "", verdict.detail).split("; ")
    return verdict.test != "node_health" or any(
        part.startswith(_HARDWARE) and " for users:" not in part for part in parts
    )


def node_identities(
    nodes: Sequence[Node], facts: Mapping[str, Facts], verdicts: Iterable[Verdict], blamed: Iterable[BlamedPart]
) -> tuple[NodeIdentity, ...]:
    """Return the identity of each node whose hardware is blamed: of inventory, its own report and `node_health`."""
    names = {name for part in blamed if part.hardware for name in part.nodes}
    health = [row for verdict in verdicts if verdict.test == "node_health" for row in verdict.measurements]
    reported = {str(row.get("host", "")): row for row in health}
    return tuple(
        NodeIdentity(
            node.name,
            node.hardware,
            node.serial or "",
            _place(node),
            {**_firmware(reported.get(node.name, {})), **(_gpus(facts[node.name]) if node.name in facts else {})},
        )
        for node in nodes
        if node.name in names
    )


def _firmware(row: Mapping[str, object]) -> dict[str, str]:
    return {label: str(row[name]) for name, label in _HEALTH.items() if row.get(name)}


def _place(node: Node) -> str:
    return f"rack {node.rack}" + (f", U{node.rack_u}" if node.rack_u else "") if node.rack else ""


def _gpus(facts: Facts) -> dict[str, str]:
    nvml = facts.get("nvml")
    gpus = nvml["gpus"] if nvml else []
    return {f"GPU {gpu['index'] if gpu['index'] is not None else '?'}": _gpu(gpu) for gpu in gpus}


def _gpu(gpu: GpuAnswer) -> str:
    words = [gpu["model"] or "model not reported"]
    words += [
        f"{label} {value}" for label, value in (("serial number", gpu["serial"]), ("VBIOS", gpu["vbios"])) if value
    ]
    return ", ".join(words)


SCHEMA_VERSION = 1
_LOW = 0.5  # a number under this part of the nodes' median, or of the last run's number, is marked
_FLEET = 3  # nodes that have a median


@dataclass(frozen=True)
class MeasureReport:
    """A measure as its test declares it."""

    unit: str
    better: Literal["higher", "lower"] | None = None
    format: str = "number"


@dataclass(frozen=True)
class PartReport:
    """One number of a test: of a node, or of all ranks together (`part` is empty)."""

    part: str
    measure: str
    value: float
    missed: bool  # a line that refuses
    low: str = ""  # "under half of the nodes' median, 10"; no line refuses it


@dataclass(frozen=True)
class ReportedVerdict(Verdict):
    """A verdict with what its test declares, and its numbers by part."""

    description: str = ""
    level: Level = "smoke"
    measures: Mapping[str, MeasureReport] = field(default_factory=dict)
    parts: tuple[PartReport, ...] = ()
    differs_from_baseline: str = ""  # the software, if a baseline was compared
    results_sha256: str = ""  # of `measurements` and `assertions`, as `results_digest` writes them

    @property
    def low(self) -> tuple[PartReport, ...]:
        """The numbers that are low."""
        return tuple(part for part in self.parts if part.low)


@dataclass(frozen=True)
class NotTested:
    """A test that was not run, and why."""

    test: str
    why: str


@dataclass(frozen=True)
class Source:
    """The files from which the cluster was built, by path and digest."""

    blueprint: str = ""
    blueprint_sha256: str = ""
    inventory: str | None = None
    inventory_sha256: str | None = None
    commit: str | None = None
    uncommitted: bool = False  # a file is not as in the commit


@dataclass(frozen=True)
class Report:
    """One verification. Times are seconds since 1970, UTC."""

    schema_version: int
    cluster: str
    source: Source
    hpcforge: str
    who: str
    began_s: float
    ended_s: float
    level: Level
    verdicts: tuple[ReportedVerdict, ...]
    left_out: Mapping[str, str]  # nodes, and why
    missing: Mapping[str, str] = field(default_factory=dict)  # of these, unreachable ones and those that take no job
    fell_out: Mapping[str, str] = field(default_factory=dict)  # while they were tested
    drained: Mapping[str, str] = field(default_factory=dict)  # by this verification
    not_drained: Mapping[str, str] = field(default_factory=dict)  # blamed nodes beyond the limit of one verification
    resumed: tuple[str, ...] = ()
    not_tested: tuple[NotTested, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)  # fingerprint of the nodes
    baseline: str | None = None  # that numbers were compared with
    history: tuple[PastVerification, ...] = ()
    identities: tuple[NodeIdentity, ...] = ()  # of the blamed nodes

    @property
    def passed(self) -> bool:
        """Whether every test that ran passed, and one did."""
        return bool(self.verdicts) and all(verdict.passed for verdict in self.verdicts)

    @property
    def good(self) -> bool:
        """Whether it passed on all nodes that it was for, as the exit status 0 has it."""
        return self.passed and not (self.missing or self.fell_out or self.drained or self.not_drained)


def reported_verdict(
    test: SmokeTest, verdict: Verdict, differs: str = "", before: Verdict | None = None
) -> ReportedVerdict:
    """Return a verdict with its numbers by part; `before`: the last verdict of this test, which passed."""
    program = test.program
    of = _by_part(test, verdict)
    last = _by_part(test, before) if before and before.options == verdict.options else {}
    if before and before.nodes != verdict.nodes:
        last = {name: {part: value for part, value in parts.items() if part} for name, parts in last.items()}
    order = {node: place for place, node in enumerate(verdict.nodes)}  # nodes answer in any order
    parts = []
    for measure in program.measures:
        refusing = [line for line in verdict.lines if line.measure == measure.name and line.refuses]
        for part, value in sorted(of.get(measure.name, {}).items(), key=lambda item: order.get(item[0], 0)):
            missed = any(line.missed_in({part: value}) for line in refusing)
            low = _low(value, part, of[measure.name], last.get(measure.name, {})) if measure.better == "higher" else ""
            parts.append(PartReport(part, measure.name, value, missed, low))
    mine = {each.name: getattr(verdict, each.name) for each in dataclasses.fields(Verdict)}
    return ReportedVerdict(
        **mine,
        description=program.description,
        level=program.level,
        measures={each.name: MeasureReport(each.unit, each.better, each.shown) for each in program.measures},
        parts=tuple(parts),
        differs_from_baseline=differs,
        results_sha256=results_digest(verdict),
    )


def results_digest(verdict: Verdict) -> str:
    """Return the SHA-256 of the raw results as JSON: sorted keys, no spaces."""
    raw = [verdict.measurements, [dataclasses.asdict(assertion) for assertion in verdict.assertions]]
    return hashlib.sha256(json.dumps(raw, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _by_part(test: SmokeTest, verdict: Verdict) -> Numbers:
    """Return the numbers by node. A pair's number counts for both ends: a node has the best of its pairs in each
    direction.

    The worst of its rails and directions counts. So a healthy node paired with a slow one is not slow itself.
    """
    of = dict(numbers(test.program, verdict.measurements))
    if not test.program.isolates:
        return of
    for measure in test.program.measures:
        best: dict[tuple[str, object, str], float] = {}
        for row in verdict.measurements:
            value, ways = row.get(measure.name), ("in", "out")
            if isinstance(value, str) or value is None or "of_peer" not in row:
                continue
            first, second = reversed(ways) if row.get("of_direction") != "in" else ways
            for node, way in ((row.get("of_node"), first), (row["of_peer"], second)):
                key = (str(node), row.get("of_rail"), way)
                best[key] = max(value, best.get(key, value))
        if best:
            worst: dict[str, float] = {}
            for (node, _, _), value in best.items():
                worst[node] = min(value, worst.get(node, value))
            of[measure.name] = worst
    return of


def _low(value: float, part: str, of: Mapping[str, float], last: Mapping[str, float]) -> str:
    """Why a number is low; "" if it is not."""
    middle = median(of.values())
    if len(of) >= _FLEET and value < _LOW * middle:
        return f"under half of the nodes' median, {middle:.4g}"
    if part in last and value < _LOW * last[part]:
        return f"under half of the last run's, {last[part]:.4g}"
    return ""


def not_tested(tests: Verified, blueprint_tests: Sequence[SmokeTest], why: str) -> tuple[NotTested, ...]:
    """Return the blueprint's tests that did not run; `why`: for those that were not chosen."""
    waiting = {name: wait.explanation for wait in tests.waiting for name in wait.tests}
    done = {result.verdict.test for result in tests.reached}
    names: Iterable[str] = dict.fromkeys(test.name for test in blueprint_tests if test.name not in done)
    levels = {test.name: test.program.level for test in blueprint_tests}
    return tuple(NotTested(name, waiting.get(name) or f"{why} (level {levels[name]})") for name in names)


def document(report: Report) -> Mapping[str, object]:
    """Return the report as plain data."""
    return dataclasses.asdict(report)


# A verification as JUnit XML: a suite for each test, a case for each part.
#
# A number that misses its line is a failure, one that is missing an error, a node or test that was left out is
# skipped.


ALL_RANKS = "all ranks"
_FAILED = ("wrong", "missed", "failed", "timed_out")


@dataclass(frozen=True)
class Case:
    """One case: `outcome` is "" if it passed."""

    name: str
    outcome: str = ""  # failure, error, skipped
    message: str = ""


def junit(report: Report) -> str:
    """Return the text of the file."""
    root = ET.Element("testsuites", {"name": clean(f"hpcforge verify {report.cluster}")})
    for verdict in report.verdicts:
        _suite(root, report, verdict.test, list(cases(verdict)), verdict.seconds)
    for left in report.not_tested:
        _suite(root, report, left.test, [Case(ALL_RANKS, "skipped", left.why)], 0.0)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def cases(verdict: ReportedVerdict) -> Iterator[Case]:
    """Yield the cases of a test: its parts, its assertions, and the nodes that it left out."""
    said = verdict.detail or verdict.status
    bad = "failure" if verdict.status in _FAILED else "error" if verdict.status == "unknown" else "skipped"
    names = list(dict.fromkeys(part.part for part in verdict.parts)) or [verdict.node or ""]
    missed = {part.part for part in verdict.parts if part.missed}
    blamed = verdict.node if verdict.node in names else None
    if not verdict.passed and not missed and blamed is None and names != [""]:
        yield Case(ALL_RANKS, bad, said)
    for name in names:
        message = "; ".join(_missed_numbers(verdict, name)) if name in missed else said
        is_bad = name in missed or name == blamed or (not verdict.passed and name == "" and not missed)
        yield Case(name or ALL_RANKS, bad if is_bad and not verdict.passed else "", message if is_bad else "")
    silent = [node for node in verdict.nodes if node not in names] if names != [""] and verdict.parts else []
    for node in silent:
        yield Case(node, "error", "no number was reported")
    for assertion in verdict.assertions:
        yield Case(_case_name(assertion), "" if assertion.holds else "failure", assertion_row(assertion))
    for node, why in verdict.left_out.items():
        yield Case(node, "skipped", why)


def _case_name(assertion: Assertion) -> str:
    return f"{assertion.what} ({assertion.host})" if assertion.host else assertion.what


def _missed_numbers(verdict: ReportedVerdict, name: str) -> Iterator[str]:
    """Yield the numbers of a part that miss a limit, with the limit."""
    for part in verdict.parts:
        if part.part != name or not part.missed:
            continue
        unit = verdict.measures[part.measure].unit
        for line in verdict.lines:
            if line.refuses and line.measure == part.measure and line.missed_in({name: part.value}):
                yield f"{part.measure} is {part.value:.6g} {unit}, and must be {bound(line)} {unit}: {line.source}"


def bound(line: Line) -> str:
    """`at least 2.23`."""
    return f"{line.bound.replace('_', ' ')} {line.limit:.6g}"


def _suite(root: ET.Element, report: Report, test: str, found: list[Case], seconds: float) -> None:
    count = {kind: str(sum(case.outcome == kind for case in found)) for kind in ("failure", "error", "skipped")}
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": clean(test),
            "tests": str(len(found)),
            "failures": count["failure"],
            "errors": count["error"],
            "skipped": count["skipped"],
            "time": f"{seconds:.1f}",
            "timestamp": f"{datetime.fromtimestamp(report.began_s, UTC):%Y-%m-%dT%H:%M:%S}",
        },
    )
    for case in found:
        element = ET.SubElement(suite, "testcase", {"classname": clean(test), "name": one_line(case.name)})
        if case.outcome:
            ET.SubElement(element, case.outcome, {"message": one_line(case.message)})
