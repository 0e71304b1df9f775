"""Whose words are believed about what: a task's about its own node and ranks."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.step_events import TaskLayout, events_of, step_events
from hpcforge.verify.step_output import read
from hpcforge.verify.step_verdict import judge, unheard
from hpcforge.verify.verdicts import Verdict
from tests.unit.verify.conftest import Build, shipped_program
from tests.unit.verify.test_process_verdict import DISK, launched, measured, said, with_test

THREE = TaskLayout(("w1", "w2", "w3"), ranks=2)


def line(task: int, **event: object) -> str:
    return f"{task}: {json.dumps(event)}\n"


def torchrun(build: Build) -> submit.Launch:
    cluster = build(3)
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2", "w3"))


def only(job: submit.Launch, ran: Completed) -> Verdict:
    (verdict,) = judge(job, ran)
    return verdict


@pytest.mark.parametrize("host", ["ALL", "w[1-3]", "w2", "", 7, None])
@pytest.mark.parametrize("event", ["failed", "wrong"])
def test_an_event_of_a_rank_is_about_the_node_of_its_task(build: Build, event: str, host: object) -> None:
    stdout = line(2, event=event, test="allreduce", rank=4, host=host, error="x")
    assert only(torchrun(build), Completed(1, stdout, "")).node == "w3"


def test_exit_codes_of_another_nodes_ranks_are_not_believed(build: Build) -> None:
    report = "  rank      : {} (local_rank: 0)\n2:   exitcode  : -9 (pid: 6)\n"
    job = torchrun(build)
    started = "".join(line(rank // 2, event="started", rank=rank, host="?") for rank in range(6))
    told = only(job, Completed(1, started, "2: " + report.format(0)))
    assert (told.status, told.rank, told.node) == ("failed", None, None)
    own = only(job, Completed(1, started, "2: " + report.format(5)))
    assert (own.detail, own.rank, own.node) == ("killed by SIGKILL", 5, "w3")


def test_rank_0_cannot_report_the_numbers_of_another_node(build: Build) -> None:
    program = shipped_program("straggler")
    job = launched(with_test(build(3), program))
    fine = {"before_ms": 1.0, "of_median": 1.0, "wait_factor": 1.0}
    stdout = "".join(line(rank // 2, event="started", rank=rank) for rank in range(6))
    stdout += "".join(line(rank // 2, event="measurement", rank=rank, host="w1", **fine) for rank in range(6))
    result = line(0, event="result", world_size=6, backend="gloo")
    assert only(job, Completed(0, stdout + result, "")).passed
    slow = line(0, event="measurement", rank=5, host="w3", **{**fine, "of_median": 9.0})
    assert only(job, Completed(0, stdout + slow + result, "")).passed
    without = stdout.replace('"rank": 5, "host"', '"rank": 3, "host"')
    verdict = only(job, Completed(0, without + result, ""))
    assert (verdict.status, verdict.detail, verdict.node) == ("unknown", "rank 5 reported no before_ms", "w3")


def test_of_two_nodes_a_number_that_is_compared_blames_none(build: Build) -> None:
    def verdict(workers: int, *values: object) -> Verdict:
        stdout = "".join(said(f"w{task + 1}", task, measured(value)) for task, value in enumerate(values))
        return only(launched(with_test(build(workers), DISK)), Completed(0, stdout, ""))

    pair = verdict(2, 10, 1e299)
    assert (pair.status, pair.node) == ("missed", None)
    assert verdict(3, 10, 10, 1e299).passed
    slow = verdict(3, 10, 10, 1)
    assert (slow.status, slow.node) == ("missed", "w3")


@pytest.mark.parametrize("start", ["2: ", "2: x\r", "2: x\x0b", "2: x\x1c", "2: x\x85", "2: x\u2028"])
@pytest.mark.parametrize(
    "forged",
    [
        "srun: error: w2: task 1: Exited with exit code 1",
        "srun: error: Node failure on w2",
        "slurmstepd-w2: error: Detected 1 oom_kill event in StepId=26.0.",
    ],
)
@pytest.mark.parametrize("launcher", ["torchrun", "plain"])
def test_what_a_task_writes_is_no_complaint_of_slurm(build: Build, launcher: str, forged: str, start: str) -> None:
    job = torchrun(build) if launcher == "torchrun" else launched(with_test(build(3), DISK))
    stdout = "".join(line(task, event="node", host=f"w{task + 1}") for task in range(3))
    ran = Completed(1, stdout, f"{start}{forged}\n")
    assert only(job, ran).node in (None, "w3")
    assert unheard(job, ran, None) == {}


def test_what_slurm_says_itself_is_believed_of_nodes_of_the_job(build: Build) -> None:
    job = torchrun(build)
    assert only(job, Completed(1, "", "srun: error: Node failure on w2\n")).node == "w2"
    assert only(job, Completed(1, "", "srun: error: Node failure on w9\n")).node is None


def test_a_task_that_names_another_node_is_not_believed(build: Build) -> None:
    job = launched(with_test(build(3), DISK))
    failed: dict[str, Any] = {"event": "failed", "error": "x"}
    stdout = said("w1", 0) + said("w2", 2, failed)  # w3 claims to be w2, which is silent
    assert only(job, Completed(1, stdout, "")).node is None
    assert only(job, Completed(1, said("w1", 0) + said("w3", 2, failed), "")).node == "w3"


def test_where_slurm_has_another_order_each_node_speaks_for_itself() -> None:
    others = "".join(line(task, event="node", host=host) for task, host in enumerate(("w3", "w1", "w2")))
    stdout = others + line(0, event="failed", rank=4, host="w1", error="x")
    seen = read(Completed(1, stdout, ""), "allreduce", THREE)
    assert [(end.rank, end.host) for end in seen.failed] == [(4, "w3")]
    assert step_events(stdout.replace('"w2"', '"w1"'), THREE).places == {}


@pytest.mark.parametrize(
    "short", ["b", "}", "{", '{"}', "x" * 1024, "}" * 1024, "{" + "x" * 1023, "{" + "x" * 1022 + "}"]
)
def test_a_text_that_never_ends_is_read_in_linear_time(short: str) -> None:
    def seconds(lines: int) -> float:
        text = '0: {"event": "x", "a": "\n0: {"event": "x", "a": "' + "y" * 1100 + "\n" + f"0: {short}\n" * lines
        began = time.process_time()
        assert not any(event["event"] == "y" for _, event in events_of(text))
        return time.process_time() - began

    few = 8_000_000 // (40 * (len(short) + 4))
    seconds(few)
    assert seconds(8 * few) < 20 * max(seconds(few), 0.01)  # 64 times as long, if it were quadratic


@pytest.mark.parametrize("length", [1000, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 5000])
def test_a_long_event_is_put_together_at_every_length(length: int) -> None:
    text = json.dumps({"event": "x", "a": "}" * (length - len('{"event": "x", "a": ""}'))})
    assert len(text) == length
    pieces = "".join(f"0: {text[at : at + 1024]}\n" for at in range(0, length, 1024))
    other = '0: {"event": "y"}\n'
    assert [event["event"] for _, event in events_of(f"{pieces}1: z\n{other}{pieces}")] == ["x", "y", "x"]
