"""Files of a folder that somebody else wrote: of a role, or of a smoke test.

What such a folder says may be copied to every node, so it may name files in it and no others: a path is relative,
without `..`, and no part of it is a symbolic link. Folders are opened one after the other, each from the one around
it, so that nothing can be exchanged on the way. Only regular files of bounded size are read: a device or a pipe is
refused before it is opened.

The folder itself, in which all lies, is where the operator or the blueprint says: the way there may lead over links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from hpcforge.errors import UsageError

MAX_YAML = 1 << 20  # bytes of role.yaml and test.yaml: the largest shipped one has 6 KiB
MAX_TEXT = 16 << 20  # bytes of any other file: nodes refuse a larger one
MAX_FILES = 10_000  # files in a folder and all folders below it
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DEEPEST = 32


class OutsideError(ValueError):
    """A file that is not read. The message completes "cannot be read: "."""


def read_inside(folder: Path, name: str, most: int = MAX_TEXT) -> bytes:
    """Read a file in a folder.

    Raises:
        OutsideError: it is not a regular file of at most `most` bytes in that folder.
        OSError: it is not there, or may not be read.
    """
    *parents, last = _parts(name)
    with _opened(folder, parents) as handle:
        _check_regular(os.stat(last, dir_fd=handle, follow_symlinks=False))
        with os.fdopen(os.open(last, _FILE, dir_fd=handle), "rb") as file:
            _check_regular(os.fstat(file.fileno()))
            content = file.read(most + 1)
    if len(content) > most:
        raise OutsideError(f"it is larger than {most >> 10:,} KiB")
    return content


def read_named(path: Path, most: int = MAX_TEXT) -> bytes:
    """Return the content of a file that the operator names; the path may lead over links.

    Raises:
        UsageError: it is not a regular file of at most `most` bytes. A pipe or a device is not opened.
        OSError: it does not exist, or may not be read.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is {_kind(mode)}, not a regular file", "name a file; save the output of a command")
    with os.fdopen(os.open(path, _FILE & ~os.O_NOFOLLOW), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{path} is larger than {most >> 10:,} KiB", "is this the right file?")
    return content


def is_inside(folder: Path, name: str) -> bool:
    """Return whether a folder has an entry of that name, of any type. Raises OutsideError for a name elsewhere."""
    *parents, last = _parts(name)
    try:
        with _opened(folder, parents) as handle:
            os.stat(last, dir_fd=handle, follow_symlinks=False)
    except OSError:
        return False
    return True


def having(folder: Path, file: str) -> list[Path]:
    """Return the folders in a folder that have a certain file, by name; none where it cannot be read."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in entries if os.path.lexists(path / file)]


def files_inside(folder: Path) -> Iterator[str]:
    """Yield the names of all files in a folder and below, in order, without Python's compiled files.

    Raises:
        OutsideError: something there is neither a regular file nor a folder, or there is too much.
    """
    names: list[str] = []
    with _opened(folder, []) as handle:
        _walk(handle, "", names)
    return iter(sorted(names, key=lambda name: PurePosixPath(name).parts))


def _walk(handle: int, prefix: str, names: list[str]) -> None:
    if prefix.count("/") > _DEEPEST:
        raise OutsideError(f"folders in it are nested more than {_DEEPEST} deep")
    for name in os.listdir(handle):
        mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode) and name == "__pycache__":
            continue
        if stat.S_ISDIR(mode):
            below = os.open(name, _FOLDER, dir_fd=handle)
            try:
                _walk(below, f"{prefix}{name}/", names)
            finally:
                os.close(below)
        elif not stat.S_ISREG(mode):
            raise OutsideError(f"{prefix}{name} is {_kind(mode)}")
        else:
            names.append(f"{prefix}{name}")
        if len(names) > MAX_FILES:
            raise OutsideError(f"it has more than {MAX_FILES:,} files")


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise OutsideError("the path must be inside its own folder: relative and without `..`")
    return path.parts


@contextmanager
def _opened(folder: Path, parents: list[str]) -> Iterator[int]:
    """Open a folder in a folder, every step from the one before."""
    handle = _step(os.fspath(folder), None)
    try:
        for part in parents:
            around, handle = handle, _step(part, handle)
            os.close(around)
        yield handle
    finally:
        os.close(handle)


def _step(name: str, around: int | None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=around)
    except OSError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=around, follow_symlinks=False).st_mode):
            raise OutsideError(f"{PurePosixPath(name).name} is a symbolic link; hpcforge follows none") from error
        raise


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OutsideError(f"it is {_kind(status.st_mode)}, not a regular file")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a folder" if stat.S_ISDIR(mode) else "a device, or a socket"
