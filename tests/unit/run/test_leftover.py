"""Test jobs of runs that are dead and of runs that are not, with a controller that answers from a table."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster import load
from hpcforge.engines.tasks import Command, Event, Task, result
from hpcforge.run import leftover
from hpcforge.run.records.lease import _started, this_process
from hpcforge.slurm.jobs import SLURM_JOBS, SLURM_WAITING
from hpcforge.verify.heartbeat import OwnedJob, Owner


def ended_process() -> Mapping[str, Any]:
    child = subprocess.Popen(["sleep", "60"])
    process = {**this_process(), "pid": child.pid, "started": _started(child.pid)}
    child.kill()
    child.wait()
    return process


CLUSTER = load(Path(__file__).parents[3] / "blueprints" / "rehearsal.yaml").cluster
HERE, ENDED = dict(this_process()), ended_process()
ELSEWHERE = {"where": "0" * 16, "pid": 1, "started": 2}


def job(process: Mapping[str, Any], silent_s: float = 5.0) -> OwnedJob:
    return OwnedJob("12", False, "w[1-2]", Owner("cafe", "ada@desk", process), silent_s)


@pytest.mark.parametrize(
    ("process", "silent_s", "dead"),
    [(HERE, 5, False), (ELSEWHERE, 39, False), (ELSEWHERE, 40, True), (ENDED, 0, True)],
)
def test_who_is_dead(process: Mapping[str, Any], silent_s: float, dead: bool) -> None:
    assert leftover.dead(job(process, silent_s)) is dead


def test_nobody_waits_for_jobs_that_will_be_cancelled() -> None:
    answers = {SLURM_JOBS: "12|w1\n13|w1\n", SLURM_WAITING: "12|tests|1|main|w1\n", "other": "12|w1\n"}
    assert leftover.without_left(answers, [job(ENDED)]) == {
        SLURM_JOBS: "13|w1\n",
        SLURM_WAITING: "",
        "other": "12|w1\n",
    }
    assert leftover.without_left({}, [job(ENDED)]) == {}


class Controller:
    """Slurm with some jobs of the test account; a cancelled one goes when it has been seen completing."""

    def __init__(self, *jobs: OwnedJob) -> None:
        self.jobs, self.cancelled, self.said = list(jobs), list[str](), list[str]()

    def run(self, task: Task) -> Event:
        assert isinstance(task, Command)
        if task.argv[0] == "scancel":
            self.cancelled += task.argv[1:]
            self.jobs = [replace(job, completing=job.number in self.cancelled) for job in self.jobs]
            return Event(task.node, task.id, "result", result(ok=True, rc=0))
        assert task.argv[-1] == CLUSTER.acceptance.run_as  # type: ignore[union-attr]
        lines = ["01234567.1000"]
        for job in self.jobs:
            state = "COMPLETING" if job.completing else "RUNNING"
            lines.append(f"{job.number}|{state}|w1|{job.owner.comment()} alive=01234567.{1000 - int(job.silent_s)}")
        self.jobs = [job for job in self.jobs if not job.completing]
        return Event(task.node, task.id, "result", result(ok=True, rc=0, stdout="\n".join(lines)))

    def start(self, task: Task) -> None:
        raise AssertionError(task)

    def next(self, timeout_s: float | None = None) -> Event | None:
        raise AssertionError(timeout_s)


def test_the_dead_are_cancelled_and_the_living_are_named() -> None:
    mine, left = job(HERE), replace(job(ENDED), number="13")
    slurm = Controller(mine, left, replace(job(ENDED), number="14", completing=True))
    leftover.clear(slurm, CLUSTER, slurm.said.append)
    assert slurm.cancelled == ["13"]
    assert slurm.jobs == [replace(mine, completing=False)]
    assert slurm.said == [
        "job 12 on w1, a smoke test of ada@desk: its run is active; not touched",
        "job 13 on w1, a smoke test of ada@desk: its run has ended; cancelled",
    ]


def test_a_squeue_that_fails_is_no_job_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover, "_GONE_S", 0.1)
    monkeypatch.setattr(leftover, "_POLL_S", 0.01)
    slurm = Controller(job(ENDED))
    answer = slurm.run

    def run(task: Task) -> Event:
        failed = Event(task.node, task.id, "result", result(rc=127, error="exit status 127"))
        return failed if slurm.cancelled else answer(task)

    slurm.run = run  # type: ignore[method-assign]
    leftover.clear(slurm, CLUSTER, slurm.said.append)
    assert slurm.said[-1] == "Slurm has not ended job 12 yet"


def test_what_slurm_does_not_end_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover, "_GONE_S", 0.0)
    slurm = Controller(job(ENDED))
    leftover.clear(slurm, CLUSTER, slurm.said.append)
    assert slurm.said[-1] == "Slurm has not ended job 12 yet"


def test_without_tests_nobody_is_asked() -> None:
    slurm = Controller()
    slurm.run = lambda task: pytest.fail(str(task))  # type: ignore[method-assign]
    leftover.clear(slurm, replace(CLUSTER, acceptance=None), slurm.said.append)
