"""The node's lock: one task at a time; a second one gets the holder, its start and its run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import paths, receipt, user_ids
from hpcforge.node.events import BusyError, Json

if TYPE_CHECKING:
    from hpcforge.node.requests import AnyRequest

NAME = "lock"
_TRIES, _PAUSE_S = 5, 0.02  # `holder` locks it for microseconds, as a test


@contextlib.contextmanager
def held(request: AnyRequest, purpose: str, folder: Path = receipt.FOLDER, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock; the kernel frees it however this process ends. BusyError with its holder after `wait_s`."""
    deadline = time.monotonic() + wait_s
    fd = _locked_file(folder)
    while fd is None:
        if time.monotonic() >= deadline:
            raise BusyError(f"another hpcforge run is at work on this node: {describe(_read(folder / NAME))}")
        time.sleep(0.1)
        fd = _locked_file(folder)
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(_self(request, purpose)).encode(), 0)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def holder(folder: Path = receipt.FOLDER) -> Json | None:
    """Return the node's active task: `{"purpose", "who", "number", "task", "unit", "since_s", "pid"}`, or None."""
    try:
        fd = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read(folder / NAME)
    finally:
        os.close(fd)


def describe(task: Json) -> str:
    """Describe a holder, for a message."""
    if not task.get("since_s"):
        return "by an unidentified process"
    since = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(task["since_s"]))
    run = f", run {task['number']}" if task.get("number") else ""
    return f"{task['purpose']} since {since}, started by {task['who']}{run}, process {task['pid']}"


def _locked_file(folder: Path) -> int | None:
    """Return the locked lock file; None while another process has it."""
    directory = paths.open_private(folder)
    try:
        fd = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
    for attempt in range(_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt < _TRIES - 1:
                time.sleep(_PAUSE_S)
            continue
        if os.fstat(fd).st_nlink:  # else it was removed meanwhile: the node left the cluster
            return fd
        break
    os.close(fd)
    return None


def _self(request: AnyRequest, purpose: str) -> Json:
    run = request.get("run")
    return {
        "purpose": purpose,
        "who": (run and run["who"]) or os.environ.get("SUDO_USER") or user_ids.user_name(os.getuid()),
        "number": run["number"] if run else 0,
        "task": request.get("task"),
        "unit": request.get("unit"),
        "since_s": time.time(),
        "pid": os.getpid(),
    }


def _read(path: Path) -> Json:
    try:
        record = json.loads(path.read_bytes()[:10_000])
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
