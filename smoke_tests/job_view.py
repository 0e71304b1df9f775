"""What a job sees of its node beside the hardware: wheels, devices, limits, room, names and accounts. For node_health.

It runs as the account of the tests, inside a step: what this account cannot open, resolve or write, jobs cannot either.
Each look is bounded in time. Standard library alone, Python 3.9.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import re
import resource
import socket
import stat
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHEELS = ("opt/hpcforge/*/lib/python3*/site-packages", "usr/local/lib/python3*/dist-packages")
SLURM_CONF = ("run/slurm/conf", "var/spool/slurmd/conf-cache", "etc/slurm")  # the last where the head hands out none
LIMITS = {"nofile": resource.RLIMIT_NOFILE, "memlock": resource.RLIMIT_MEMLOCK}  # nproc goes by the memory, to a page
ROOM_MIB = 64  # least that jobs need of a folder; PyTorch's loaders fail with a /dev/shm of less
# Device files that programs count on, with the numbers of Linux's devices.txt; those of random numbers are only read.
DEVICE_FILES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # and the home  # noqa: S108
PRELOAD = "etc/ld.so.preload"
_INODES = 100
_NAMED = ("torch", "numpy", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "jax", "tensorflow")
_HOSTS_S = 15.0  # for all names: a resolver waits 5 s for each server that is silent
_TRIES, _ANSWER_S = 3, 1.0
_PORT = 53
# Other on each node, or not its content; scripts outside of the folder begin with the path of their environment.
_NOT_OF_WHEEL = ("__pycache__", "INSTALLER", "REQUESTED", "direct_url.json", "../")


@dataclass(frozen=True)
class Part:
    """A part of a node: its name, what is expected of it, what was seen, and whether that will do."""

    name: str
    expected: object
    got: object
    right: bool


def wheels(root: Path) -> str:
    """Return the number of installed wheels, those that matter most by version, and a digest of all their records."""
    lines, named = [], {}
    records = sorted(path for pattern in WHEELS for path in root.glob(f"{pattern}/*.dist-info/RECORD"))
    for path in records:
        name, _, version = path.parent.name[: -len(".dist-info")].partition("-")
        named[name.replace("_", "-").lower()] = version
        files = path.read_text(errors="replace").splitlines()
        lines += [path.parent.name, *sorted(line for line in files if not any(each in line for each in _NOT_OF_WHEEL))]
    if not records:
        return "none"
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:10]
    return ", ".join(
        [*(f"{name} {named[name]}" for name in _NAMED if name in named), f"{len(records)} wheels {digest}"]
    )


def slurm_conf(root: Path) -> str:
    """Return a digest of the configuration that the node's slurmd has."""
    for folder in SLURM_CONF:
        try:
            return hashlib.sha256((root / folder / "slurm.conf").read_bytes()).hexdigest()[:10]
        except OSError:
            continue
    return "none"


def limits() -> str:
    """Return what a step may have, soft and hard."""
    return ", ".join(f"{name} {'/'.join(map(_limit, resource.getrlimit(of)))}" for name, of in LIMITS.items())


def _limit(number: int) -> str:
    return "unlimited" if number == resource.RLIM_INFINITY else str(number)


def devices(files: Sequence[str], root: Path, *, stand_ins: bool = False) -> Iterator[Part]:
    """Yield for each device file whether this account can open it; one that is missing is another part's.

    `stand_ins`: no driver is behind them, so the kernel's answer after the check of permissions is ENXIO.
    """
    for file in files:
        path = root / file.lstrip("/")
        if not path.exists():
            continue
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            got = "opens"
        except OSError as error:
            got = "opens" if stand_ins and error.errno == errno.ENXIO else os.strerror(error.errno)
        yield Part(f"GPU {file} for users", "opens", got, got == "opens")


def device_files(root: Path) -> Iterator[Part]:
    """Yield the device files of every Linux that are not there, are something else, or do not open for this account."""
    for name, number in DEVICE_FILES.items():
        got = _device_file(root / "dev" / name, number)
        if got != "opens":
            yield Part(f"/dev/{name} for users", f"character device {number[0]}:{number[1]}", got, right=False)


