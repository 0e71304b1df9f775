"""Every limit of a verdict's numbers: its source, its derivation, and whether it refuses. Pure.

Limits of `test.yaml` and of the median are judged with the step (`measurements`). A derived bandwidth, a baseline and
usual rates come from outside of it, and are compared here. A line without a limit in `test.yaml` is only shown. A test
without any limit is compared with its usual rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from hpcforge.cluster.model import Measure, SmokeTestProgram, Threshold
from hpcforge.verify.baselines import Values
from hpcforge.verify.measurements import Numbers, limit_of, numbers, shown
from hpcforge.verify.verdicts import Line, Verdict

SECOND_RUN_S = 600.0  # a test that took longer is not run twice
USUAL_RUNS = 5  # passed runs, before their rates are a line
_RANGES = 3  # below the median of these rates: of five normal values the range is 2.3 standard deviations on average
_USUAL_FROM = 0.25  # of that median, at least: rates that vary more do not lower the line further
_MAX_LISTED = 4  # parts that are listed one by one
_BASES = {"median": "the median of its nodes", "baseline": "the baseline, if there is one and its software is the same"}


@dataclass(frozen=True)
class DerivedValue:
    """The value of a measure by catalog and fabric, in its unit; None: not known, with the reason as derivation."""

    bound: float | None
    expected: float | None
    derivation: str


@dataclass(frozen=True)
class References:
    """The references for a verdict's numbers besides the limits of its test."""

    derived: Mapping[str, DerivedValue] = field(default_factory=dict)  # by measure
    baseline: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by measure and part
    baseline_name: str = ""
    usual: Values = field(default_factory=dict)  # rates of past runs
    usual_to: float = 0.9  # of their median a line is at most
    differs: str = ""  # why the baseline refuses nothing: "kernel 6.1.0-30, the baseline has 6.1.0-28"


@dataclass(frozen=True)
class LineToCome:
    """A line before its test has run. Without a limit, it comes from the run's numbers or a baseline."""

    measure: str
    bound: str  # at_least, at_most
    limit: float | None
    source: str
    refuses: bool
    derivation: str = ""


def lines_to_come(program: SmokeTestProgram, derived: Mapping[str, DerivedValue]) -> list[LineToCome]:
    """Return the limits to compare a test's numbers with, those of a measure side by side."""
    lines = []
    usual = usual_rates(program)
    for measure in program.measures:
        if measure.name in usual:
            source = f"the usual rate, once {USUAL_RUNS} runs on all its nodes have passed"
            lines.append(LineToCome(measure.name, "at_least", None, source, refuses=True))
        for line in _lines(program, measure, {}, References(derived)):
            lines.append(LineToCome(line.measure, line.bound, line.limit, line.source, line.refuses, line.derivation))
        for limit in (limit for limit in program.lines if limit.measure == measure.name):
            basis = _BASES.get(limit.bound.removeprefix(f"{_bound(limit)}_of_"))
            if basis:
                lines.append(
                    LineToCome(measure.name, _bound(limit), None, f"{limit.number:g} of {basis}", refuses=True)
                )
    return lines


def usual_rates(program: SmokeTestProgram) -> tuple[str, ...]:
    """Return the measures limited by their usual rate: of a test without other limits that compares no parts."""
    if program.lines or program.isolates:
        return ()
    return tuple(measure.name for measure in program.measures if measure.better == "higher")


def weighed(verdict: Verdict, program: SmokeTestProgram, references: References) -> Verdict:
    """Return the verdict with its limits; a passed test has missed if it misses a limit that refuses."""
    by_measure = numbers(program, verdict.measurements)
    lines = tuple(line for measure in program.measures for line in _lines(program, measure, by_measure, references))
    verdict = replace(verdict, lines=lines)
    beyond = [
        (line, part) for line in lines if line.refuses for part in line.missed_in(by_measure.get(line.measure, {}))
    ]
    if not (verdict.passed and beyond):
        return verdict
    measures = {measure.name: measure for measure in program.measures}
    texts = [
        f"{line.measure}{f' of {part}' if part else ''} is "
        f"{shown(measures[line.measure], by_measure[line.measure][part])}, "
        f"and must be {line.bound.replace('_', ' ')} {shown(measures[line.measure], line.limit)}, {line.source}"
        for line, part in beyond[:_MAX_LISTED]
    ]
    more = f"; and {len(beyond) - _MAX_LISTED} more" if len(beyond) > _MAX_LISTED else ""
    nodes = {part for _, part in beyond} & {*verdict.nodes}
    node = nodes.pop() if len(nodes) == 1 and len({part for _, part in beyond}) == 1 else None
    return replace(verdict, status="missed", detail="; ".join(texts) + more, node=node)


