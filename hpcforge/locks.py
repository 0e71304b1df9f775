"""Locks between processes of this host, by flock(2): the kernel frees a lock when its holder ends, even if killed."""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from hpcforge.errors import ExpectedError

_NO_FOLDER_LOCK = (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP)  # NFS locks only files that are open for writing
_LIMIT_BYTES = 64 * 1024  # of the holders in a lock file


class HeldError(ExpectedError):
    """Another process holds a lock; the message names it."""

    kind = "busy"


def operator() -> str:
    """Return the user at the terminal, also with sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a UID without a name
        return str(os.getuid())


@contextmanager
def file_lock(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[IO[bytes]]:
    """Hold a lock file, open for appending; call `waiting` once if another process holds it.

    Opens the file again if its last holder removed or replaced it.
    """
    while True:
        with path.open("ab") as file:
            _wait(file.fileno(), waiting)
            if _is_at(path, file.fileno()):
                yield file
                return


@contextmanager
def folder_lock(*folders: Path) -> Iterator[None]:
    """Hold existing folders, in an order that all processes share. Raises `OSError`."""
    with ExitStack() as stack:
        for folder in sorted({folder.resolve() for folder in folders}):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            try:
                _wait(handle)
            except OSError as error:
                if error.errno not in _NO_FOLDER_LOCK:
                    raise
                stack.enter_context(file_lock(folder / ".hpcforge.lock"))
        yield


@contextmanager
def held(path: Path, use: str, hint: str, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock file at once, and name this process in it.

    `shared`: other processes may share it. Raises `HeldError`: "`use` by USER, process PID, since TIME".
    """
    with path.open("a+b") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldError(f"{use} by {_describe(_living(file)) or 'another process'}", hint) from None
        others = _living(file) if shared else []
        file.truncate(0)
        own = {"who": operator(), "pid": os.getpid(), "started": _started(os.getpid()), "since_s": time.time()}
        file.write("".join(json.dumps(holder) + "\n" for holder in (*others, own)).encode())
        file.flush()
        yield


def _wait(handle: int, waiting: Callable[[], object] = lambda: None) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _living(file: IO[bytes]) -> list[dict[str, object]]:
    """Return the holders in a lock file that still run."""
    file.seek(0)
    living = []
    for line in file.read(_LIMIT_BYTES).decode("utf-8", "replace").splitlines():
        try:
            holder = json.loads(line)
            if holder["started"] is not None and _started(int(holder["pid"])) == holder["started"]:
                living.append(holder)
        except (ValueError, KeyError, TypeError):  # another process is writing it
            continue
    return living


def _describe(holders: Iterable[dict[str, object]]) -> str:
    names = []
    for holder in holders:
        since = datetime.fromtimestamp(float(str(holder["since_s"]))).astimezone()
        user = "".join(letter for letter in str(holder["who"]) if letter.isprintable())
        names.append(f"{user}, process {holder['pid']}, since {since:%Y-%m-%d %H:%M:%S}")
    return "; ".join(names)


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot (proc(5)); None: it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None
