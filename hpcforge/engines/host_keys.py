"""Targets of connections (only nodes with a host key in the inventory), and a run's private folders for keys."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpcforge.engines.tasks import Target
from hpcforge.errors import ExpectedError
from hpcforge.locks import folder_lock

_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]+=*)(?:[ \t].*)?")
_ADDRESS = re.compile(r"[0-9A-Za-z.:-]+")


class UnreachableError(ExpectedError):
    """An unreachable node. `reason` is a word for programs (see `Event`), the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def host_keys(target: Target) -> list[tuple[str, str]]:
    """Return type and base64 of each host key in the inventory.

    Raises:
        UnreachableError: without a key, or for an invalid OpenSSH public key. Its text names no node, so that the
            same error of many nodes is printed once.
    """
    if not target.host_keys and target.start:
        raise UnreachableError("no-route", f"not started yet: {target.start}")
    if not target.host_keys:
        raise UnreachableError(
            "no-host-key",
            "the inventory has no host key: compare the output of `ssh-keyscan` with the node's console and add it "
            "as `host_keys`; or run `hpcforge apply` with --trust-new, which accepts and records the present key",
        )
    matches = [_KEY.fullmatch(line.strip()) for line in target.host_keys]
    if not all(matches) or not _ADDRESS.fullmatch(target.address):
        raise UnreachableError(
            "no-host-key",
            "invalid address or host key in the inventory; a key looks like `ssh-ed25519 AAAA...`",
        )
    return [(match[1], match[2]) for match in matches if match]


def known_hosts(targets: Iterable[Target]) -> str:
    """Return the text of an OpenSSH known_hosts file; nodes without usable keys are left out, and so refused."""
    lines = []
    for target in targets:
        try:
            keys = host_keys(target)
        except UnreachableError:
            continue  # reported when the node is first used
        lines += [f"{target.address} {kind} {text}\n" for kind, text in keys]
    return "".join(lines)


# Private folders of a run. The next run removes the folders of killed runs.
#
# They are in one folder for each user, hpcforge-UID in the temporary folder. Their process locks them while they are in
# use, and the lock ends with the process, however that ends.


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a new folder of mode 0700 with a short path; it is removed at the end. Raise `OSError`."""
    place = _place()
    with folder_lock(place):
        for leftover in place.iterdir():
            _sweep(leftover)
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
    status = place.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        reason = "not a folder that only you can use: remove it, or set TMPDIR to a folder of your own"
        raise PermissionError(errno.EPERM, reason, str(place))
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
