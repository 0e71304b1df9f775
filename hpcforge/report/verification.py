"""A verification as data: what was tested, when, from which commit, and every number with its lines.

The JSON of `hpcforge verify --json`, its JUnit file and its page are all made from this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hpcforge.blueprint.smoke_tests import Level
from hpcforge.cluster.model import SmokeTest
from hpcforge.run.smoke_tests import Verified, waits
from hpcforge.verify.baselines import PastVerification
from hpcforge.verify.measurements import numbers
from hpcforge.verify.verdicts import Verdict

SCHEMA_VERSION = 1


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


@dataclass(frozen=True)
class ReportedVerdict(Verdict):
    """A verdict with what its test declares, and its numbers by part."""

    description: str = ""
    level: Level = "smoke"
    measures: Mapping[str, MeasureReport] = field(default_factory=dict)
    parts: tuple[PartReport, ...] = ()
    differs_from_baseline: str = ""  # the software, if a baseline was compared


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
    fell_out: Mapping[str, str] = field(default_factory=dict)  # while they were tested
    drained: Mapping[str, str] = field(default_factory=dict)  # by this verification
    not_drained: Mapping[str, str] = field(default_factory=dict)  # blamed nodes beyond the limit of one verification
    resumed: tuple[str, ...] = ()
    not_tested: tuple[NotTested, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)  # fingerprint of the nodes
    baseline: str | None = None  # that numbers were compared with
    history: tuple[PastVerification, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every test that ran passed, and one did."""
        return bool(self.verdicts) and all(verdict.passed for verdict in self.verdicts)


def reported_verdict(test: SmokeTest, verdict: Verdict, differs: str = "") -> ReportedVerdict:
    """A verdict with its numbers by part."""
    program = test.program
    of = numbers(program, verdict.measurements)
    order = {node: place for place, node in enumerate(verdict.nodes)}  # nodes answer in any order
    parts = []
    for measure in program.measures:
        refusing = [line for line in verdict.lines if line.measure == measure.name and line.refuses]
        for part, value in sorted(of.get(measure.name, {}).items(), key=lambda item: order.get(item[0], 0)):
            missed = any(line.missed_in({part: value}) for line in refusing)
            parts.append(PartReport(part, measure.name, value, missed))
    mine = {each.name: getattr(verdict, each.name) for each in dataclasses.fields(Verdict)}
    return ReportedVerdict(
        **mine,
        description=program.description,
        level=program.level,
        measures={each.name: MeasureReport(each.unit, each.better, each.shown) for each in program.measures},
        parts=tuple(parts),
        differs_from_baseline=differs,
    )


def not_tested(tests: Verified, blueprint_tests: Sequence[SmokeTest], why: str) -> tuple[NotTested, ...]:
    """The blueprint's tests that did not run; `why`: those that were not chosen."""
    waiting = {name: waits(wait) for wait in tests.waiting for name in wait.tests}
    done = {result.verdict.test for result in tests.reached}
    names: Iterable[str] = dict.fromkeys(test.name for test in blueprint_tests if test.name not in done)
    levels = {test.name: test.program.level for test in blueprint_tests}
    return tuple(NotTested(name, waiting.get(name) or f"{why} (level {levels[name]})") for name in names)


def document(report: Report) -> Mapping[str, object]:
    """The report as plain data."""
    return dataclasses.asdict(report)
