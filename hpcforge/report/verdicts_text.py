"""Verdicts for people: what was tested just now and what was not, and what was found before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import SmokeTest
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.report.text import duration, one_line
from hpcforge.report.verification import Report
from hpcforge.run.smoke_tests import Verified, waits
from hpcforge.verify.verdict_records import KeptVerdicts, Recorded
from hpcforge.verify.verdicts import Verdict, assertion_row, summary_line

if TYPE_CHECKING:
    pass


_ROWS = 8  # of what is not as expected in a verdict


def verdicts_text(tests: Verified, again: str, away: Collection[str], now_s: float) -> str:
    """A line a verdict, as `summary_line` puts it, with what to type next under one that did not pass.

    Then what was not tested now, and since when that stands. `again` is the command that tests what waits.
    """
    lines: list[str] = []
    for number, result in enumerate(tests.reached):
        lines += _verdict(result.verdict, again)
        following = tests.reached[number + 1 : number + 2]
        if not result.run.whole and not (following and following[0].run == result.run):
            lines.append(f"  {_of_a_part(result.run, tests.recorded, now_s)}")
    for node, why in tests.fell_out.items():
        lines += [f"{node} fell out while it was tested: {why}", f"  next: scontrol show node {node}"]
    for waiting in tests.waiting:
        lines += [f"{', '.join(waiting.tests)}  waiting  {waits(waiting)}", f"  next: {again}   (when that has ended)"]
    now = [result.verdict for result in tests.reached]
    before = [record for record in tests.recorded.kept if record.last not in now]
    lines += _before(before, {*away}, now_s)
    if tests.note:
        lines.append(tests.note)
    return "".join(f"{one_line(line)}\n" for line in lines)


def baseline_lines(report: Report, asked: tuple[str, str] | None) -> Iterator[str]:
    """Yield what was saved, or how each number compares with the baseline."""
    if asked is None:
        return
    action, name = asked
    if action == "save":
        saved = [verdict.test for verdict in report.verdicts if verdict.passed]
        others = [verdict.test for verdict in report.verdicts if not verdict.passed]
        yield f"baseline {name}: saved {', '.join(saved) or 'nothing'}" + (
            f"; not saved, since they did not pass: {', '.join(others)}" if others else ""
        )
        return
    for verdict in report.verdicts:
        if verdict.differs_from_baseline:
            yield one_line(f"baseline {name}: {verdict.test} ran on other software: {verdict.differs_from_baseline}")
        lines = [line for line in verdict.lines if line.source.endswith(f"baseline {name}")]
        values = {(part.measure, part.part): part.value for part in verdict.parts}
        for line in lines[:_ROWS]:
            value = values.get((line.measure, line.part or ""))
            if value is not None and line.limit:
                where = f" of {line.part}" if line.part else ""
                unit = verdict.measures[line.measure].unit
                number = f"{value:.4g} {unit}, {value / line.limit:.0%} of {line.limit:.4g}"
                yield one_line(f"baseline {name}: {verdict.test}: {line.measure}{where} is {number}")
        if not lines:
            yield f"baseline {name} has no numbers of {verdict.test}"


def _verdict(verdict: Verdict, again: str) -> Iterator[str]:
    yield summary_line(verdict)
    untrue = [assertion for assertion in verdict.assertions if not assertion.holds] if not verdict.passed else []
    yield from (f"  {assertion_row(assertion)}" for assertion in untrue[:_ROWS])
    if len(untrue) > _ROWS:
        yield f"  and {len(untrue) - _ROWS} more; `hpcforge verify --json` has all"
    named = verdict.isolation.named if verdict.isolation else ()
    yield from (f"  {each.part}: {each.detail}; next: {each.next_command}" for each in named[:_ROWS])
    usual = [line for line in verdict.lines if "usual rate" in line.source] if verdict.passed else []
    yield from (f"  line: {each.measure} at least {each.limit:.4g}, {each.source}" for each in usual[:_ROWS])
    observations = verdict.isolation.observations if verdict.isolation else ()
    yield from (f"  warning: {each}" for each in observations[:_ROWS])
    if verdict.isolation and verdict.isolation.not_loaded:
        yield f"  not loaded: {'; '.join(verdict.isolation.not_loaded[:_ROWS])}"
    if verdict.next_command:
        yield f"  next: {verdict.next_command}" + (f"; {again}   (when that has ended)" if verdict.waits_for else "")


def _of_a_part(run: SmokeRun, recorded: Recorded, now_s: float) -> str:
    """For whose sake a run was, and what of its node set it leaves out."""
    if run.why == "limited":
        return f"not tested now: {fold(run.untested)}, not among the nodes that were asked for"
    partners = [node for node in run.nodes if node not in run.changed]
    why = "what jobs need of other nodes changed: a node of each kind was tested"
    if run.changed:
        why = f"{fold(run.changed)} changed" + (f", tested with {fold(partners)}" if partners else "")
    before = recorded.of(SmokeTest(run.tests[0], run.span, 0))
    if not run.untested or before is None:
        return why
    late = [node for node in run.untested if node not in before.stands_for] if before.stands_for else []
    rest = [node for node in run.untested if node not in late]
    ago = duration(max(0.0, now_s - before.time_s))
    said = [f"not tested now: {fold(rest)}, unchanged since last tested (the whole {ago} ago)"] if rest else []
    said += [f"not tested since a change: {fold(late)}"] if late else []
    return "; ".join([why, *said])


def _before(kept: Sequence[KeptVerdicts], away: Collection[str], now_s: float) -> Iterator[str]:
    """Verdicts of before by their time, the oldest first."""
    told: dict[tuple[float, str], list[str]] = {}
    for record in kept:
        told.setdefault((record.time_s, _since(record, away)), []).append(_line(record.verdict, away))
        if record.part is not None:
            told.setdefault((record.part_s, "of some of its nodes"), []).append(_line(record.part, away))
    for (time_s, about), lines in sorted(told.items()):
        yield f"verdicts of {duration(max(0.0, now_s - time_s))} ago ({about}):"
        yield from lines


def _line(verdict: Verdict, away: Collection[str]) -> str:
    counts_on_it = not {*away}.isdisjoint(verdict.nodes)
    return summary_line(verdict) + ("  (of before: not of the cluster as it is)" if counts_on_it else "")


def _since(record: KeptVerdicts, away: Collection[str]) -> str:
    """What has become of the nodes since a verdict on a whole set."""
    gone = [node for node in record.verdict.nodes if node in away]
    if gone:
        return f"{fold(gone)} was there then, and is away now"
    if record.changed:
        return f"{fold(record.changed)} changed since and has not been tested"
    if not record.served:
        return "what jobs need of other nodes changed since and has not been tested"
    if record.part is not None:
        return f"{fold(record.part.nodes)} tested again since"
    return "nothing changed since"
