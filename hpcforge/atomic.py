"""Writing files so that a crash leaves the old or the new one, and the new one once it is said to be written."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

_LONGEST = 200  # bytes of a name that its temporary file keeps: 255 are the limit of file systems


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace a file; its mode holds from its first byte on, whatever the umask. Text is written as UTF-8.

    Of several writers at once one wins, with its whole content: each has a temporary file of its own beside the file.
    A device or a pipe, as /dev/null, is written to and not replaced.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{_short(path.name)}.", suffix=".new")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # of the file, which the user knows
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        Path(temporary).rename(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    sync_folder(path.parent)


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST])


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on the disk: what was renamed, linked or made there outlasts a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(handle)


def rewrite(path: Path, text: str) -> None:
    """Replace the text of a user's file, or make it: a link stays a link, and the mode is as it was (else 0644).

    Raises `OSError`, also where its folder does not exist: it may be mistyped.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    file = path if path.exists() and not path.is_file() else path.resolve()
    write_atomically(file, text, S_IMODE(file.stat().st_mode) if file.exists() else 0o644)
