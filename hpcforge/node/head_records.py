"""The head's records for all operators: the history of runs, a JSON object a line, and the roster of nodes.

`hpcforge.run.records.history` defines the lines and the roster; this module only stores and returns them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import files, paths
from hpcforge.node.events import EventReporter, Json, NodeError

if TYPE_CHECKING:
    from hpcforge.node.requests import LogRequest, RosterRequest

FOLDER = Path("/var/lib/hpcforge")
HISTORY = "history.jsonl"
VERDICTS = "verdicts.json"
VERIFICATIONS = "verifications.json"
ROSTER = "roster.json"
_LOCK = "records.lock"  # not the lock of a converge, which is held for minutes
_LOCK_WAIT_S = 10.0
_READ_LIMIT = 4 * 2**20  # bytes of history in one answer, the newest; an answer has to fit a line of 8 MiB


def log(request: LogRequest, report: EventReporter, folder: Path = FOLDER) -> Json:
    """Answer a log request: `write` a line and perhaps the roster, `read` both, store `verdicts` or `verifications`."""
    if request["do"] == "write":
        roster = request.get("roster")
        with open_folder(folder) as fd, locked(fd):
            append(fd, request["line"])
            if roster is not None:
                _replace_roster(fd, roster, report)
    elif request["do"] in ("verdicts", "verifications"):
        name = VERDICTS if request["do"] == "verdicts" else VERIFICATIONS
        with open_folder(folder) as fd:
            rights = files.Rights(os.geteuid(), os.getegid(), 0o600)
            files.replace(fd, name, request["text"].encode("utf-8"), rights)
    report.emit({"event": "log", **_read(folder, request.get("last", 0))})
    return {"time_s": time.time()}


@contextlib.contextmanager
def open_folder(folder: Path = FOLDER) -> Iterator[int]:
    """Open a descriptor of the folder, made 0700 if it is missing."""
    parent = paths.open_directory(str(folder.parent), create=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        fd = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        os.fchmod(fd, 0o700)
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Hold the lock, for milliseconds; the kernel frees it however its holder ends."""
    fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        until = time.monotonic() + _LOCK_WAIT_S
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > until:
                raise NodeError(f"{FOLDER / _LOCK} has been held by another process for {_LOCK_WAIT_S:g} s")
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def append(folder: int, line: Json) -> None:
    """Append a line of history, and sync it; a line that cannot be written completely is removed."""
    data = (json.dumps(line, sort_keys=True) + "\n").encode("ascii")
    fd = os.open(HISTORY, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data  # a crash interrupted a write: the rest of that line must not damage this one
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
            if not size:
                os.fsync(folder)  # its name, too
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)


def _replace_roster(folder: int, roster: RosterRequest, report: EventReporter) -> None:
    """Write the roster, unless a newer run has. Checks only the run number and the checksum."""
    last_run = _roster_run(folder)
    if last_run > roster["run"]["number"]:
        report.warning(f"the node list is from run {last_run}, which is newer: not changed")
        return
    data = (json.dumps(roster, separators=(",", ":")) + "\n").encode("ascii")
    files.replace(folder, ROSTER, data, files.Rights(os.geteuid(), os.getegid(), 0o600))


def _roster_run(folder: int) -> int:
    """Return the number of the run that wrote the roster; 0 if it is missing or unreadable."""
    try:
        fd = os.open(ROSTER, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return 0
    try:
        with os.fdopen(fd, "rb") as file:
            document = json.load(file)
        rest = {key: value for key, value in document.items() if key != "checksum"}
        intact = document["checksum"] == hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
        return int(document["run"]["number"]) if intact else 0
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


def _read(folder: Path, last: int) -> Json:
    """Return the last lines of history, as text, the number of lines before them, and the roster's text."""
    lines, before = _last_lines(folder / HISTORY, last)
    return {"lines": lines, "before": before, "roster": files.read_text(str(folder / ROSTER))}


def _last_lines(path: Path, last: int) -> tuple[list[str], int]:
    if last <= 0:
        return [], 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    every = [line for line in data.split(b"\n") if line.strip()]
    newest: list[bytes] = []
    size = 0
    for line in reversed(every[-last:]):
        size += len(line)
        if size > _READ_LIMIT:
            break
        newest.append(line)
    return [line.decode("utf-8", "replace") for line in reversed(newest)], len(every) - len(newest)
