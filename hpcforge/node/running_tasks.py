"""The verbs wait and stop: handle tasks that another or a lost run started on this node."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import lock
from hpcforge.node.events import EventReporter, Json, NodeError

if TYPE_CHECKING:
    from hpcforge.node.requests import StopRequest, WaitRequest

_PAUSE_S = 0.1
_STOP_S = 60.0


def wait(request: WaitRequest, report: EventReporter) -> None:
    """Until nothing is at work on this node; NodeError naming who is when `timeout_s` is over."""
    active = lock.holder()
    if active:
        report.progress(None, f"waiting for another hpcforge run: {lock.describe(active)}")
    remaining = _wait(request.get("timeout_s", _STOP_S))
    if remaining is not None:
        raise NodeError(f"another hpcforge run is still active on this node: {lock.describe(remaining)}")


def stop(request: StopRequest, report: EventReporter) -> None:
    """Tell what is at work (`task`: only if it is this one) to end after the resource it is at, and wait for it."""
    active = lock.holder()
    if active is None or request.get("task") not in (None, active.get("task")):
        return
    pid = int(active.get("pid") or 0)
    if not pid:
        raise NodeError("an unidentified hpcforge process is active on this node; try again")
    with contextlib.suppress(ProcessLookupError):
        if b"hpcforge.node" in Path(f"/proc/{pid}/cmdline").read_bytes():  # its number may be another's by now
            os.kill(pid, signal.SIGTERM)  # it alone: the package manager beside it may finish
    report.progress(None, f"stopping: {lock.describe(active)}")
    remaining = _wait(request.get("timeout_s", _STOP_S), pid)
    if remaining is not None:
        raise NodeError(f"it has not stopped yet: {lock.describe(remaining)}")


def _wait(timeout_s: float, pid: int | None = None) -> Json | None:
    """Who is still at work when time is up; `pid`: who else comes after it does not matter."""
    deadline = time.monotonic() + timeout_s
    while True:
        active = lock.holder()
        if active is None or pid not in (None, active.get("pid")):
            return None
        if time.monotonic() >= deadline:
            return active
        time.sleep(_PAUSE_S)
