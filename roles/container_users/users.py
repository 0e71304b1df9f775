#!/usr/bin/python3 -IS
"""What slurmd runs as root before each job: it makes what rootless containers need of a user, from a directory or not.

These are folders for the user's images and for what runs, and a range of subordinate numbers in /etc/subuid and
/etc/subgid. The range of user N follows from N alone, so that it is the same on all nodes:

    first_number + (N - first_user) * 65536, and the 65535 numbers after it

It is refused if N is not in first_user <= N < first_number, if it ends above 4294967294 (so there are at most 65,536
such users), or if it has a number of another line, of this node's users and groups, or of the directory's. An earlier
line of the user is replaced if the user has no folder of images yet; otherwise it is refused, since images there have
its numbers. A refusal is logged and never fails a job: podman says what it lacks. Standard library, Python 3.9.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import syslog
import time
from collections.abc import Iterable, Iterator
from typing import Optional

CONFIGURATION = "/etc/hpcforge/containers.json"
RUNTIME = "/run/hpcforge-users"
LOCK = "/run/hpcforge-container-users.lock"
FILES = ("/etc/subuid", "/etc/subgid")
PEOPLE = ("/etc/passwd", "/etc/group")
DIRECTORY = "/usr/sbin/hpcforge-directory-check"  # of the role ldap_client: it lists the directory's numbers
DIRECTORY_S = 15.0
LAST, COUNT = 4_294_967_294, 65_536  # the greatest number of a user (-1 is none); as useradd allots them
LIMIT_S = 25.0  # Slurm ends a prolog that takes longer than PrologEpilogTimeout
FIRST_USER = 1000


def ranges(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield owner, first number and count of each line; lines of another form are skipped."""
    for line in text.splitlines():
        owner, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if first.isdecimal() and count.isdecimal():
            yield owner, int(first), int(count)


def range_of(uid: int, first_user: int, first_number: int) -> int:
    """Return the first subordinate number of a user. Raises ValueError if the user can have none."""
    if not first_user <= uid < first_number:
        raise ValueError(f"user {uid} is not between first_user {first_user} and first_number {first_number}")
    first = first_number + (uid - first_user) * COUNT
    if first + COUNT - 1 > LAST:
        raise ValueError(f"the numbers of user {uid} would end above {LAST}: lower first_number or raise first_user")
    return first


def with_range(text: str, uid: int, name: str, first: int, images: bool) -> Optional[str]:
    """Return the text with the range of a user; None if it has that alone.

    Raises ValueError if the range overlaps another line, or if the user has `images` with the numbers of another one.
    """
    lines = tuple(ranges(text))
    own = [(begin, count) for owner, begin, count in lines if owner in (name, str(uid))]
    if own == [(first, COUNT)]:
        return None
    if own and images:
        raise ValueError(
            f"user {uid} has {own[0][0]}:{own[0][1]}, and the images in the user's folder have these numbers; "
            f"expected {first}:{COUNT}. Remove that folder and the user's lines"
        )
    for owner, begin, count in lines:
        if owner not in (name, str(uid)) and begin < first + COUNT and first < begin + count:
            raise ValueError(f"{first}:{COUNT} of user {uid} overlaps the line {owner}:{begin}:{count}. Remove it")
    others = [line for line in text.splitlines() if line.partition(":")[0] not in (name, str(uid))]
    return "".join(f"{line}\n" for line in (*others, f"{uid}:{first}:{COUNT}"))


def refuse_taken(first: int, numbers: Iterable[tuple[str, int]]) -> None:
    """Raise ValueError if a range has the number of a user or group."""
    for name, number in numbers:
        if first <= number < first + COUNT:
            raise ValueError(f"{name} has number {number}, which is in {first}:{COUNT}: raise first_number")


def local_numbers() -> Iterator[tuple[str, int]]:
    """Yield name and number of this node's users and groups."""
    for path in PEOPLE:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.rstrip("\n").split(":")
                if len(fields) > 2 and fields[2].isdecimal():
                    yield fields[0], int(fields[2])


def directory_numbers() -> Iterator[tuple[str, int]]:
    """Yield name and number of the directory's people and groups, if there is one. Raises OSError if it is away."""
    if not os.path.exists(DIRECTORY):
        return
    try:
        done = subprocess.run(
            (DIRECTORY, "numbers"), stdin=subprocess.DEVNULL, capture_output=True, timeout=DIRECTORY_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"the directory does not list its numbers within {DIRECTORY_S:.0f} s") from None
    if done.returncode:
        raise OSError(f"the directory does not list its numbers: {done.stderr.decode(errors='replace').strip()[:300]}")
    for line in done.stdout.decode(errors="replace").splitlines():
        number, _, name = line.partition(" ")
        if number.isdecimal():
            yield name, int(number)


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


def add_range(path: str, uid: int, name: str, first: int, images: bool, until_s: float) -> None:
    """Give a user the range in one of the files."""
    with shadow_lock(path, until_s):
        new = with_range(read(path), uid, name, first, images)
        if new is not None:
            temporary = f"{path}.hpcforge"
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(new)
                os.fchmod(file.fileno(), 0o644)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)


def read(path: str) -> str:
    """Return the text of a file, "" if there is none."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        return file.read()
    return ""


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
    first = range_of(uid, int(wanted["first_user"]), int(wanted["first_number"]))
    until_s = time.monotonic() + LIMIT_S
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)  # else users could hold it
    try:
        locked(lock, until_s)
        images = os.path.isdir(f"{wanted['store']}/{uid}")
        if any(with_range(read(path), uid, name, first, images) is not None for path in FILES):
            refuse_taken(first, local_numbers())
            refuse_taken(first, directory_numbers())
        for path in FILES:
            add_range(path, uid, name, first, images, until_s)
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