def _device_file(path: Path, number: tuple[int, int]) -> str:
    try:
        entry = path.stat()
        if not stat.S_ISCHR(entry.st_mode):
            return "a plain file" if stat.S_ISREG(entry.st_mode) else "no character device"
        if (os.major(entry.st_rdev), os.minor(entry.st_rdev)) != number:
            return f"character device {os.major(entry.st_rdev)}:{os.minor(entry.st_rdev)}"
        ways = os.O_RDONLY if path.name.endswith("random") else os.O_RDWR
        os.close(os.open(path, ways | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        if path.name != "tty" or error.errno != errno.ENXIO:  # a step has no terminal
            return os.strerror(error.errno or 0)
    return "opens"


def room(folders: Sequence[Path]) -> Iterator[Part]:
    """Yield folders in which jobs have no room; one that is not there is another part's."""
    for folder in folders:
        try:
            seen = os.statvfs(folder)
        except OSError:
            continue
        free_mib = seen.f_bavail * seen.f_frsize // 2**20
        if free_mib < ROOM_MIB:
            yield Part(f"free room of {folder}, MiB", ROOM_MIB, free_mib, right=False)
        if seen.f_files and seen.f_favail < _INODES:
            yield Part(f"free inodes of {folder}", _INODES, seen.f_favail, right=False)


def accounts(declared: Mapping[str, int]) -> Iterator[Part]:
    """Yield accounts whose number is another one than on the head."""
    for name, uid in declared.items():
        try:
            got: object = pwd.getpwnam(name).pw_uid
        except KeyError:
            got = "missing"
        if got != uid:
            yield Part(f"number of account {name}", str(uid), str(got), right=False)


def hosts(declared: Mapping[str, str]) -> Iterator[Part]:
    """Yield nodes whose names give other addresses than theirs, as far as the time goes."""
    until = time.monotonic() + _HOSTS_S
    for name, address in declared.items():
        if time.monotonic() > until:
            yield Part("names of other nodes", f"answers within {_HOSTS_S:g} s", f"none at {name}", right=False)
            return
        try:
            found = sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError as error:
            found = [str(error.strerror or error)]
        if address not in found:
            yield Part(f"address of {name}", address, ", ".join(found), right=False)


def own_addresses(root: Path) -> set[str]:
    """Return every IPv4 address of this node, further ones of an interface included: the kernel's local routes."""
    try:
        trie = (root / "proc/net/fib_trie").read_text()
    except OSError:
        return set()
    return {*re.findall(r"\|-- ([0-9.]{7,15})\n +/32 host LOCAL$", trie, re.MULTILINE)}


def addresses_of_others(declared: Mapping[str, str], own: str, held: Set[str]) -> Iterator[Part]:
    """Yield other nodes' addresses that this node has, too; none where its name in Slurm is not known."""
    if not own:
        return
    owners = Counter(declared.values())
    for name, address in declared.items():
        if name != own and address in held and owners[address] == 1 and not address.startswith("127."):
            yield Part(f"address {address}", f"on {name} alone", f"on {own}", right=False)


def name_servers(resolv_conf: str, port: int = _PORT) -> Iterator[Part]:
    """Yield name servers that give no answer at all; what they answer is not judged."""
    for server in re.findall(r"^nameserver\s+([0-9.]+)\s*$", resolv_conf, re.MULTILINE):
        got = "an answer" if _answers(server, port) else "none"
        yield Part(f"name server {server}", "an answer", got, got != "none")


def _answers(server: str, port: int) -> bool:
    """Whether a name server answers a question that it need not ask others (RFC 1035, recursion not desired)."""
    number = os.urandom(2)
    question = number + struct.pack("!5H", 0, 1, 0, 0, 0) + b"\x09localhost\0" + struct.pack("!2H", 1, 1)
    for _ in range(_TRIES):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.settimeout(_ANSWER_S)
            try:
                asked.connect((server, port))
                asked.send(question)
                if asked.recv(512)[:2] == number:
                    return True
            except OSError:
                continue
    return False


def folders(home: str, root: Path = Path("/")) -> str:
    """Return how jobs may use the folders that each needs: as mounted, or that one is missing or not writable."""
    return ", ".join(f"{each} {_use_of(root / each.lstrip('/'))}" for each in dict.fromkeys((*FOLDERS, home)))


def _use_of(folder: Path) -> str:
    try:
        flags = os.statvfs(folder).f_flag
    except OSError as error:
        return "missing" if error.errno == errno.ENOENT else os.strerror(error.errno or 0)
    if flags & os.ST_RDONLY:
        return "ro"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "not writable"
    return "noexec" if flags & os.ST_NOEXEC else "rw"


def preload(root: Path) -> str:
    """Return a digest of the libraries that every program loads first; "none" where that is no library."""
    try:
        words = (root / PRELOAD).read_bytes().split()
    except FileNotFoundError:
        return "none"
    except OSError as error:
        return os.strerror(error.errno or 0)
    return hashlib.sha256(b" ".join(words)).hexdigest()[:10] if words else "none"


def home_of(uid: int) -> str:
    """Return the home of an account; the root folder where it has none."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def compared(declared: Mapping[str, Any], uid: int, root: Path = Path("/")) -> list[Part]:
    """Return every part of what jobs of an account see."""
    home = home_of(uid)
    gpus = declared["gpus"] or {"devices": [], "kind": ""}
    try:
        resolv_conf = (root / "etc/resolv.conf").read_text(errors="replace")
    except OSError:
        resolv_conf = ""
    return [
        *device_files(root),
        *devices(gpus["devices"], root, stand_ins=gpus["kind"] == "fake"),
        *room([root / "dev/shm", root / "tmp", root / home.lstrip("/")]),
        *accounts(declared["accounts"]),
        *hosts(declared["hosts"]),
        *addresses_of_others(declared["hosts"], os.environ.get("SLURMD_NODENAME", ""), own_addresses(root)),
        *name_servers(resolv_conf),
    ]
