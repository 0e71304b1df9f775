#!/usr/bin/python3 -IS
"""What slurmd runs as root before each job: it makes what rootless containers need of a user, from a directory or not.

These are folders for the user's images and for what runs, and a range of subordinate numbers in /etc/subuid and
/etc/subgid. It never fails a job: without them podman says what it lacks. Standard library, Python 3.9.
"""

import contextlib
import fcntl
import json
import os
import sys
import syslog
import time
from collections.abc import Iterator
from typing import Optional

CONFIGURATION = "/etc/hpcforge/containers.json"
RUNTIME = "/run/hpcforge-users"
LOCK = "/run/hpcforge-container-users.lock"
FILES = ("/etc/subuid", "/etc/subgid")
# As useradd allots them by default, see SUB_UID_* in login.defs(5).
LAST, COUNT = 600_100_000, 65_536
LIMIT_S = 20.0  # Slurm ends a prolog that takes longer than PrologEpilogTimeout
FIRST_USER = 1000


def ranges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield owner, first number and count of each line; lines of another form are skipped."""
    for line in text.splitlines():
        owner, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if first.isdecimal() and count.isdecimal():
            yield owner, int(first), int(count)


def with_range(text: str, uid: int, name: str, lowest: int) -> Optional[str]:
    """The text with a free range from `lowest` on for a user; None if it has one. Raises ValueError if none is free."""
    taken = tuple(ranges(text))
    if any(owner in (name, str(uid)) and count >= COUNT for owner, _, count in taken):
        return None
    start = max([lowest, *(first + count for _, first, count in taken if first + count > lowest)])
    if start + COUNT > LAST:
        raise ValueError(f"no {COUNT} numbers are free below {LAST}")
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{uid}:{start}:{COUNT}\n"


@contextlib.contextmanager
def shadow_lock(path: str, until_s: float) -> Iterator[None]:
    """Hold the lock that useradd takes for a file: a link to a file with the number of its process (lckpwdf(3)).

    Raises TimeoutError.
    """
    own, lock = f"{path}.{os.getpid()}", f"{path}.lock"
    with open(own, "w", encoding="ascii") as file:
        file.write(f"{os.getpid()}\0")
    try:
        while True:
            try:
                os.link(own, lock)
                break
            except FileExistsError:
                if not holds(lock):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(lock)
                elif time.monotonic() > until_s:
                    raise TimeoutError(f"{lock} is held") from None
                else:
                    time.sleep(0.1)
    finally:
        os.unlink(own)
    try:
        yield
    finally:
        os.unlink(lock)


def holds(lock: str) -> bool:
    """Whether the process that a lock names is alive."""
    try:
        with open(lock, encoding="ascii", errors="replace") as file:
            os.kill(int(file.read(32).strip("\0\n ") or "0"), 0)
    except (ProcessLookupError, FileNotFoundError, ValueError, OverflowError):
        return False
    return True


def add_range(path: str, uid: int, name: str, lowest: int, until_s: float) -> None:
    """Give a user a range in one of the files."""
    with shadow_lock(path, until_s):
        _add_range(path, uid, name, lowest)


def _add_range(path: str, uid: int, name: str, lowest: int) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    new = with_range(text, uid, name, lowest)
    if new is not None:
        temporary = f"{path}.hpcforge"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(new)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def make_folder(parent: str, uid: int, gid: int) -> None:
    """A folder that only the user enters, in one that only root writes to. Raises OSError where others could."""
    os.makedirs(parent, 0o755, exist_ok=True)
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise OSError(f"{parent} is not root's alone")
        with contextlib.suppress(FileExistsError):
            os.mkdir(str(uid), 0o700, dir_fd=folder)
        own = os.stat(str(uid), dir_fd=folder, follow_symlinks=False)
        if own.st_uid == os.geteuid():  # new, or cut off before it was given
            os.chown(str(uid), uid, gid, dir_fd=folder, follow_symlinks=False)
        elif own.st_uid != uid:
            raise OSError(f"{parent}/{uid} is another user's")
    finally:
        os.close(folder)


def link_name(uid: int, name: str) -> None:
    """Make the user's folder in RUNTIME known by name, too: Slurm 22.05 has no number in oci.conf."""
    if name and "/" not in name and name not in (".", "..") and not name[0].isdecimal():
        with contextlib.suppress(FileExistsError):
            os.symlink(str(uid), f"{RUNTIME}/{name}")


def prepare(uid: int, gid: int, name: str) -> None:
    """All that a user needs, while no other job of theirs prepares the same."""
    with open(CONFIGURATION, encoding="utf-8") as file:
        wanted = json.load(file)
    lowest, until_s = int(wanted["first_number"]), time.monotonic() + LIMIT_S
    if uid >= lowest:
        raise ValueError(
            f"user {uid} is among the subordinate numbers: roles: {{container_users: {{first_number: N}}}}"
        )
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)  # else users could hold it
    try:
        locked(lock, until_s)
        for path in FILES:
            add_range(path, uid, name, lowest, until_s)
        for parent in (RUNTIME, wanted["store"]):
            make_folder(parent, uid, gid)
        link_name(uid, name)
    finally:
        os.close(lock)


def locked(lock: int, until_s: float) -> None:
    """Wait for the lock of other prologs. Raises TimeoutError."""
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise TimeoutError(f"{LOCK} is held") from None
            time.sleep(0.1)


def main() -> int:
    """Prepare the user of SLURM_JOB_UID, if a job of an ordinary user begins."""
    if not os.environ.get("SLURM_SCRIPT_CONTEXT", "").startswith("prolog"):
        return 0
    try:
        uid = int(os.environ["SLURM_JOB_UID"])
        if uid >= FIRST_USER:
            prepare(uid, int(os.environ.get("SLURM_JOB_GID", uid)), os.environ.get("SLURM_JOB_USER", ""))
    except (KeyError, OSError, ValueError) as error:
        syslog.openlog("hpcforge-containers")
        syslog.syslog(
            syslog.LOG_ERR, f"containers lack what they need in job {os.environ.get('SLURM_JOB_ID')}: {error}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
