"""The search for hpcforge's own daemons, and their end.

No process ids are stored: the command line identifies a daemon, so that no record can be wrong after a crash, a reboot
or a recycled id. Signals go through a pidfd that was checked after it was opened.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

Matches = Callable[[list[str]], bool]
_PROC = Path("/proc")


def arguments(pid: int) -> list[str]:
    """Return the command line of a process; empty if it has ended, or is a zombie or the kernel's."""
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def find(matches: Matches) -> list[int]:
    """Return the processes whose command line matches."""
    pids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if (argv := arguments(pid)) and matches(argv)]


def children(pid: int) -> list[int]:
    """Return the processes that a process started and that still run."""
    try:
        return [int(child) for child in (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()]
    except OSError:
        return []


def init_of(pid: int) -> int | None:
    """Return the child of `pid` that is process 1 of a pid namespace, by its id on the host."""
    for child in children(pid):
        try:
            status = (_PROC / str(child) / "status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("NSpid:") and len(line.split()) > 2 and line.split()[-1] == "1":
                return child
    return None


def started_s(pid: int) -> float | None:
    """Return the start time of a process, in seconds since 1970; None if it has ended."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # Field 22 of proc_pid_stat(5), counted from the one after the name: ticks since the machine started.
    after_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot_s


def end(pid: int, still_ours: Callable[[], bool], *signals: tuple[int, float]) -> bool:
    """Send each signal in turn, and wait its seconds for the process to end; return true once it has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not still_ours():  # checked after the handle was opened: the id may be reused by now
            return True
        return any(_signal(handle, number, wait_s) for number, wait_s in signals)
    finally:
        os.close(handle)


def _signal(handle: int, number: int, wait_s: float) -> bool:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return True
    readable, _, _ = select.select([handle], [], [], wait_s)
    return bool(readable)


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.03) -> bool:
    """Wait for a condition; return whether it became true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True
