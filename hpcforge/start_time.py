"""When the command began that is now at work: what a clock beside it would have been started at."""

from __future__ import annotations

import os
import time
from contextvars import ContextVar
from pathlib import Path

_STARTED = 19  # field 22 of proc_pid_stat(5), counted from the one after the name: ticks since the machine started
began_s: ContextVar[float] = ContextVar("began_s")  # on time.monotonic's clock


def process_began_s() -> float:
    """When this process was started, before Python was; now, where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started_s = int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return time.monotonic()
    return time.monotonic() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)
