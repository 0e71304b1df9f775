"""The start time of the present command, before Python itself started."""

from __future__ import annotations

import os
import time
from contextvars import ContextVar
from pathlib import Path

_STARTED = 19  # field 22 of proc_pid_stat(5), counted from the one after the name: ticks since the machine started
began_s: ContextVar[float] = ContextVar("began_s")  # on time.monotonic's clock


def process_began_s() -> float:
    """Return the start time of this process, before Python started; the present time if the system has none."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started_s = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic()
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)
