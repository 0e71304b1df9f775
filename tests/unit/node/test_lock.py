"""The node's lock: who holds it, and when it is free."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hpcforge.node import lock
from hpcforge.node.events import NodeError


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "hpcforge"


def test_second_run_is_told_who_is_at_work(folder):
    with (
        lock.held({}, "converge, prepare", folder),
        pytest.raises(NodeError, match=r"another hpcforge run .* converge, prepare since \d{4}-.* process \d+"),
        lock.held({}, "record", folder),
    ):
        pass
    with lock.held({}, "record", folder):
        pass


def test_lock_is_free_after_its_holder_was_killed(folder):
    code = (
        "import sys,time; from pathlib import Path; from hpcforge.node import lock\n"
        "with lock.held({}, 'converge', Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(NodeError, match=f"process {holder.pid}"), lock.held({}, "record", folder):
            pass
        holder.kill()
        holder.wait()
    with lock.held({}, "record", folder):
        pass


def test_the_lock_is_waited_for_as_long_as_asked(folder):
    with (
        lock.held({"run": {"who": "ann@one", "number": 7}}, "converge, finish", folder),
        pytest.raises(NodeError, match=r"converge, finish since .*, started by ann@one, run 7, process \d+"),
        lock.held({}, "confirm", folder, wait_s=0.3),
    ):
        pass
    assert lock.holder(folder) is None


def test_who_is_at_work_is_told_without_getting_in_the_way(folder):
    request = {"run": {"who": "ann@one", "number": 7}, "task": "prepare:n1", "unit": "hpcforge-run-prepare:n1.scope"}
    with lock.held(request, "converge, prepare", folder):
        found = lock.holder(folder)
        assert (found["who"], found["number"], found["task"], found["purpose"]) == (
            "ann@one",
            7,
            "prepare:n1",
            "converge, prepare",
        )
        assert found["pid"] == os.getpid()
    assert lock.holder(folder) is None
