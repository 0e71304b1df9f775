"""Lines from outside of a step: a derived bandwidth and a baseline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cluster.model import Measure, SmokeTestProgram, Threshold
from hpcforge.verify.lines import DerivedValue, References, lines_to_come, usual_rates, weighed
from hpcforge.verify.verdicts import Verdict

RATE = Measure("rate", "GB/s", "higher")
PROGRAM = SmokeTestProgram(launcher="plain", measures=(RATE,), derived=(("rate", "all-reduce"),))
VERDICT = Verdict("copy", "passed", ("w1", "w2"), measurements=({"host": "w1", "rate": 10}, {"host": "w2", "rate": 7}))
BASELINE = References(baseline={"rate": {"w1": 10, "w2": 10}}, baseline_name="quiet")
DERIVED = References({"rate": DerivedValue(9.0, 8.0, "2 x 4")})


def of(*lines: Threshold) -> SmokeTestProgram:
    return replace(PROGRAM, lines=lines)


def test_what_the_test_does_not_refuse_is_only_shown() -> None:
    for references in (BASELINE, DERIVED):
        verdict = weighed(VERDICT, PROGRAM, references)
        assert verdict.passed
        assert len(verdict.lines) == 2
        assert not any(line.refuses for line in verdict.lines)


def test_a_part_below_the_baseline_is_named() -> None:
    verdict = weighed(VERDICT, of(Threshold("rate", "at_least_of_baseline", 0.9)), BASELINE)
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert verdict.detail == "rate of w2 is 7, and must be at least 9, 0.9 of baseline quiet"


def test_a_baseline_of_other_software_refuses_nothing() -> None:
    other = replace(BASELINE, differs="kernel 6.1, the baseline has 6.0")
    assert weighed(VERDICT, of(Threshold("rate", "at_least_of_baseline", 0.9)), other).passed


def test_a_derived_bandwidth_refuses_on_both_sides() -> None:
    low, high = Threshold("rate", "at_least_of_derived", 0.9), Threshold("rate", "at_most_of_derived", 1.05)
    verdict = weighed(VERDICT, of(low, high), DERIVED)
    assert verdict.status == "missed"
    assert "rate of w2 is 7, and must be at least 7.2, 0.9 of the derived bandwidth" in verdict.detail
    assert "rate of w1 is 10, and must be at most 9.45, 1.05 of the derived bound" in verdict.detail
    assert verdict.lines[0].derivation == "2 x 4"
    unknown = References({"rate": DerivedValue(None, None, "not known")})
    assert weighed(VERDICT, of(low, high), unknown).passed


def test_the_limits_of_the_test_are_lines_too() -> None:
    lines = weighed(
        replace(VERDICT, status="missed"),
        of(Threshold("rate", "at_least", 3), Threshold("rate", "at_least_of_median", 0.9)),
        References(),
    ).lines
    assert [(line.limit, line.source) for line in lines] == [(3, "test.yaml"), (7.65, "0.9 of the median of 2")]
    assert lines[1].missed_in({"w1": 10, "w2": 7}) == ["w2"]


@pytest.mark.parametrize(
    ("rates", "to", "limit"),
    [
        ((100, 100, 100, 100, 100), 0.9, 90),  # however little they vary
        ((100, 100, 100, 100, 100), 0.7, 70),  # in a rehearsal
        ((95, 98, 100, 102, 105), 0.9, 70),  # 100 less three times their range
        ((40, 60, 100, 120, 140), 0.7, 25),  # however much they vary
        ((100, 100, 100, 100), 0.9, None),  # four are no line
        ((0, 0, 0, 0, 0), 0.9, None),
    ],
)
def test_the_usual_rate_is_a_line_after_five_runs(rates: tuple[float, ...], to: float, limit: float | None) -> None:
    verdict = Verdict("copy", "passed", ("w1", "w2"), measurements=({"host": "w1", "rate": 5.3},))
    weighed_ = weighed(verdict, PROGRAM, References(usual={"rate": {"w1": rates}}, usual_to=to))
    if limit is None:
        assert (weighed_.status, weighed_.lines) == ("passed", ())
        return
    assert (weighed_.status, weighed_.node) == ("missed", "w1")
    assert weighed_.detail == (
        f"rate of w1 is 5.3, and must be at least {limit:g}, {limit / 100:.2f} of the usual rate, the median of 5 runs"
    )
    assert weighed_.lines[0].derivation.startswith(f"5 runs: {min(rates)} to {max(rates)}; 1 - 3 x ")


def test_a_test_with_lines_of_its_own_has_no_usual_rate() -> None:
    assert usual_rates(PROGRAM) == ("rate",)
    assert usual_rates(of(Threshold("rate", "at_least", 3))) == ()
    assert usual_rates(replace(PROGRAM, isolates=True)) == ()
    assert lines_to_come(PROGRAM, {})[0].source == "the usual rate, once 5 runs on all its nodes have passed"
