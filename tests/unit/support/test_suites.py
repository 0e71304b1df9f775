"""Sources, results and tables of the public suites; `make test-suites` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import suites
from tests.support.shipped import ROOT

EXPECTED = suites.Expected((1, 7), {"1.95": ("lab", "two cores")})


def test_without_sources_it_says_how_to_fetch_them_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "osu" / "mpi" / "pt2pt").mkdir(parents=True)
    (tmp_path / "osu" / "mpi" / "pt2pt" / "osu_latency.c").touch()
    story = "tests/stories/jobs/test_suites.py"
    for options, osu in (([], True), (["--suite-sources", str(tmp_path)], False)):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", story, "--suites", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stdout
        assert "branch slurm-22-05-8-1 https://github.com/SchedMD/slurm" in done.stdout + done.stderr
        assert (suites.SOURCES["osu"].fetch in done.stdout + done.stderr) == osu


def test_the_status_of_a_users_script_is_its_own(tmp_path: Path) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    sudo.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = suites.user_script("ada", "echo 'two words'; false; code=$?; exit $((code + 2))")
    output = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True).stdout
    assert (output, suites.status_of(output)) == ("two words\n\n3\n", 3)


def test_slurms_tests_are_those_of_the_families_in_order(tmp_path: Path) -> None:
    for name in ("test7.1", "test1.10", "test1.9", "test2.1", "test1.9.prog.c", "globals"):
        (tmp_path / name).touch()
    assert suites.slurm_tests(tmp_path, (1, 7)) == ["1.9", "1.10", "7.1"]


def test_a_failure_without_a_known_cause_is_unexpected() -> None:
    results = {"1.1": 0, "1.2": 1, "1.3": 255, "1.95": 1, "7.1": 124, "7.2": 137}
    assert suites.unexpected(results, EXPECTED) == ["1.2: exit status 1", "7.1: took too long", "7.2: exit status 137"]
    assert list(suites.table(results, EXPECTED)) == [
        "6 tests: 1 passed, 1 skipped, 4 failed",
        "1.2  exit status 1  unknown",
        "1.95  exit status 1  lab  two cores",
        "7.1  took too long  unknown",
        "7.2  exit status 137  unknown",
    ]


def test_the_table_of_known_failures_has_a_reason_for_each() -> None:
    known = suites.read_expected()
    assert known.families == (1, 2, 7, 12, 17, 21)
    assert all(why for _, why in known.failures.values())


def test_another_cause_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.yaml").write_text("families: [1]\nweather: {'1.1': rain}\n")
    with pytest.raises(ValueError, match="weather is none of families, test, lab, site"):
        suites.read_expected(tmp_path / "table.yaml")


RAN = "Ran 20 tests in 61.2s\n\n"
SHARED = "ERROR: testMemory (test_win.TestWinAllocateSharedWorld.testMemory)\n"


@pytest.mark.parametrize(
    ("output", "passed", "failed"),
    [
        (RAN + "OK\n", 20, []),
        (RAN + RAN + "OK (skipped=3)\nOK (skipped=3)\n", 17, []),
        (
            SHARED + RAN + SHARED + RAN + "FAILED (errors=1, skipped=3)\n" + "FAILED (failures=1, errors=1)\n",
            16,
            ["test_win.TestWinAllocateSharedWorld.testMemory"],
        ),
        ("testSum ... Segmentation fault\n", 0, []),
    ],
)
def test_results_of_unittest_are_those_of_the_rank_that_passed_fewest(
    output: str, passed: int, failed: list[str]
) -> None:
    assert suites.unittest_results(output) == (passed, failed)
