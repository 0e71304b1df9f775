"""The launcher torchrun_restarts as it runs: agents that meet, and somebody else who writes into their store."""

from __future__ import annotations

import base64
import importlib.util
import os
import pickle
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from hpcforge.launchers import LAUNCHERS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
LATE_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def agent(rank: int, port: int, program: Path) -> subprocess.Popen[str]:
    """The agent of one of two nodes."""
    values = {"python": sys.executable, "nodes": "2", "per_node": "1", "job": "7", "address": "127.0.0.1"}
    words = LAUNCHERS["torchrun_restarts"].words({**values, "port": str(port), "torchrun_options": ()})
    environment = {**os.environ, "PET_NODE_RANK": str(rank)}
    return subprocess.Popen([*words, str(program)], env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "rank.py"
    path.write_text("import os, pathlib\npathlib.Path(__file__).with_name(os.environ['RANK']).touch()\n")
    return path


def test_two_agents_meet(program: Path) -> None:
    port = free_port()
    agents = [agent(rank, port, program) for rank in range(2)]
    said = [each.communicate(timeout=LATE_S)[1] for each in agents]
    assert [each.returncode for each in agents] == [0, 0], said
    assert {path.name for path in program.parent.iterdir()} == {"rank.py", "0", "1"}


class Planted:
    """What makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_somebody_else_wrote_runs_nothing(program: Path) -> None:
    from torch.distributed import TCPStore  # noqa: PLC0415 - only where there is torch

    port, planted = free_port(), program.with_name("planted")
    state = base64.b64encode(pickle.dumps(Planted(planted)))
    waiting = agent(0, port, program)
    until_s = time.monotonic() + LATE_S
    try:
        store = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=LATE_S))
        while waiting.poll() is None and time.monotonic() < until_s:
            store.set("torch.rendezvous.7", state)
            time.sleep(0.01)
    except RuntimeError:
        assert waiting.wait(LATE_S)  # the store ended with the agent
    finally:
        waiting.kill()
    _, said = waiting.communicate()
    assert not planted.exists()
    assert "no part of a rendezvous, so another user wrote it: posix.mkdir" in said
