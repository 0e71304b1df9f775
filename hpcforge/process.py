"""This process: its start, for the elapsed time, and no core dump of it.

It holds secrets, and the dump of a crash would contain them, too. Source: core(5), prctl(2), proc_pid_stat(5).
"""

from __future__ import annotations

import ctypes
import os
import resource
import time
from contextvars import ContextVar
from pathlib import Path

_PR_SET_DUMPABLE = 4
# One byte: too small for a file, and the kernel starts no program of kernel.core_pattern with it.
_LIMIT_BYTES = 1
_STARTED = 19  # field 22 of proc_pid_stat(5), counted from the one after the name: ticks since the machine started
began_s: ContextVar[float] = ContextVar("began_s")  # start of the running command, on time.monotonic's clock


def process_began_s() -> float:
    """Return the start of this process, before Python's own; the present time if the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started_s = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic()
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def forbid_core_dumps() -> None:
    """Prevent core dumps of this process, and access to its memory by other processes of the user.

    Its child programs inherit the limit. Other processes of the user can read their memory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (_LIMIT_BYTES, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
