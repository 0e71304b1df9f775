"""A run that was killed leaves no process behind that writes into the store of images."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.image import store


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    return tmp_path / "images"


def silent(_: str) -> None:
    """For what has nothing to say here."""


@pytest.mark.lab
def test_what_a_killed_run_has_started_ends_with_it_before_the_next_begins() -> None:
    """mmdebstrap must not write where the next run builds."""
    code = (
        "from pathlib import Path; from hpcforge.image import store; from hpcforge.image.long_commands import watched\n"
        "with store.lock(print) as handle:\n"
        "    argv = ['sh', '-c', 'sleep 1000000 & wait']\n"
        "    watched(argv, Path('/'), lambda: print('looks', flush=True), None, (handle,), with_us=True)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "looks\n"
        until = time.monotonic() + 60
        while len(begun := _holding(run.pid)) < 3:  # unshare, sh, sleep
            assert time.monotonic() < until, begun
            time.sleep(0.05)
        run.kill()
    with store.lock(silent):
        until = time.monotonic() + 60  # a process lets go of its files a moment before it is gone
        while (left := [pid for pid in begun if _runs(pid)]) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left


def _holding(above: int) -> list[int]:
    """Processes below one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(words[1])
    found = [pid for pid, parent in parents.items() if parent == above]
    return [*found, *(below for pid in found for below in _holding(pid))]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
