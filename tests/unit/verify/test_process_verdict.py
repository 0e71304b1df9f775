"""Tests whose processes each report for themselves: how they are started, and what is made of their output."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.cluster.model import Cluster, Gpus, Measure, SmokeTest, SmokeTestProgram, Threshold
from hpcforge.verify import submit
from hpcforge.verify.head import Completed
from hpcforge.verify.step_verdict import judge
from hpcforge.verify.verdicts import Verdict, summary_line
from hpcforge.verify.verify import verify
from tests.unit.verify.test_verify import ScriptedHead, ok, passed, quiet

Build = Callable[..., Cluster]
GOLDEN = Path(__file__).parent / "golden"
DISK = SmokeTestProgram(
    name="disk",
    text="pass\n",
    launcher="plain",
    measures=(Measure("write_gb_per_s", "GB/s", "higher"),),
    headline="{write_gb_per_s} GB/s, least {write_gb_per_s:worst} on {write_gb_per_s:worst_node}",
    lines=(Threshold("write_gb_per_s", "at_least_of_median", 0.8),),
    pytorch=False,
)
WRONG: dict[str, object] = {"event": "wrong", "where": "byte 7", "expected": "1", "got": "0"}


def with_test(cluster: Cluster, program: SmokeTestProgram) -> Cluster:
    """The same cluster, tested by this alone."""
    assert cluster.acceptance
    tests = (SmokeTest(program.name, cluster.acceptance.tests[0].nodes, 120, program),)
    return replace(cluster, acceptance=replace(cluster.acceptance, tests=tests))


def launched(cluster: Cluster) -> submit.Launch:
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests, cluster.acceptance.tests[0].nodes)


def said(node: str, task: int, *events: dict[str, object]) -> str:
    """What a task prints, as srun labels it; what starts it says first where it is."""
    every = [{"event": "node", "host": node}, *events]
    return "".join(f"{task}: {json.dumps(event)}\n" for event in every)


def measured(value: object) -> dict[str, object]:
    return {"event": "measurement", "write_gb_per_s": value}


def judged(build: Build, ran: Completed, program: SmokeTestProgram = DISK, workers: int = 3) -> Verdict:
    (verdict,) = judge(launched(with_test(build(workers), program)), ran)
    return verdict


def reports(*values: object) -> str:
    return "".join(said(f"w{task + 1}", task, measured(value)) for task, value in enumerate(values))


@pytest.mark.parametrize("name", ["plain", "srun"])
def test_commands(name: str, build: Build, golden: Callable[[Path, str], None]) -> None:
    program = replace(DISK, launcher=name)
    job = launched(with_test(build(3), program))
    golden(GOLDEN / f"{name}.txt", "\n".join([*(shlex.quote(word) for word in submit.srun(job, "1234")), ""]))


def test_what_starts_a_process_says_where_before_it_has_a_word(build: Build) -> None:
    command = submit.srun(launched(with_test(build(2), DISK)), "7")
    command = [*command[command.index("/bin/sh") : command.index(submit.PYTHON)], "echo", "mine"]
    ran = subprocess.run(
        command, env={"SLURMD_NODENAME": "w2", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout == '{"event": "node", "host": "w2", "launch": ""}\nmine\n'


def test_each_node_reports_and_the_headline_is_of_all(build: Build) -> None:
    verdict = judged(build, Completed(0, reports(10, 12.34, 11), ""))
    assert summary_line(verdict) == "disk  passed  each of w[1-3]  11 GB/s, least 10 on w1"
    assert [(measurement["host"], measurement["write_gb_per_s"]) for measurement in verdict.measurements] == [
        ("w1", 10),
        ("w2", 12.34),
        ("w3", 11),
    ]


def test_a_node_that_is_slower_than_the_others_is_named_with_all_numbers(build: Build) -> None:
    verdict = judged(build, Completed(0, reports(10, 7.5, 10.5), ""))
    assert (verdict.status, verdict.node) == ("missed", "w2")
    assert verdict.detail == ("write_gb_per_s must be at least 8 GB/s, 0.8 of the median: w2 7.5 GB/s (w1 10, w3 10.5)")
    assert summary_line(verdict).startswith("disk  missed  w2: write_gb_per_s must be at least 8 GB/s")
    assert verdict.next_command == "scontrol show node w2"


ADDRESS = {"event": "wrong", "where": "address of w3", "expected": "10.77.2.13", "got": "10.77.2.14"}
COMMON = (
    "address of w3: expected 10.77.2.13, got 10.77.2.14 on w[1-2,4-5]: a common cause (name service, files on the head)"
)


def test_what_most_nodes_report_alike_of_a_third_is_a_common_cause_and_blames_none(build: Build) -> None:
    wrong = "".join(said(f"w{number}", number - 1, ADDRESS) for number in (1, 2, 4, 5)) + said("w3", 2, measured(9))
    verdict = judged(build, Completed(3, wrong, ""), workers=5)
    assert (verdict.status, verdict.node, verdict.detail) == ("wrong", None, COMMON)
    assert verdict.next_command == "hpcforge plan BLUEPRINT"
    verdict = judged(build, Completed(3, wrong + said("w4", 3, WRONG), ""), workers=5)
    assert (verdict.node, verdict.detail) == ("w4", f"byte 7: expected 1, got 0; {COMMON}")


@pytest.mark.parametrize(("nodes", "workers"), [((1, 2), 3), ((1, 2, 4), 6)])
def test_what_few_nodes_report_alike_is_their_own(nodes: tuple[int, ...], workers: int, build: Build) -> None:
    wrong = "".join(said(f"w{number}", number - 1, ADDRESS) for number in nodes)
    assert judged(build, Completed(3, wrong, ""), workers=workers).node == "w1"


def test_several_slow_nodes_are_all_named_and_none_is_blamed_alone(build: Build) -> None:
    verdict = judged(build, Completed(0, reports(10, 5, 10, 10, 4), ""), workers=5)
    assert (verdict.status, verdict.node) == ("missed", None)
    assert "w5 4 GB/s, w2 5 GB/s (w1 10, w3 10, w4 10)" in verdict.detail


@pytest.mark.parametrize(
    ("line", "better", "said_of_it"),
    [
        (Threshold("write_gb_per_s", "at_least", 11), "higher", "must be at least 11 GB/s: w1 10 GB/s (w2 12, w3 11)"),
        (Threshold("write_gb_per_s", "at_most", 11.5), "lower", "must be at most 11.5 GB/s: w2 12 GB/s (w1 10, w3 11)"),
        (
            Threshold("write_gb_per_s", "at_most_of_median", 1.05),
            "lower",
            "must be at most 11.6 GB/s, 1.05 of the median: w2",
        ),
    ],
)
def test_lines(line: Threshold, better: str, said_of_it: str, build: Build) -> None:
    program = replace(DISK, lines=(line,), measures=(Measure("write_gb_per_s", "GB/s", better),))
    verdict = judged(build, Completed(0, reports(10, 12, 11), ""), program)
    assert verdict.status == "missed"
    assert said_of_it in verdict.detail


def test_a_line_of_a_test_of_torchrun_is_held_too_and_the_next_has_run(build: Build) -> None:
    cluster = build()
    assert cluster.acceptance
    first, second = cluster.acceptance.tests
    line = Threshold("busbw_gb_per_s", "at_least", 40)
    held = replace(first, program=replace(first.program, lines=(line,)))
    cluster = replace(cluster, acceptance=replace(cluster.acceptance, tests=(held, second)))
    head = ScriptedHead()
    verdicts = verify(cluster, head, {}, quiet)
    assert [(verdict.status, verdict.detail) for verdict in verdicts] == [
        ("missed", "busbw_gb_per_s is 1.5 GB/s, and must be at least 40 GB/s"),
        ("passed", ""),
    ]
    assert head.programs().count("srun") == 1


@pytest.mark.parametrize(
    ("ran", "status", "node", "detail"),
    [
        (Completed(0, reports(10, 11), ""), "unknown", "w3", "no process began: no output"),
        (
            Completed(0, reports(10, "fast", 11), ""),
            "unknown",
            "w2",
            "reported no write_gb_per_s: the result is incomplete",
        ),
        (Completed(0, reports(10, float("nan"), 11), ""), "unknown", "w2", "reported no write_gb_per_s"),
        (
            Completed(0, "", ""),
            "unknown",
            None,
            "no process began on w[1-3]: srun ended with exit code 0: without output",
        ),
        (
            Completed(1, reports(10, 11, 12), "1: no space left\nsrun: error: w2: task 1: Exited with exit code 5\n"),
            "failed",
            "w2",
            "no space left; Exited with exit code 5",
        ),
        (
            Completed(137, reports(10, 11, 12), "srun: error: w3: task 2: Killed\n"),
            "failed",
            "w3",
            "Killed",
        ),
        (
            Completed(1, reports(10, 11) + said("w3", 2, {"event": "failed", "error": "no disk"}), ""),
            "failed",
            "w3",
            "no disk",
        ),
        (
            Completed(
                3,
                reports(10, 11) + said("w3", 2, {"event": "wrong", "where": "byte 7", "expected": "1", "got": "0"}),
                "",
            ),
            "wrong",
            "w3",
            "byte 7: expected 1, got 0",
        ),
        (
            Completed(
                124,
                said("w1", 0, measured(1), {"event": "result"}) + said("w2", 1) + said("w3", 2, {"event": "result"}),
                "srun: error: w2: task 1: Terminated\n",
            ),
            "timed_out",
            "w2",
            "not done after 120 s",
        ),
        (Completed(None, "", "the connection closed"), "unknown", None, "lost contact with the head"),
        (Completed(1, reports(10, 11, 12), ""), "failed", None, "srun ended with exit code 1: without output"),
    ],
)
def test_the_node_is_named(build: Build, ran: Completed, status: str, node: str | None, detail: str) -> None:
    verdict = judged(build, ran)
    assert (verdict.status, verdict.node) == (status, node)
    assert verdict.detail.startswith(detail)


def test_a_process_cannot_say_that_it_is_elsewhere(build: Build) -> None:
    lies: list[dict[str, object]] = [
        {"event": "node", "host": "w1"},
        {"event": "measurement", "write_gb_per_s": 1, "host": "w1", "task": 0},
        *({"event": "measurement", f"x{number}": number} for number in range(60)),
    ]
    verdict = judged(build, Completed(0, said("w1", 0, measured(10)) + said("w2", 1, *lies) + said("w9", 2), ""))
    assert (verdict.status, verdict.node) == ("unknown", "w3")  # w9 is not of the job
    both = Completed(0, said("w1", 0, measured(10)) + said("w2", 1, *lies) + said("w3", 2, measured(10)), "")
    assert (judged(build, both).status, judged(build, both).node) == ("missed", "w2")


def test_tasks_of_a_node_count_by_the_worst_and_one_report_is_enough(build: Build) -> None:
    program = replace(DISK, launcher="srun")
    tasks = [said(f"w{task // 2 + 1}", task, measured(value)) for task, value in enumerate((10, 6, 10, 11, 10, 10))]
    verdict = judged(build, Completed(0, "".join(tasks), ""), program, workers=3)
    assert (verdict.status, verdict.node, verdict.ranks) == ("missed", "w1", 6)
    one = "".join([tasks[0], *(said(f"w{task // 2 + 1}", task) for task in (1, 2, 3))])
    assert summary_line(judged(build, Completed(0, one, ""), program, workers=2)).startswith(
        "disk  passed  4 tasks on w[1-2]  10 GB/s"
    )


def test_a_task_that_hangs_is_named_beside_one_of_its_node_that_does_not(build: Build) -> None:
    done = [said(f"w{task // 2 + 1}", task, measured(9), *([{"event": "result"}] * (task != 2))) for task in range(4)]
    verdict = judged(build, Completed(124, "".join(done), ""), replace(DISK, launcher="srun"), workers=2)
    assert (verdict.status, verdict.rank, verdict.node) == ("timed_out", 2, "w2")


def test_tests_that_torchrun_does_not_start_have_a_launch_of_their_own(build: Build) -> None:
    cluster = build(2)
    assert cluster.acceptance
    first, second = cluster.acceptance.tests
    disk = SmokeTest("disk", first.nodes, 120, DISK)
    cluster = replace(cluster, acceptance=replace(cluster.acceptance, tests=(first, disk, second)))
    head = ScriptedHead(srun=[passed(4), ok(reports(10, 11))])
    verdicts = verify(cluster, head, {}, quiet)
    assert [(verdict.test, verdict.status) for verdict in verdicts] == [
        ("allreduce", "passed"),
        ("disk", "passed"),
        ("train_ddp", "passed"),
    ]
    assert head.programs().count("sbatch") == 2


def test_without_pytorch_only_what_needs_it_does_not_run(build: Build) -> None:
    cluster = build(2)
    assert cluster.acceptance
    first = cluster.acceptance.tests[0]
    both = (first, SmokeTest("disk", first.nodes, 120, DISK))
    cluster = replace(cluster, pytorch=None, acceptance=replace(cluster.acceptance, tests=both))
    assert [program.name for program in cluster.programs] == ["disk"]
    verdicts = verify(cluster, ScriptedHead(srun=[ok(reports(10, 11))]), {}, quiet)
    assert [(verdict.status, verdict.detail) for verdict in verdicts] == [
        ("not_run", "allreduce needs PyTorch: name a version under software.frameworks.pytorch"),
        ("passed", ""),
    ]


def test_too_few_usable_nodes_are_said(build: Build) -> None:
    cluster = with_test(build(3), replace(DISK, min_nodes=3))
    (verdict,) = verify(cluster, ScriptedHead(), {"w2": "drained"}, quiet)
    assert (verdict.status, verdict.detail) == ("not_run", "disk takes 3 nodes, and 2 are usable")


JAX = replace(
    DISK, launcher="meeting", framework="jax", measures=(Measure("ranks", "1"),), headline="{ranks}", lines=()
)


@pytest.mark.parametrize(("kind", "device", "status"), [
    ("real", "cpu", "unknown"), ("real", "NVIDIA H200", "passed"), ("fake", "cpu", "passed"), ("none", "cpu", "passed"),
])  # fmt: skip
def test_ranks_that_leave_real_gpus_idle_prove_nothing_of_them(
    kind: str, device: str, status: str, build: Build
) -> None:
    job = launched(with_test(build(2), DISK))
    gpus = None if kind == "none" else Gpus("fake" if kind == "fake" else "h200-sxm", 1)
    nodes = tuple(replace(node, gpus=gpus) for node in job.nodes)
    turns = (replace(job.turns[0], program=JAX),)
    job = replace(job, nodes=nodes, turns=turns, gpus_per_node=0 if gpus is None else 1)
    events = ({"event": "measurement", "ranks": 2}, {"event": "result", "device": device})
    (verdict,) = judge(job, ok(said("w1", 0, *events) + said("w2", 1)))
    assert (verdict.status, verdict.device) == (status, device)
    if status == "unknown":
        assert verdict.detail == (
            "ran on CPUs: no GPU was used, though each node has 1; check that its jax is a build for GPUs"
        )
    else:
        assert f"({'CPU' if device == 'cpu' else device})" in summary_line(verdict)


def test_each_node_that_reports_a_fault_keeps_its_own_words(build: Build) -> None:
    mine, other = WRONG, {**WRONG, "where": "byte 9"}
    ran = Completed(1, said("w1", 0, mine, other) + said("w2", 1, measured(1.0)) + said("w3", 2, mine), "")
    verdict = judged(build, ran)
    assert verdict.node == "w1"
    assert verdict.reasons == {
        "w1": "byte 7: expected 1, got 0; byte 9: expected 1, got 0",
        "w3": "byte 7: expected 1, got 0",
    }
