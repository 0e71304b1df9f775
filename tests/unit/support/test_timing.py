"""A target that is over its budget by half fails, and the documents say the same budgets."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.support.machine import slowness
from tests.support.timing import Spent, Timing, complaint, read_budgets, story_minutes

REPOSITORY = Path(__file__).parents[3]


def test_over_its_budget_by_half_a_target_fails() -> None:
    assert complaint("test", 10, 14.9) == ""
    assert complaint("test", 10, 15.0).startswith("test: 15.0 min, over 10 min by half or more: ")


def test_a_slower_machine_has_longer() -> None:
    assert complaint("test", 10, 29.9, slower=2.0) == ""
    assert complaint("test", 10, 30.0, slower=2.0).startswith("test: 30.0 min, over 20 min by half")


@pytest.mark.parametrize(("took", "failed"), [(1.4, False), (1.6, True)])
def test_the_run_fails(took: float, failed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing("test", shown=False, written=False)
    took_s = took * read_budgets()["test"] * 60 * slowness()
    monkeypatch.setattr(timing, "_began_s", time.monotonic() - took_s)
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace())
    timing.pytest_sessionfinish(cast("pytest.Session", session))
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if failed else pytest.ExitCode.OK)


def test_the_minutes_of_a_story_are_those_of_its_tests() -> None:
    spent = [
        Spent("tests/stories/growth/test_growth.py::test_a[12]", 90, 0.1),
        Spent("tests/stories/growth/test_growth.py::test_b", 30, 1.0),
        Spent("tests/unit/run/test_executor.py::test_c", 60, 1.0),
    ]
    assert story_minutes(spent) == {"growth/test_growth.py": 2.0}


def test_the_documents_have_the_budgets_and_the_makefile_asks_for_each() -> None:
    table = re.findall(r"^\| `make ([a-z-]+)` \| ([0-9]+) \|", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.M)
    assert {target: float(minutes) for target, minutes in table} == read_budgets()
    for target in read_budgets():
        made = subprocess.run(["make", "-n", target], cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert f"--budget {target}" in made.stdout
