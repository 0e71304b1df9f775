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
from collections.abc import Iterator
from typing import Optional

CONFIGURATION = "/etc/hpcforge/containers.json"
RUNTIME = "/run/hpcforge-users"
LOCK = "/run/hpcforge-users.lock"
FILES = ("/etc/subuid", "/etc/subgid")
# As useradd allots them by default, see SUB_UID_* in login.defs(5).
FIRST, LAST, COUNT = 100_000, 600_100_000, 65_536
FIRST_USER = 1000


def ranges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield owner, first number and count of each line; lines of another form are skipped."""
    for line in text.splitlines():
        owner, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if first.isdecimal() and count.isdecimal():
            yield owner, int(first), int(count)


def with_range(text: str, uid: int, name: str) -> Optional[str]:
    """The text with a free range for a user; None if it has one. Raises ValueError if all numbers are taken."""
    taken = tuple(ranges(text))
    if any(owner in (name, str(uid)) and count >= COUNT for owner, _, count in taken):
        return None
    start = max([FIRST, *(first + count for _, first, count in taken if first + count > FIRST)])
    if start + COUNT > LAST:
        raise ValueError(f"no {COUNT} numbers are free below {LAST}")
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{uid}:{start}:{COUNT}\n"


def add_range(path: str, uid: int, name: str) -> None:
    """Give a user a range in one of the files."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    new = with_range(text, uid, name)
    if new is not None:
        temporary = f"{path}.hpcforge"
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(new)
            os.fchmod(file.fileno(), 0o644)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def make_folder(parent: str, uid: int, gid: int) -> None:
    """A folder that only the user enters, in one that only root writes to."""
    os.makedirs(parent, 0o755, exist_ok=True)
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(str(uid), 0o700, dir_fd=folder)
            os.chown(str(uid), uid, gid, dir_fd=folder, follow_symlinks=False)
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
        store = json.load(file)["store"]
    with open(LOCK, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in FILES:
            add_range(path, uid, name)
        for parent in (RUNTIME, store):
            make_folder(parent, uid, gid)
        link_name(uid, name)


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
