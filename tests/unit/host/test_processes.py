"""Processes of this machine: known by their command lines, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from hpcforge.host import processes

WAIT = "import time; print('up', flush=True); time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAIT}"


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A process with a mark on its command line."""
    words = [sys.executable, "-c", getattr(request, "param", WAIT), f"mark of {os.getpid()}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        yield process
        process.kill()


def marked(argv: list[str]) -> bool:
    return argv[-1] == f"mark of {os.getpid()}"


def test_a_process_is_known_by_its_command_line(child: subprocess.Popen[str]) -> None:
    assert processes.find(marked) == [child.pid]
    assert processes.arguments(child.pid)[1:] == ["-c", WAIT, f"mark of {os.getpid()}"]
    assert child.pid in processes.children(os.getpid())
    started_s = processes.started_s(child.pid)
    assert started_s is not None and started_s <= time.time() + 1


def test_of_one_that_is_gone_nothing_is_known(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()
    assert (processes.arguments(child.pid), processes.children(child.pid)) == ([], [])
    assert (processes.started_s(child.pid), processes.init_of(child.pid)) == (None, None)
    assert processes.end(child.pid, lambda: True, (signal.SIGTERM, 1.0))


def test_a_process_of_another_command_line_is_not_ended(child: subprocess.Popen[str]) -> None:
    assert processes.end(child.pid, lambda: False, (signal.SIGKILL, 5.0))
    assert child.poll() is None


@pytest.mark.parametrize("child", [STUBBORN], indirect=True)
def test_one_that_ignores_a_signal_gets_the_next(child: subprocess.Popen[str]) -> None:
    assert not processes.end(child.pid, lambda: True, (signal.SIGTERM, 0.1))
    assert processes.end(child.pid, lambda: True, (signal.SIGTERM, 0.1), (signal.SIGKILL, 10.0))
    assert child.wait() == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="needs namespaces")
def test_process_1_of_a_namespace_is_known_by_its_id_here() -> None:
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", "echo $$; sleep 60"],
        stdout=subprocess.PIPE, text=True,
    ) as parent:  # fmt: skip
        assert parent.stdout and parent.stdout.readline() == "1\n"
        [child] = processes.children(parent.pid)
        assert processes.init_of(parent.pid) == child
        assert processes.init_of(child) is None
        parent.kill()


def test_a_condition_is_waited_for_until_its_time_is_up() -> None:
    answers = iter([False, False, True])
    assert processes.wait_until(lambda: next(answers), 10.0, every_s=0.0)
    assert not processes.wait_until(lambda: False, 0.0, every_s=0.0)
