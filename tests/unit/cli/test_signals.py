"""Signals to a process of its own, also from a terminal that goes away."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Works until it is told to end, says so on both streams, and leaves a file behind.
ORDERLY = """
import sys, time
from pathlib import Path
from hpcforge.cli import signals
signals.at_once()
def say(text):
    print(text, file=sys.stderr, flush=True)
with signals.in_good_order(say, "it ends") as stop:
    Path(sys.argv[1]).touch()
    while not stop():
        time.sleep(0.01)
    if sys.argv[3:]:
        time.sleep(60)
print("over", flush=True)
Path(sys.argv[2]).touch()
"""


def begin(tmp_path: Path, *more: str, **options: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ORDERLY, str(tmp_path / "begun"), str(tmp_path / "over"), *more]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    wait_for(tmp_path / "begun")
    return child  # type: ignore[no-any-return]


def wait_for(path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated"),
        (signal.SIGHUP, "the terminal is gone"),
    ],
)
def test_the_first_lets_work_end_in_good_order(tmp_path: Path, number: signal.Signals, said: str) -> None:
    child = begin(tmp_path)
    child.send_signal(number)
    assert child.communicate(timeout=60) == ("over\n", f"{said}: it ends\n")
    assert child.returncode == 0


def test_the_next_ends_it_at_once(tmp_path: Path) -> None:
    child = begin(tmp_path, "stay")
    child.send_signal(signal.SIGTERM)
    assert child.stderr is not None
    assert child.stderr.readline() == "terminated: it ends\n"
    child.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in child.communicate(timeout=60)[1]
    assert not (tmp_path / "over").exists()


def test_what_is_ignored_stays_so(tmp_path: Path) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = begin(tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    child.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert child.communicate(timeout=60)[1] == "terminated: it ends\n"


def test_nothing_is_written_to_a_terminal_that_is_gone(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        paths = [str(tmp_path / "begun"), str(tmp_path / "over")]
        os.execv(sys.executable, [sys.executable, "-c", ORDERLY, *paths])
    wait_for(tmp_path / "begun")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "over").exists()


DROPPED = """
import os, signal, sys, time
from hpcforge.cli import signals
signals.at_once()
class Last:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.1)  # the exception comes here, where Python drops it
try:
    Last()
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_a_callback_ends_the_command_all_the_same(number: signal.Signals) -> None:
    child = subprocess.run(
        [sys.executable, "-c", DROPPED, str(int(number))], capture_output=True, timeout=50, check=False
    )
    assert (child.returncode, child.stderr) == (7, b"")
