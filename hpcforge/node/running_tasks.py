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
    """Wait until no task is active on this node; NodeError with the active one after `timeout_s`."""
    active = lock.holder()
    if active:
        report.progress(None, f"waiting for another hpcforge run: {lock.describe(active)}")
    remaining = _wait(request.get("timeout_s", _STOP_S))
    if remaining is not None:
        raise NodeError(f"another hpcforge run is still active on this node: {lock.describe(remaining)}")


def stop(request: StopRequest, report: EventReporter) -> None:
    """Stop the active task (`task`: only this one) after its present resource, and wait for its end."""
    active = lock.holder()
    if active is None or request.get("task") not in (None, active.get("task")):
        return
    pid = int(active.get("pid") or 0)
    if not pid:
        raise NodeError("an unidentified hpcforge process is active on this node; try again")
    with contextlib.suppress(ProcessLookupError):
        if b"hpcforge.node" in Path(f"/proc/{pid}/cmdline").read_bytes():  # the number may be reused by now
            os.kill(pid, signal.SIGTERM)  # only this process: its package manager may finish
    report.progress(None, f"stopping: {lock.describe(active)}")
    remaining = _wait(request.get("timeout_s", _STOP_S), pid)
    if remaining is not None:
        raise NodeError(f"it has not stopped yet: {lock.describe(remaining)}")


def _wait(timeout_s: float, pid: int | None = None) -> Json | None:
    """Return the task that is still active when the time is up; with `pid` later tasks do not count."""
    deadline = time.monotonic() + timeout_s
    while True:
        active = lock.holder()
        if active is None or pid not in (None, active.get("pid")):
            return None
        if time.monotonic() >= deadline:
            return active
        time.sleep(_PAUSE_S)
