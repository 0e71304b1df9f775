"""Private folders of a run. The next run removes the folders of killed runs.

They lie in one folder a user, hpcforge-UID in the temporary folder; what is in use is locked by who uses it, and a lock
ends with its process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpcforge.locks import folder_lock


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder of mode 0700 with a short path; it is gone afterwards. Raises `OSError`."""
    place = _place()
    with folder_lock(place):
        for left in place.iterdir():
            _sweep(left)
        folder = Path(tempfile.mkdtemp(dir=place))
        handle = _open(folder)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _place() -> Path:
    """Return the parent of this user's folders. Raises `PermissionError` if another user owns that name."""
    place = Path(tempfile.gettempdir()) / f"hpcforge-{os.geteuid()}"
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        why = "not a folder that only you can use: remove it, or set TMPDIR to a folder of your own"
        raise PermissionError(errno.EPERM, why, str(place))
    return place


def _sweep(folder: Path) -> None:
    """Remove a folder unless it is in use."""
    try:
        handle = _open(folder)
    except OSError:
        return  # its user has just removed it
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(handle)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