def needs_second_run(verdict: Verdict) -> bool:
    """Whether to measure a missed number again before it blames a node: other work may have slowed it.

    Isolation repeats by itself. A run of more than `SECOND_RUN_S` has measured for long enough.
    """
    return verdict.status == "missed" and verdict.isolation is None and verdict.seconds <= SECOND_RUN_S


def of_two_runs(first: Verdict, second: Verdict) -> Verdict:
    """Return the verdict of two runs, the first of which missed: it blames a node only if both do."""
    if second.status in ("pending", "not_run"):
        detail = f"{first.detail}; a second run did not start: {second.detail}"
        return replace(first, node=None, rank=None, detail=detail)
    combined = replace(second, first_run=first.detail, jobs=(*first.jobs, *second.jobs))
    if second.status == "missed" and first.node != second.node:
        return replace(combined, node=None, rank=None, detail=f"{second.detail}; in a first run {first.detail}")
    return combined


def _lines(program: SmokeTestProgram, measure: Measure, by_measure: Numbers, references: References) -> Iterator[Line]:
    by_part = by_measure.get(measure.name, {})
    limits = [line for line in program.lines if line.measure == measure.name]
    for line in limits:
        if line.bound in ("at_least", "at_most"):
            yield Line(measure.name, line.bound, line.number, "test.yaml")
        elif line.bound.endswith("_of_median") and by_part:
            source = f"{line.number:g} of the median of {len(by_part)}"
            yield Line(measure.name, _bound(line), limit_of(line, by_part), source)
    if measure.name in references.derived:
        yield from _derived(measure, limits, references.derived[measure.name])
    yield from _baseline(measure, limits, references)
    yield from _usual(measure, references)


def _derived(measure: Measure, limits: list[Threshold], derived: DerivedValue) -> Iterator[Line]:
    """Yield the bound, which no number can exceed, and the expected share of it."""
    if derived.bound is None or derived.expected is None:
        return
    factors: dict[str, float] = {line.bound: line.number for line in limits}
    for bound, value, label in (
        ("at_least", derived.expected, f"the derived {'bandwidth' if measure.unit == 'GB/s' else 'rate'}"),
        ("at_most", derived.bound, "the derived bound"),
    ):
        factor = factors.get(f"{bound}_of_derived")
        source = label if factor is None else f"{factor:g} of {label}"
        yield Line(
            measure.name,
            bound,
            value * (1.0 if factor is None else factor),
            source,
            factor is not None,
            None,
            derived.derivation,
        )


def _baseline(measure: Measure, limits: list[Threshold], references: References) -> Iterator[Line]:
    """Yield the values of a baseline, part by part; they refuse if the test says so and the software is the same."""
    by_bound = {line.bound: line for line in limits if line.bound.endswith("_of_baseline")}
    for part, value in references.baseline.get(measure.name, {}).items():
        label = f"baseline {references.baseline_name}"
        for line in by_bound.values():
            source = f"{line.number:g} of {label}"
            yield Line(measure.name, _bound(line), line.number * value, source, not references.differs, part)
        if not by_bound and measure.better is not None:
            bound = "at_least" if measure.better == "higher" else "at_most"
            yield Line(measure.name, bound, value, label, refuses=False, part=part)


def _usual(measure: Measure, references: References) -> Iterator[Line]:
    """Yield the line of a rate by its past runs: their median less three times their range, within bounds."""
    for part, rates in references.usual.get(measure.name, {}).items():
        middle = median(rates)
        if len(rates) < USUAL_RUNS or middle <= 0:
            continue
        width = (max(rates) - min(rates)) / middle
        factor = min(max(1 - _RANGES * width, _USUAL_FROM), references.usual_to)
        source = f"{factor:.2f} of the usual rate, the median of {len(rates)} runs"
        derivation = (
            f"{len(rates)} runs: {shown(measure, min(rates))} to {shown(measure, max(rates))}; 1 - {_RANGES} x "
            f"{width:.3f}, from {_USUAL_FROM:g} to {references.usual_to:g}"
        )
        yield Line(measure.name, "at_least", factor * middle, source, part=part, derivation=derivation)


def _bound(line: Threshold) -> str:
    return "at_least" if line.bound.startswith("at_least") else "at_most"
