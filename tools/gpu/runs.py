"""Run the processes of a part side by side, each with its output in files, all ended at a limit or at a temperature."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SMOKE_TESTS = ROOT / "smoke_tests"
HOTTEST_C = 85  # a part that heats the GPU beyond is ended: below the slowdown of data-centre GPUs, 87 C and more
STOP = threading.Event()  # set by a signal: processes that run are ended, and no more are started
_POLL_S = 0.1
_SMI_S = 10.0
_ASK_S = 2.0  # between two readings of the temperature


@dataclass(frozen=True)
class Process:
    """A command with what it adds to the environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """The results of a part's processes, in their order."""

    codes: tuple[int | None, ...]  # None: it was ended at the part's limit
    outputs: tuple[str, ...]
    errors: tuple[str, ...]
    ended_s: tuple[float, ...]  # after the begin of the part
    seconds: float
    stopped: str = ""  # why the part was ended before its limit

    def events(self, process: int | None = None, event: str = "") -> list[dict[str, Any]]:
        """Return the events of one process, or of all, perhaps of one kind."""
        outputs = self.outputs if process is None else self.outputs[process : process + 1]
        events = [value for text in outputs for value in _values(text)]
        return [value for value in events if not event or value["event"] == event]


def _values(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and "event" in value:
                yield value


def run(processes: Sequence[Process], folder: Path, limit_s: float, may_remain: int = 0) -> Run:
    """Run processes side by side until all but `may_remain` have ended, and end those that are left."""
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    running = [_start(process, folder / str(number)) for number, process in enumerate(processes)]
    ended: dict[int, float] = {}
    try:
        stopped = _wait(running, ended, limit_s, may_remain)
        codes = [process.poll() for process in running]
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = time.monotonic() - began
    texts = [[(folder / f"{number}.{stream}").read_text(errors="replace") for number in range(len(running))]
             for stream in ("out", "err")]  # fmt: skip
    times = tuple(round(ended.get(number, seconds), 1) for number in range(len(running)))
    return Run(tuple(codes), tuple(texts[0]), tuple(texts[1]), times, round(seconds, 1), stopped)


def _wait(running: Sequence[subprocess.Popen[bytes]], ended: dict[int, float], limit_s: float, may_remain: int) -> str:
    """Note when each process ends, until all but `may_remain` have. Return why they must be ended before the limit."""
    began = asked_s = time.monotonic()
    while len(ended) < len(running) - may_remain:
        time.sleep(_POLL_S)
        now_s = time.monotonic()
        for number, process in enumerate(running):
            if process.poll() is not None:
                ended.setdefault(number, now_s - began)
        if now_s - began > limit_s or STOP.is_set():
            return "the report was stopped" if STOP.is_set() else ""
        if now_s - asked_s > _ASK_S and Smi.answers:
            celsius, asked_s = temperature_c(), time.monotonic()
            if celsius is not None and celsius >= HOTTEST_C:
                return f"ended at {celsius} C"
    return ""


def _die_with_parent() -> None:
    """Have the kernel end this process when the report is killed (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _start(process: Process, path: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{SMOKE_TESTS}", **process.environment}
    with path.with_suffix(".out").open("wb") as out, path.with_suffix(".err").open("wb") as err:
        return subprocess.Popen(
            process.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=ROOT, env=environment,
            start_new_session=True, preexec_fn=_die_with_parent,  # noqa: PLW1509  no threads here
        )  # fmt: skip


def temperature_c() -> int | None:
    """Return the temperature of the hottest GPU, degrees Celsius; None where nvidia-smi does not answer."""
    text = query("temperature.gpu")
    return max((int(line) for line in text.split() if line.isdigit()), default=None)


def query(fields: str) -> str:
    """Return nvidia-smi's fields of GPUs, as CSV without a header; "" if it does not answer. Changes nothing."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        process = subprocess.run(command, capture_output=True, timeout=_SMI_S, check=True)
    except (OSError, subprocess.SubprocessError):
        Smi.answers = False
        return ""
    return process.stdout.decode(errors="replace").strip()


class Smi:
    """Whether nvidia-smi answered so far: one that hangs is asked once."""

    answers = True


@dataclass(frozen=True)
class Place:
    """The place where parts run. Ranks stand for nodes of one GPU each.

    RANK differs, LOCAL_RANK is 0, and NCCL_HOSTID differs, too: NCCL then takes the ranks for machines of their own and
    goes through its network, here loopback. NCCL 2.28 refuses two ranks of one host on one GPU.
    """

    scratch: Path
    gpu: bool

    def rank(self, number: int, count: int, script: str, arguments: str, port: int) -> Process:
        """Return a rank of a smoke test, without a launcher."""
        folder = self.scratch / f"rank{number}"
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **self.node(number, count), "RANK": str(number), "LOCAL_RANK": "0", "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TMPDIR": str(folder),
        }  # fmt: skip
        return Process((sys.executable, program(script), "--json", *arguments.split()), environment)

    def node(self, number: int, count: int) -> dict[str, str]:
        """Return the environment of a rank that stands for a node."""
        name = f"n{number}"
        host_ids = {"NCCL_HOSTID": name} if count > 1 else {}
        threads = {"OMP_NUM_THREADS": "2" if self.gpu else "1"}
        return {"SLURMD_NODENAME": name, "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", **threads, **host_ids}

    def ranks(self, test: str, count: int, arguments: str = "") -> list[Process]:
        """Return all ranks of a smoke test."""
        port = free_port()
        return [self.rank(number, count, test, arguments, port) for number in range(count)]


def program(test: str) -> str:
    """Return the path of a smoke test's program."""
    return str(SMOKE_TESTS / test / f"{test}.py")


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
