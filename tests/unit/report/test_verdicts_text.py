"""What is said of tests after an apply: what ran where and for whose sake, what did not, and since when that stands."""

from __future__ import annotations

from dataclasses import replace

from hpcforge.cluster.model import SmokeTest
from hpcforge.plan.test_selection import DeferredTests, SmokeRun
from hpcforge.report.apply_text import verdicts_text
from hpcforge.run.result import Reached, Verified
from hpcforge.verify.verdict_records import Recorded
from hpcforge.verify.verdicts import Assertion, Isolation, Line, Verdict

NOW = 1_800_000_000.0
SPAN = ("w01", "w02", "w03")
TESTS = [SmokeTest("allreduce", SPAN, 600), SmokeTest("train_ddp", SPAN, 600)]
NAMES = ("allreduce", "train_ddp")


def passed(test: str, *nodes: str) -> Verdict:
    return Verdict(test, "passed", nodes, ranks=2 * len(nodes), backend="gloo", device="cpu", torch_build="2.13")


BEFORE = Recorded().reached(TESTS, [(test, passed(test.name, *SPAN), True) for test in TESTS], NOW - 7200)


def text(tests: Verified, away: tuple[str, ...] = ()) -> list[str]:
    return verdicts_text(tests, "hpcforge apply site.yaml", away, NOW).splitlines()


def test_a_part_says_for_whom_it_ran_and_since_when_the_rest_stands() -> None:
    part = [passed(test.name, "w01", "w02") for test in TESTS]
    run = SmokeRun(NAMES, ("w01", "w02"), SPAN, "changed", ("w02",))
    after = BEFORE.changed({"w02"}, served=True).reached(
        TESTS, [(test, verdict, False) for test, verdict in zip(TESTS, part, strict=True)], NOW
    )
    reached = tuple(Reached(run, verdict) for verdict in part)
    assert text(Verified(reached, recorded=after)) == [
        "allreduce  passed  4 ranks on w[01-02]  (gloo, CPU; torch 2.13)",
        "train_ddp  passed  4 ranks on w[01-02]  (gloo, CPU; torch 2.13)",
        "  w02 changed, tested with w01; not tested now: w03, unchanged since last tested (the whole 2 h 0 min ago)",
    ]
    assert [line for line in text(Verified(recorded=after)) if line.startswith("verdicts")] == [
        "verdicts of 2 h 0 min ago (w[01-02] tested again since):",
        "verdicts of 0.0 s ago (of some of its nodes):",
    ]


def test_a_node_that_fell_out_and_nodes_that_were_not_asked_for_are_named() -> None:
    run = SmokeRun(("allreduce",), ("w01", "w02"), SPAN, "limited")
    verdict = replace(passed("allreduce", "w01"), left_out={"w02": "drained: bad fan"})
    assert text(Verified((Reached(run, verdict),), fell_out={"w02": "drained: bad fan"})) == [
        "allreduce  passed  2 ranks on w01  (gloo, CPU; torch 2.13)  left out: w02 (drained: bad fan)",
        "  not tested now: w03, not among the selected nodes",
        "w02 fell out while it was tested: drained: bad fan",
        "  next: scontrol show node w02",
    ]


def test_what_waits_is_named_with_whose_job_it_is_and_what_to_type_then() -> None:
    changed = BEFORE.changed({"w02"}, served=True)
    waiting = DeferredTests(NAMES, ("w02",), {"w02": "job 20, ada's train"})
    assert text(Verified(waiting=(waiting,), recorded=changed))[:3] == [
        "allreduce, train_ddp  waiting  w02 not tested: job 20, ada's train, holds w02",
        "  next: hpcforge apply site.yaml   (when that has ended)",
        "verdicts of 2 h 0 min ago (w02 changed since and has not been tested):",
    ]


def test_what_stands_is_told_with_its_age() -> None:
    assert text(Verified(recorded=BEFORE))[0] == "verdicts of 2 h 0 min ago (nothing changed since):"
    served = BEFORE.changed((), served=False)
    assert "another node that jobs need changed since" in text(Verified(recorded=served))[0]
    assert "w01 was there then, and is away now" in text(Verified(recorded=BEFORE), ("w01",))[0]


def test_what_does_not_hold_has_a_row_and_many_are_counted() -> None:
    holds, wrong = (
        Assertion(f"{name}: loss", 4.0, 3.0, error, 1e-5) for name, error in (("ddp", 1e-7), ("fsdp", 0.25))
    )
    run = SmokeRun(("allreduce",), SPAN, SPAN, "asked for")
    verdict = Verdict("allreduce", "wrong", SPAN, detail="it is wrong", assertions=(holds, *[wrong] * 9))
    lines = text(Verified((Reached(run, verdict),)))
    assert lines[0] == "allreduce  wrong  w[01-03]: it is wrong"
    assert lines[1:9] == ["  fsdp: loss: expected 4, got 3; relative error 0.25, must be at most 1e-05"] * 8
    assert lines[9:] == ["  and 1 more; `hpcforge verify --json` has all"]
    assert len(text(Verified((Reached(run, replace(verdict, status="passed")),)))) == 1


def test_packets_that_a_node_doubles_are_a_warning_of_a_test_that_passed() -> None:
    of = Isolation((), observations=("w02: 45 of 1,000 TCP segments arrived twice, the others 0 (median)",))
    verdict = replace(passed("pairs", *SPAN), isolation=of)
    lines = text(Verified((Reached(SmokeRun(("pairs",), SPAN, SPAN, "asked for"), verdict),)))
    assert lines[0].startswith("pairs  passed")
    assert lines[1] == "  warning: w02: 45 of 1,000 TCP segments arrived twice, the others 0 (median)"


def test_the_usual_rate_that_a_test_was_held_to_is_shown() -> None:
    lines = (
        Line("samples_per_s", "at_least", 491.825, "0.25 of the usual rate, the median of 5 runs", part=""),
        Line("samples_per_s", "at_least", 900.0, "baseline quiet", refuses=False, part=""),
    )
    verdict = replace(passed("train_ddp", *SPAN), lines=lines)
    run = SmokeRun(("train_ddp",), SPAN, SPAN, "asked for")
    assert text(Verified((Reached(run, verdict),)))[1:] == [
        "  line: samples_per_s at least 491.8, 0.25 of the usual rate, the median of 5 runs"
    ]
