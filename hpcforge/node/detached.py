"""Work that outlives its connection.

The process that sshd started forks. The child moves from the login's session into a transient scope of systemd, so that
neither a lost connection nor a logout ends it, and writes its events to a spool in memory (/run). The login's process
only copies the spool to standard output until `done`; a later `attach` does the same. The request with its secrets is
only in the child's memory. If systemd does not answer, the child just gets its own session.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hpcforge.node import commands, paths
from hpcforge.node.events import Json, NodeError

if TYPE_CHECKING:
    from hpcforge.node.requests import Request

FOLDER = Path("/run/hpcforge")
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,150}")
_KEPT, _KEPT_S = 20, 86400.0
_POLL_S = 0.1  # poll interval of an attached process; the child wakes the process that started the work
_WATCH_S = 1.0
_MOVE_S = 5.0  # limit for systemd to move a process into its scope
_DONE = b'{"event": "done"'

Emit = Callable[[Json], None]


def run(request: Request, work: Callable[[Request, Emit], None], roles: list[str], folder: Path = FOLDER) -> None:
    """Run `work(request, emit)` in a detached child, and copy its events to standard output.

    If the same run sends the same request again, attach to the work; it never runs twice.
    """
    path = spool(request["task"], folder)
    listens = select.poll()
    listens.register(1, 0)
    if listens.poll(0):  # the operator host disconnected before the start: the next request must not see this work
        return
    fd = _claim(path, {"request": _digest(request), "roles": roles})
    if fd is None:
        with path.open("rb") as file:
            _copy(file, 0, None)
        return
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    if os.fork() == 0:
        try:
            os.close(woken)
            _work_apart(request, work, fd, wake)
        finally:
            os._exit(0)
    os.close(wake)
    os.close(fd)  # the child holds its lock
    with path.open("rb") as file:
        _copy(file, 0, woken)


def attach(task: str, after: int, folder: Path = FOLDER) -> None:
    """Copy a task's events after the first `after` to standard output until its end. NodeError for an unknown task."""
    try:
        file = spool(task, folder).open("rb")
    except FileNotFoundError:
        raise NodeError(f"task {task!r} is unknown here: it did not start, or this node has restarted since") from None
    with file:
        _copy(file, after, None)


def spool(task: str, folder: Path = FOLDER) -> Path:
    """Return the path of a task's events."""
    if not _TASK.fullmatch(task):
        raise NodeError(f"{task!r} is not a task id")
    return folder / f"{task}.jsonl"


def _digest(request: Request) -> str | None:
    """Return the identity of a request; None: it belongs to no run, so an equal one may be another request."""
    run = request.get("run")
    if not (run and run["id"]):
        return None
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _claim(path: Path, header: Json) -> int | None:
    """Return a new spool, locked while its task runs; None if this request already has one."""
    directory = paths.open_private(path.parent)
    temporary = f".{os.getpid()}-{path.name}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600, dir_fd=directory)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(fd, json.dumps(header).encode() + b"\n")
        while True:
            try:
                os.link(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
                return fd
            except FileExistsError:
                if _same(path, header):
                    os.close(fd)
                    return None
    except BaseException:
        os.close(fd)
        raise
    finally:
        os.unlink(temporary, dir_fd=directory)
        os.close(directory)
        _tidy(path)


def _same(path: Path, header: Json) -> bool:
    """Return whether a spool belongs to this request; remove the spool of other, ended work."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        with contextlib.suppress(ValueError):
            if header["request"] and json.loads(file.readline())["request"] == header["request"]:
                return True
        if _at_work(file):
            raise NodeError(f"task {path.stem!r} is running here with another request; wait for it, or attach to it")
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    return False


def _tidy(current: Path) -> None:
    spools = []
    for path in current.parent.glob("*.jsonl"):
        with contextlib.suppress(FileNotFoundError):
            spools.append((path.stat().st_mtime, path))
    newest = {path for _, path in sorted(spools)[-_KEPT:]} | {current}
    for changed_s, path in spools:
        if path not in newest or time.time() - changed_s > _KEPT_S:
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if path != current and not _at_work(file):
                    path.unlink()


def _at_work(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _work_apart(request: Request, work: Callable[[Request, Emit], None], fd: int, wake: int) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)

    def emit(event: Json) -> None:
        line = (json.dumps(event) + "\n").encode("ascii")
        with contextlib.suppress(OSError):  # memory is full: the work matters more than its report; observe sees it
            while line:
                line = line[os.write(fd, line) :]
        with contextlib.suppress(OSError):  # no process listens, or it has not yet read the last wake-up
            os.write(wake, b"\n")

    request["unit"] = _into_scope(request)
    work(request, emit)


def _into_scope(request: Request) -> str | None:
    """Move this process out of the login's session; return its unit, None if systemd does not answer."""
    name = f"hpcforge-run-{request['task']}.scope"
    run = request.get("run")
    text = "hpcforge " + (f"run {run['number']} of {run['who']}" if run else "of an unknown user")
    manager = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
    properties = [
        *("PIDs", "au", "1", str(os.getpid())),
        *("Description", "s", text),
        *("CollectMode", "s", "inactive-or-failed"),
    ]
    call = ["busctl", "--quiet", "call", *manager, "StartTransientUnit", "ssa(sv)a(sa(sv))"]
    try:
        outcome = commands.run([*call, name, "fail", "3", *properties, "0"], _MOVE_S)
    except NodeError:
        return None
    deadline = time.monotonic() + _MOVE_S
    while outcome.rc == 0 and time.monotonic() < deadline:
        if name in Path("/proc/self/cgroup").read_text():
            return name
        time.sleep(0.001)
    return None


def _copy(file: BinaryIO, after: int, woken: int | None) -> None:
    """Copy events to standard output until `done`, or until the reader has gone. Write the end of a dead task."""
    header = json.loads(file.readline())
    for number, line in enumerate(_lines(file, woken)):
        if number >= after and not _write(line):
            return
        if line.startswith(_DONE):
            return
    failed = "the task ended without an answer: it was killed, or this node ran out of memory (see `journalctl -k`)"
    _write(
        json.dumps({"event": "failed", "role": None, "kind": "node", "name": "task", "error": failed}).encode() + b"\n"
    )
    end = {"event": "done", "changed": 0, "failed": header["roles"], "skipped": [], "facts": {}}
    _write(json.dumps(end).encode() + b"\n")


def _lines(file: BinaryIO, woken: int | None) -> Iterator[bytes]:
    """Yield complete lines as they come, until the writing process has ended."""
    poll = select.poll()
    poll.register(1, 0)  # reports when no process reads standard output any more
    if woken is not None:
        poll.register(woken, select.POLLIN)
    line, ended = b"", False
    while True:
        line += file.readline()
        if line.endswith(b"\n"):
            yield line
            line = b""
            continue
        if ended:
            return
        ended = not _at_work(file)  # then read once more: lines may have come before the check
        if ended:
            continue
        ready = dict(poll.poll((_POLL_S if woken is None else _WATCH_S) * 1000))
        if 1 in ready:
            return
        if woken in ready and not os.read(woken, 65536):
            poll.unregister(woken)
            woken = None


def _write(data: bytes) -> bool:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return False  # no process listens any more; the work continues
    return True
