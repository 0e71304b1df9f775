"""What a node remembers between requests: restarts that are due, and which opaque work was done.

One small JSON file under a checksum, in a directory that only root can enter. It says nothing about files, packages or
units: those are looked at afresh each time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from hpcforge.node import files
from hpcforge.node.events import Json, NodeError

FOLDER = Path("/var/lib/hpcforge")
SCHEMA = 1


class State(NamedTuple):
    """`trouble` says why the file tells nothing: then restarts and opaque work must be taken as due."""

    restarts: frozenset[str]
    opaque: Mapping[str, str]  # role -> digest of the work that was done
    trouble: str | None = None
    newer: bool = False  # written by a newer hpcforge: not ours to change

    def restart_due(self, unit: str) -> bool:
        """Whether a unit still has to be restarted for what was changed under it."""
        return self.trouble is not None or unit in self.restarts


EMPTY = State(frozenset(), {})


def load(folder: Path = FOLDER) -> State:
    """What is remembered; a file that is there and cannot be trusted is trouble, never empty."""
    path = folder / "state.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return EMPTY
    except OSError as error:
        return EMPTY._replace(trouble=f"{path}: {error.strerror}")
    try:
        document = json.loads(data)
        schema = document["schema"]
        if isinstance(schema, int) and schema > SCHEMA:
            why = f"{path} was written by a newer hpcforge (schema {schema}, this one knows {SCHEMA}): use that one"
            return EMPTY._replace(trouble=why, newer=True)
        if document["checksum"] != _checksum(document):
            raise ValueError("checksum")
        return State(frozenset(document["restarts"]), dict(document["opaque"]))
    except (ValueError, KeyError, TypeError):
        return EMPTY._replace(trouble=f"{path} is damaged ({len(data)} bytes)")


def load_for_change(folder: Path = FOLDER) -> State:
    """The same for a request that will write: a damaged file is put aside, a newer one is left alone (NodeError)."""
    state = load(folder)
    if state.newer:
        raise NodeError(str(state.trouble))
    if state.trouble:
        with contextlib.suppress(FileNotFoundError):
            (folder / "state.json").replace(folder / "state.json.damaged")
    return state


def save(state: State, folder: Path = FOLDER) -> None:
    """Remember; on disk before this returns."""
    document: Json = {"schema": SCHEMA, "restarts": sorted(state.restarts), "opaque": dict(state.opaque)}
    document["checksum"] = _checksum(document)
    fd = _open(folder)
    try:
        data = (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
        files.replace(fd, "state.json", data, files.Rights(os.geteuid(), os.getegid(), 0o600))
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(purpose: str, folder: Path = FOLDER) -> Iterator[None]:
    """Hold the node's lock, which the kernel frees however this process ends. NodeError naming who has it."""
    directory = _open(folder)
    try:
        fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    finally:
        os.close(directory)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 1000).decode("utf-8", "replace").strip() or "by a process that has not said who it is"
            raise NodeError(f"another hpcforge run is at work on this node: {holder}") from None
        os.ftruncate(fd, 0)
        os.write(fd, _holder(purpose).encode("utf-8", "replace"))
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def _holder(purpose: str) -> str:
    user = os.environ.get("SUDO_USER") or files.user_name(os.getuid())
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    return f"{purpose} since {since}, started by {user}, process {os.getpid()}"


def _open(folder: Path) -> int:
    parent = files.open_directory(str(folder.parent), create=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        fd = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    os.fchmod(fd, 0o700)
    return fd


def _checksum(document: Json) -> str:
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
