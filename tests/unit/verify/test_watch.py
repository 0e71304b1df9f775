"""A step that is watched, by a real shell; squeue is a script that says what it is told."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge.verify.launches import watched

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def ran(squeue: str, *command: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "squeue"
        program.write_text(f"#!/bin/sh\n{squeue}\n")
        program.chmod(0o755)
        return subprocess.run(
            watched("12", ["timeout", "60", *command]), env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=50,
        )  # fmt: skip

    return ran


def test_a_step_that_hangs_after_its_job_is_over_is_ended_with_all_its_processes(run: Run) -> None:
    sleep = f"sleep 59.{os.getpid()}"
    ran = run("echo CANCELLED", "sh", "-c", f"trap '' TERM; {sleep} & echo here; wait; {sleep}")
    assert (ran.returncode, ran.stdout) == (137, "here\n")
    assert sleep not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("squeue", ["echo RUNNING", "echo 'slurm_load_jobs error' >&2; exit 1", ":", "echo PENDING"])
def test_a_step_whose_job_runs_or_of_which_nothing_is_heard_ends_by_itself(run: Run, squeue: str) -> None:
    ran = run(squeue, "sh", "-c", "sleep 4.5; echo out; echo err >&2; exit 3")
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "out\n", "err\n")
