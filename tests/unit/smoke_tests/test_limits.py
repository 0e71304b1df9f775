"""Ranks that wait for ever end at their limit and say so, with a backend that neither raises nor returns."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.blocking_backend import SITECUSTOMIZE
from tests.unit.smoke_tests.test_smoke_tests import FOLDERS, PROGRAMS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
RANKS = 3
LIMIT_S = 4
GRACE_S = 5  # within which a rank has ended after its limit
Events = list[dict[str, Any]]


@contextmanager
def started(
    folder: Path, port: int, *words: str, ranks: int = RANKS, **environment: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks of `train_ddp` with the blocking backend, without a launcher that would end them."""
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE + environment.pop("before", ""))
    common = {**os.environ, "PYTHONPATH": f"{folder}:{FOLDERS}", "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment}
    command = [sys.executable, str(PROGRAMS["train_ddp"]), "--json", f"--timeout-s={LIMIT_S}", *words]
    processes = [
        subprocess.Popen(
            command,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "SLURMD_NODENAME": f"n{rank}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def events(process: subprocess.Popen[str]) -> Events:
    """What a rank wrote until it ended."""
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout]


def waited(said: Mapping[int, Events]) -> dict[int, dict[str, Any]]:
    return {rank: event for rank, of in said.items() for event in of if event["event"] == "failed"}


@pytest.mark.parametrize("lock", ["", "1"], ids=["a thread could run", "the interpreter is locked"])
def test_ranks_that_wait_for_one_that_hangs_say_so_and_end(lock: str, tmp_path: Path, free_port: int) -> None:
    with started(tmp_path, free_port, "--inject=hang:1", HOLDS_LOCK=lock) as ranks:
        said = {rank: events(ranks[rank]) for rank in (0, 2)}
        assert {ranks[rank].wait() for rank in said} == {-signal.SIGALRM}
        assert ranks[1].poll() is None
    failed = waited(said)
    assert sorted(failed) == [0, 2]
    for rank, event in failed.items():
        assert (event["rank"], event["host"], event["during"]) == (rank, f"n{rank}", "collective")
        assert event["error"].startswith(f"timed out after {LIMIT_S + 2} s in ")
        assert event["place"].partition(" ")[2] in {"forward_backward", "slowest", "mean_over_ranks"}


def test_ranks_that_wait_for_one_that_was_killed_say_so_in_time(tmp_path: Path, free_port: int) -> None:
    with started(tmp_path, free_port, "--inject=die:2") as ranks:
        assert ranks[2].wait() == -signal.SIGKILL
        said = {rank: events(ranks[rank]) for rank in (0, 1)}
        assert {ranks[rank].wait() for rank in said} == {-signal.SIGALRM}
    assert sorted(waited(said)) == [0, 1]


STOPS = """
import signal
def stops(self, tensors, options):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    return Work(self.inner.broadcast(tensors, options))
Blocking.broadcast = stops
"""


def test_a_rank_that_a_signal_stopped_is_told_from_those_that_wait_for_it(tmp_path: Path, free_port: int) -> None:
    with started(tmp_path, free_port, before=STOPS) as ranks:
        failed = waited({rank: events(process) for rank, process in enumerate(ranks)})
    assert sorted(failed) == list(range(RANKS))
    own = {rank: event["error"] for rank, event in failed.items() if event["during"] == "own"}
    assert own == {1: "stopped by a signal"}


HALTS = """
import signal
def halts(self):
    if os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
import ranks
ranks.Job.header = halts
"""


def test_a_rank_that_is_stopped_in_its_own_work_is_named_too(tmp_path: Path, free_port: int) -> None:
    with started(tmp_path, free_port, before=HALTS, ranks=2) as ranks:
        failed = waited({1: events(ranks[1])})
    assert (failed[1]["during"], failed[1]["error"]) == ("own", "stopped by a signal")
    assert "limit_s" not in failed[1]


def test_a_rank_whose_output_nobody_reads_ends_all_the_same(tmp_path: Path, free_port: int) -> None:
    full = "import fcntl\nfcntl.fcntl(1, 1031, 4096)\nos.write(1, b'x' * 4000)\nos.write(1, b'x' * 96)\n"
    with started(tmp_path, free_port, "--limit-s=4", before=full, ranks=1) as (rank,):
        assert rank.wait(timeout=60) == -signal.SIGALRM


def test_a_rank_whose_keeper_was_killed_ends_at_the_limit_of_its_test(tmp_path: Path, free_port: int) -> None:
    kill = "import limits\nlimits._LATER_S = 1.0\nkept = limits.Limits.start\n"
    kill += "def start(self):\n    kept(self)\n    self._keeper.kill()\nlimits.Limits.start = start\n"
    with started(tmp_path, free_port, "--limit-s=5", "--steps=100000000", before=kill, ranks=1) as (rank,):
        assert rank.wait(timeout=60) == -signal.SIGALRM


def test_a_rank_past_the_limit_of_its_test_says_where_it_was(tmp_path: Path, free_port: int) -> None:
    words = ("--limit-s=5", "--steps=100000000", "--timeout-s=100")
    with started(tmp_path, free_port, *words, ranks=1) as (rank,):
        said = events(rank)
        assert rank.wait() == -signal.SIGALRM
    (late,) = [event for event in said if event["event"] == "overdue"]
    assert (late["limit_s"], late["rank"], late["host"]) == (5.0, 0, "n0")
    assert ".py:" in late["place"]


def test_nothing_stays_of_a_rank_that_was_killed(tmp_path: Path, free_port: int) -> None:
    with started(tmp_path, free_port, "--inject=die:0", ranks=1) as (rank,):
        assert [event["event"] for event in events(rank)] == ["started"]  # reads until its keeper has ended, too
        assert rank.wait() == -signal.SIGKILL


def code(text: str) -> str:
    """What a program with `limits` imported prints."""
    command = [sys.executable, "-c", f"import limits\n{text}"]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": FOLDERS}, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_the_place_is_the_innermost_frame_in_the_smoke_tests() -> None:
    stack = f"""Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", line 9 in all_reduce
  File "{PROGRAMS["ranks"]}", line 7 in slowest
  File "{PROGRAMS["train_ddp"]}", line 3 in run
"""
    assert code(f"print(limits.innermost({stack!r}), limits.innermost(''))") == "ranks.py:7 slowest \n"


def test_a_limit_in_a_limit_leaves_the_outer_one() -> None:
    text = """
import time
kept = limits.Limits(); kept.start()
outer = kept.set(limits.COLLECTIVE, 1.5, "outer")
inner = kept.set(limits.COLLECTIVE, 1000, "inner" * 100)
kept.restore(limits.COLLECTIVE, inner)
assert outer == bytes(20), outer
time.sleep(60)
"""
    command = [sys.executable, "-c", f"import limits\n{text}"]
    environment = {**os.environ, "PYTHONPATH": FOLDERS}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout.split(" (")[0].strip()) == (-signal.SIGALRM, "outer"), ran.stderr


@pytest.fixture
def free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
