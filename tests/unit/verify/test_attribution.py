"""Which node a verdict blames, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from hpcforge.cluster.launches import ProgramLaunch
from hpcforge.cluster.model import Gpus
from hpcforge.verify import submit
from hpcforge.verify.attribution import (
    TIMED_OUT,
    Blame,
    altered,
    blamed,
    by_slurm,
    head_lost,
    last_line,
    last_words,
    next_command,
    required,
    untrue,
    without_gpus,
)
from hpcforge.verify.head import Completed
from hpcforge.verify.job_end_reason import JobEndReason
from hpcforge.verify.step_output import RankEnd, RankExit, Transcript
from hpcforge.verify.verdicts import Assertion, Verdict
from tests.unit.verify.conftest import Build


def torchrun(build: Build) -> submit.Launch:
    cluster = build(3)
    assert cluster.acceptance
    return submit.launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2", "w3"))


def test_a_blame_of_a_node_that_is_not_in_the_job_names_none(build: Build) -> None:
    verdict = Verdict("allreduce", "passed", ("w1", "w2", "w3"))
    for node in ("ALL", "w[1-3]", "w4"):
        told = blamed(torchrun(build), verdict, Blame("failed", "x", None, node))
        assert (told.status, told.node) == ("failed", None)
    assert blamed(torchrun(build), verdict, Blame("failed", "x", None, "w2")).node == "w2"


@pytest.mark.parametrize(
    ("blame", "command"),
    [
        (Blame("failed", "x", None, "w2", "dmesg"), "dmesg"),
        (Blame("failed", "x", None, "w2"), "scontrol show node w2"),
        (Blame("failed", "x"), "sinfo --Node --long --nodes=w[1-3]"),
        (Blame("timed_out", "x", None, "w2"), "scontrol show node w2"),
    ],
)
def test_the_next_command_shows_more_of_the_node_or_of_all(build: Build, blame: Blame, command: str) -> None:
    assert next_command(torchrun(build), blame) == command


def test_a_timeout_without_a_node_is_followed_by_the_test_of_pairs(build: Build) -> None:
    job = replace(torchrun(build), pairs_test="pairs")
    assert next_command(job, Blame("timed_out", "x")) == "hpcforge verify BLUEPRINT --test pairs"
    assert next_command(job, Blame("failed", "x")) == "sinfo --Node --long --nodes=w[1-3]"


DOWN = JobEndReason("12", "job 12 was cancelled", {"w1": "down"})
CANCELLED = JobEndReason("12", "job 12 was cancelled")
NODE = Transcript(failed_nodes=("w2",), slurm_errors=("a", "Node failure on w2"))
MEMORY = Transcript(over_memory={"w3": "oom-kill event"})


@pytest.mark.parametrize(
    ("output", "end", "node", "detail"),
    [
        (Transcript(), None, None, None),
        (Transcript(), CANCELLED, None, "job 12 was cancelled"),
        (NODE, None, "w2", "Node failure on w2"),
        (NODE, CANCELLED, "w2", "Node failure on w2; job 12 was cancelled"),
        (NODE, DOWN, "w1", "down; job 12 was cancelled"),  # Slurm's records are surer
        (MEMORY, None, "w3", "used more memory than the job has there (Slurm: oom-kill event)"),
        (MEMORY, CANCELLED, None, "job 12 was cancelled"),
    ],
)
def test_slurm_knows_why_a_job_ended_and_which_node_failed(
    output: Transcript, end: JobEndReason | None, node: str | None, detail: str | None
) -> None:
    blame = by_slurm(output, end)
    assert (blame and blame.node, blame and blame.detail) == (node, detail)


@pytest.mark.parametrize(
    ("output", "ran", "lost"),
    [
        (Transcript(), Completed(None, "", "no route\n"), "lost contact with the head: no route"),
        (Transcript(), Completed(None, "", ""), "lost contact with the head: no answer"),
        (Transcript(hosts={0: "w1"}), Completed(None, "", ""), None),
        (Transcript(), Completed(1, "", ""), None),
    ],
)
def test_without_output_and_end_the_head_is_lost(output: Transcript, ran: Completed, lost: str | None) -> None:
    blame = head_lost(output, ran)
    assert (blame and blame.detail) == lost


def test_a_node_with_another_program_is_named_and_others_are_counted() -> None:
    assert altered(Transcript()) is None
    blame = altered(Transcript(changed={"w2": "allreduce.py", "w1": "allreduce.py", "w3": "x.py"}))
    assert blame is not None
    assert (blame.node, blame.detail.endswith("; the same on 2 more nodes")) == ("w2", True)
    alone = altered(Transcript(changed={"w2": "allreduce.py"}))
    assert alone is not None and "more nodes" not in alone.detail


KILLED = Transcript(task_ends={"w1": "Killed"})
FAILED = Blame("failed", "x")


@pytest.mark.parametrize(
    ("ends", "output", "rc", "status"),
    [
        ("done", Transcript(), 1, "failed"),
        ("killed", Transcript(), 0, "failed"),  # nobody killed it
        ("killed", KILLED, 137, None),
        ("killed", Transcript(exits={3: RankExit(-9, "w1")}), 1, None),
        ("killed", Transcript(task_ends={"w1": "Exited with exit code 137"}), 1, None),
        ("killed", Transcript(), 1, "failed"),
        ("killed", KILLED, TIMED_OUT, "failed"),
        ("killed", replace(KILLED, failed=(RankEnd(0, "w1", "x", own=True),)), 1, "failed"),
        ("killed", replace(KILLED, failed=(RankEnd(0, "w1", "x", own=False),)), 1, None),
    ],
)
def test_a_launch_that_is_to_be_killed_has_to_end_so(
    ends: Literal["done", "killed"], output: Transcript, rc: int, status: str | None
) -> None:
    launch = ProgramLaunch("x", "plain", ends=ends)
    blame = required(launch, output, Completed(rc, "", ""), None, FAILED if rc else None)
    assert (blame and blame.status) == status


@pytest.mark.parametrize(
    ("lines", "last"), [(["a", "b", "", "===="], "b"), (["a - b", " -- "], "a - b"), ([], ""), (["\x1b[1mx"], "[1mx")]
)
def test_rulers_and_blanks_are_no_last_line(lines: list[str], last: str) -> None:
    assert last_line(lines) == last


def test_last_words_are_slurms_or_those_of_the_program() -> None:
    ran = Completed(2, "", "a\nlast\n")
    assert last_words(Transcript(), ran).endswith("exit code 2: last")
    assert last_words(Transcript(slurm_errors=("refused",)), ran).endswith("exit code 2: refused")
    assert last_words(Transcript(), Completed(2, "", "")).endswith("exit code 2: without output")


@pytest.mark.parametrize(
    ("real_gpus", "result", "blamed_"),
    [
        (8, {"device": "cpu"}, True),
        (8, {"device": "cuda"}, False),
        (8, None, False),
        (0, {"device": "cpu"}, False),
        (8, {"device": 7}, False),
    ],
)
def test_ranks_that_computed_on_cpus_tested_no_gpu(
    build: Build, real_gpus: int, result: dict[str, object] | None, blamed_: bool
) -> None:
    cluster = build(3, gpus=Gpus("h100", real_gpus) if real_gpus else Gpus("fake", 8))
    assert cluster.acceptance
    job = submit.launch(cluster, cluster.acceptance.tests[:1], ("w1", "w2", "w3"))
    blame = without_gpus(job, Transcript(result=result))
    assert (blame and blame.status) == ("unknown" if blamed_ else None)


def test_the_first_assertion_that_does_not_hold_is_the_mistake() -> None:
    good, bad = Assertion("a", 1.0, 1.0, 0.0, 0.1), Assertion("b", 1.0, 2.0, 1.0, 0.1)
    assert untrue(Transcript(assertions=(good,))) is None
    blame = untrue(Transcript(assertions=(good, bad)))
    assert blame is not None and (blame.status, blame.node) == ("wrong", None)
