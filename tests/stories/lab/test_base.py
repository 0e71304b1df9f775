from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hpcforge.host.paths import remove_tree


@pytest.mark.lab
def test_what_builds_a_system_ends_with_us_and_leaves_no_mount(tmp_path: Path) -> None:
    """mmdebstrap must not write where the next run builds, nor keep the tree's /proc and /sys mounted."""
    code = "from pathlib import Path; from hpcforge.lab.nspawn import base; base._build_system('12', Path.cwd())"
    building = tmp_path / "building-system"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, start_new_session=True) as builder:
        within(300, lambda: mounted_by(running_with(tmp_path), building) or builder.poll() is not None)
        builder.kill()
    assert builder.returncode == -signal.SIGKILL, "it had ended by itself"
    within(60, lambda: not running_with(tmp_path))
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines() if f" {tmp_path}/" in line]
    for mount in reversed(mounts):
        subprocess.run(["umount", mount], check=True)
    assert not mounts
    remove_tree(building)


def running_with(path: Path) -> list[int]:
    """Processes that were started with that path in their words."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.fsencode(path) in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def mounted_by(processes: list[int], place: Path) -> bool:
    for process in processes:
        with suppress(OSError):
            if f" {place}/" in Path(f"/proc/{process}/mounts").read_text():
                return True
    return False


def within(limit_s: float, comes: Callable[[], bool]) -> None:
    until = time.monotonic() + limit_s
    while not comes():
        assert time.monotonic() < until, f"it did not come about within {limit_s} s"
        time.sleep(0.05)
