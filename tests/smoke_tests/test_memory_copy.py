"""The program memory_copy, run here as on a node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.verify.conftest import shipped_program

PROGRAM = Path(__file__).parents[2] / "smoke_tests" / "memory_copy" / "memory_copy.py"
QUICK = ("--size-mib", "8", "--seconds", "0.2")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *QUICK, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_measures_and_compares() -> None:
    ran = run("--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    measured, result = (json.loads(line) for line in ran.stdout.splitlines())
    assert (measured["event"], result["event"]) == ("measurement", "result")
    assert 0.05 < measured["copy_gb_per_s"] < 5000
    assert measured["threads"] >= 1


def test_it_knows_the_options_that_a_blueprint_may_choose() -> None:
    told = [f"--{name.replace('_', '-')}={text}" for name, text in shipped_program("memory_copy").options]
    assert told == ["--size-mib=256", "--seconds=3.0"]
    assert run("--json", *told, *QUICK).returncode == 0


def test_for_people_it_is_text() -> None:
    assert "every byte arrived" in run().stdout


def test_a_byte_that_did_not_arrive_is_named() -> None:
    ran = run("--json", "--falsify")
    assert ran.returncode == 3
    (wrong,) = (json.loads(line) for line in ran.stdout.splitlines())
    assert (wrong["event"], wrong["where"]) == ("wrong", "byte 17 of the copy")
    assert wrong["expected"] != wrong["got"]


def test_parts_are_all_of_it_and_none_twice() -> None:
    code = "import json, memory_copy as m; print(json.dumps([m.parts(8 * m.MIB + 5, 3), m.parts(m.PAGE, 4)]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=PROGRAM.parent, capture_output=True, text=True, check=True, timeout=60)
    for parts, size in zip(json.loads(done.stdout), (8 * 1024 * 1024 + 5, 4096), strict=True):
        assert (parts[0][0], parts[-1][1]) == (0, size)
        assert [end for _, end in parts[:-1]] == [begin for begin, _ in parts[1:]]
