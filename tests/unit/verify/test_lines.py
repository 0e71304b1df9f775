"""Lines from outside of a step: a derived bandwidth and a baseline."""

from __future__ import annotations

from dataclasses import replace

from hpcforge.cluster.model import Measure, SmokeTestProgram, Threshold
from hpcforge.verify.lines import DerivedValue, References, weighed
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
