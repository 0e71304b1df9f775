"""Processes of plays."""

from __future__ import annotations

import subprocess
import sys

from hpcforge.engines.ansible import _limit_memory

STARTS = "import subprocess, sys; input(); sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
FILLS = "held = bytearray(2 << 30)"


def test_what_a_play_starts_has_a_limit_of_memory() -> None:
    command = [sys.executable, "-c", STARTS, FILLS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _limit_memory(process)
        _, stderr = process.communicate("\n")
    assert process.returncode == 1
    assert "MemoryError" in stderr


def test_a_play_that_has_ended_is_not_limited() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    _limit_memory(process)
