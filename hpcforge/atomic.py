"""Writing of files: a crash leaves the old or the new file, and the new one after the function has returned."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE

_LONGEST = 200  # bytes of the name in the name of a temporary file: 255 are the limit of file systems


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace a file; its mode holds from its first byte on, whatever the umask. Text is written as UTF-8.

    Of several writers at once one wins, with its complete content: each has its own temporary file beside the file.
    A device or a pipe, such as /dev/null, is written to and not replaced.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace({path: _beside(path, content, mode)})


def _beside(path: Path, content: str | bytes, mode: int, owner: tuple[int, int] | None = None) -> Path:
    """Write a temporary file beside a file, and return it. Raises `OSError` with the name of the file."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{_short(path.name)}.", suffix=".new")
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(handle, mode)
                if owner is not None:
                    with suppress(PermissionError):  # an ordinary user cannot change the owner
                        os.fchown(handle, *owner)
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(handle)
        except BaseException:
            _remove(Path(name))
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the file, not the temporary one
    return Path(name)


def _replace(temporaries: dict[Path, Path]) -> None:
    """Rename temporary files to their files, one directly after the other; after an error remove the others."""
    try:
        for path, temporary in temporaries.items():
            temporary.rename(path)
    except BaseException:
        for temporary in temporaries.values():
            _remove(temporary)
        raise
    for folder in dict.fromkeys(path.parent for path in temporaries):
        sync_folder(folder)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _short(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_LONGEST])


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk: renamed, linked and created files survive a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the file system does not support it
            raise
    finally:
        os.close(handle)


def rewrite(path: Path, text: str) -> None:
    """Replace the text of a user's file, or make it: links, owner and mode stay as they were (a new file: 0644).

    Raises `OSError`, also where its folder does not exist: it may be mistyped.
    """
    rewrite_all({path: text})


def rewrite_all(texts: Mapping[Path, str]) -> None:
    """Replace the texts of files as `rewrite` does: none of them if one cannot be written.

    Only a kill between two renames, in microseconds, leaves a part of them.
    """
    temporaries: dict[Path, Path] = {}
    try:
        for path, text in texts.items():
            if not path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            if path.exists() and not path.is_file():
                path.write_text(text, encoding="utf-8")
                continue
            file = path.resolve()
            status = file.stat() if file.exists() else None
            mode, owner = (S_IMODE(status.st_mode), (status.st_uid, status.st_gid)) if status else (0o644, None)
            temporaries[file] = _beside(file, text, mode, owner)
    except BaseException:
        for temporary in temporaries.values():
            _remove(temporary)
        raise
    _replace(temporaries)
