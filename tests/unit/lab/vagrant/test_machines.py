"""Vagrant as a program: its steps while it runs, and its last lines when it fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.vagrant import machines

SCRIPT = """#!/bin/sh
echo "==> w01: Creating domain with the following settings..."
echo "==> w01:  -- Name:              hf0001-w01"
until [ -e "$STEP" ]; do sleep 0.05; done
echo "==> w01: Waiting for machine to boot. This may take a few minutes..." >&2
echo "    w01: the last line"
exit "$1"
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A program `vagrant` that waits in the midst of its output for a file."""
    program = tmp_path / "vagrant"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    return {"PATH": path, "STEP": str(tmp_path / "step")}


def test_each_step_is_reported_while_vagrant_runs(environment: dict[str, str]) -> None:
    steps: list[str] = []

    def progress(text: str) -> None:
        steps.append(text)
        Path(environment["STEP"]).touch()  # without this report Vagrant would not end

    machines._call("0", env=environment, progress=progress)
    assert steps == [
        "w01: Vagrant: Creating domain with the following settings...",
        "w01: Vagrant: Waiting for machine to boot. This may take a few minutes...",
    ]


def test_a_failure_has_the_last_lines(environment: dict[str, str]) -> None:
    Path(environment["STEP"]).touch()
    with pytest.raises(LabError, match=r"failed with exit code 3\n(.*\n)*    w01: the last line"):
        machines._call("3", env=environment)
    machines._call("3", env=environment, must=False)
