"""Which tests run on which nodes when only some are asked for, and what is kept of it."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.engines.tasks import Engine, Event, Task
from hpcforge.report.progress import Progress
from hpcforge.run.result import Listener, Verified
from hpcforge.run.smoke_tests import SmokeSetup, TimeLimitError, asked, chosen, launches, own_lines, run_chosen
from hpcforge.tally import silent
from hpcforge.verify.lines import of_two_runs
from hpcforge.verify.verdict_records import Recorded, load
from hpcforge.verify.verdicts import Verdict, summary_line
from tests.unit.verify.test_verify import FULL, PROLOG, ScriptedHead, ok, passed, record

Build = Callable[..., Cluster]


class Keeper:
    """Takes the verdicts that are kept."""

    text = ""

    def run(self, task: Task) -> Event:
        self.text = cast("Any", task).request["text"]
        return Event("head", task.id, "result", {"ok": True})


class Deaf:
    def say(self, text: str) -> None:
        pass

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        yield

    tally = staticmethod(silent)


def verified(
    cluster: Cluster,
    head: ScriptedHead,
    recorded: Recorded = Recorded(),  # noqa: B008 - it is frozen
    limit: tuple[str, ...] | None = None,
    out: dict[str, str] | None = None,
    weigh: Callable[[SmokeTest, Verdict], Verdict] = own_lines,
) -> Verified:
    keeper = Keeper()
    listener = cast("Listener", Deaf())
    choice = asked(chosen(cluster, recorded, "all", out or {}, {}), ["allreduce"], limit)
    setup = SmokeSetup(cast("Engine", keeper), head, cluster, listener, weigh)
    done = run_chosen(setup, recorded, choice, out or {}, "")
    assert load(keeper.text or None) == done.recorded
    return done


def test_only_nodes_that_are_asked_for_are_tested_with_all_of_their_ranks(build: Build) -> None:
    cluster = build(3)
    whole = verified(cluster, ScriptedHead(srun=[passed(6, "allreduce")])).recorded
    head = ScriptedHead(srun=[passed(4, "allreduce")])
    done = verified(cluster, head, whole, ("w1", "w2", "head"))
    (reached,) = done.reached
    assert (reached.verdict.status, reached.verdict.nodes, reached.verdict.ranks) == ("passed", ("w1", "w2"), 4)
    assert (reached.run.why, reached.run.untested) == ("limited", ("w3",))
    (kept,) = done.recorded.kept
    assert (kept.verdict.nodes, kept.part and kept.part.nodes) == (("w1", "w2", "w3"), ("w1", "w2"))
    assert kept.stands_for == ("w1", "w2", "w3")


def test_launches_are_counted_and_weigh_what_they_took_before(build: Build) -> None:
    cluster, out = build(3), io.StringIO()
    with Progress(out) as listener:
        choice = asked(chosen(cluster, Recorded(), "all", {}, {}), ["allreduce"], None)
        head, keeper = ScriptedHead(srun=[passed(6, "allreduce")]), cast("Engine", Keeper())
        done = run_chosen(SmokeSetup(keeper, head, cluster, listener), Recorded(), choice, {}, "")
    lines = [line.partition(" s] ")[2] for line in out.getvalue().splitlines()]
    assert lines[0] == "launches of tests ..."
    assert lines[-1].startswith("launches of tests: 1 of 1, ")
    name = "allreduce on w[1-3]"
    assert launches(cluster, Recorded(), choice.runs) == {name: 1.0}
    (kept,) = done.recorded.kept
    slow = replace(done.recorded, kept=(replace(kept, verdict=replace(kept.verdict, seconds=41.0)),))
    assert launches(cluster, slow, choice.runs) == {name: 41.0}
    with Progress(again := io.StringIO()) as listener:
        head = ScriptedHead(srun=[passed(6, "allreduce")])
        run_chosen(SmokeSetup(keeper, head, cluster, listener), slow, choice, {}, "")
    limit = "by the time limits of the tests"
    assert [limit in out.getvalue(), f"{limit}; 41 s the last time" in again.getvalue()] == [True, True]
    assert "the last time" not in out.getvalue()


def test_all_nodes_of_a_test_are_the_whole_and_none_is_no_test(build: Build) -> None:
    cluster = build(2)
    (reached,) = verified(cluster, ScriptedHead(srun=[passed(4, "allreduce")]), limit=("w1", "w2")).reached
    assert reached.run.whole
    head = ScriptedHead()
    assert verified(cluster, head, limit=("head",)).reached == ()
    assert head.asked == []


def test_a_node_that_falls_out_is_told_apart_from_one_that_was_left_out_before(build: Build) -> None:
    head = ScriptedHead(
        squeue=[ok(PROLOG), ok("12|CANCELLED|None\n"), ok("12|RUNNING|None\n")],
        scontrol=[record("prolog")], sinfo=[ok(FULL)], srun=[passed(2, "allreduce")],
    )  # fmt: skip
    done = verified(build(3), head, out={"w3": "unreachable"})
    why = "drained: hpcforge-health: /tmp has 1 MiB free, needed 512 MiB"
    assert done.fell_out == {"w2": why}
    (reached,) = done.reached
    assert reached.verdict.passed
    assert reached.verdict.left_out == {"w2": why, "w3": "unreachable"}
    changed = replace(reached.run, why="changed")
    assert not changed.partners  # of a set that is tested as a whole no node needs one


@pytest.mark.parametrize(
    ("seconds", "runs", "status", "node"),
    [
        (9.0, ("w2", None), "passed", None),  # a busy host: no node is named
        (9.0, ("w2", "w2"), "missed", "w2"),
        (9.0, ("w2", "w1"), "missed", None),
        (9.0, (None,), "passed", None),
        (601.0, ("w2",), "missed", "w2"),  # it has measured for long enough
    ],
)
def test_a_number_that_misses_its_line_is_measured_again_before_a_node_is_named(
    build: Build, seconds: float, runs: tuple[str | None, ...], status: str, node: str | None
) -> None:
    left = [*runs]

    def weigh(test: SmokeTest, verdict: Verdict) -> Verdict:
        slow = left.pop(0)
        verdict = replace(verdict, seconds=seconds)
        return replace(verdict, status="missed", node=slow, detail=f"{slow} is slow") if slow else verdict

    head = ScriptedHead(srun=[passed(4, "allreduce") for _ in runs])
    (reached,) = verified(build(2), head, weigh=weigh).reached
    assert (reached.verdict.status, reached.verdict.node, left) == (status, node, [])
    assert reached.verdict.first_run == ("w2 is slow" if len(runs) == 2 else "")
    if runs == ("w2", "w1"):
        assert reached.verdict.detail == "w1 is slow; in a first run w2 is slow"
    if len(runs) == 2 and status == "passed":
        assert "run twice: the first missed, w2 is slow" in summary_line(reached.verdict)


def test_a_second_run_that_does_not_start_names_no_node() -> None:
    first = Verdict("gemm", "missed", ("w1", "w2"), node="w2", detail="w2 is slow")
    verdict = of_two_runs(first, Verdict("gemm", "pending", ("w1", "w2"), detail="job 9 did not start"))
    assert (verdict.status, verdict.node) == ("missed", None)
    assert verdict.detail == "w2 is slow; a second run did not start: job 9 did not start"


def test_a_judgement_that_never_ends_is_ended_and_its_job_is_cancelled(build: Build) -> None:
    """As a loop of isolation that names the same part for ever."""
    head = ScriptedHead(srun=[passed(4, "allreduce")])

    def judged(_test: SmokeTest, _verdict: Verdict) -> Verdict:
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # the limit passes while it loops
        while True:
            sum(range(100))

    with pytest.raises(TimeLimitError, match=r"sum of the time limits: allreduce: ended after"):
        verified(build(2), head, weigh=judged)
    assert any(command[0] == "scancel" for command in head.asked)
