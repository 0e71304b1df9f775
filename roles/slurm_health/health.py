#!/usr/bin/python3 -IS
"""What slurmd runs as root on a worker: every so often, before each job (prolog) and after it (epilog).

A node with a fault is drained, with the fault and its number as the reason; once nothing is wrong any more the node is
resumed, if that reason is still this program's. SLURM_SCRIPT_CONTEXT says as which of the three it runs, and
/etc/hpcforge/slurm_health.json what to look at. Standard library, Python 3.9.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import syslog
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

PREFIX = "hpcforge-health: "  # of reasons; whoever else drained a node, hpcforge too, has another
WANTED = "/etc/hpcforge/slurm_health.json"
LOCK = "/run/hpcforge_health.lock"  # held while the checks run
WELL = "/run/hpcforge_health.well"  # it is there while Slurm need not be asked: nothing was wrong, nor drained by us
# slurmd gives a health check 60 s, and waits for it when it starts: what hangs, and Slurm's answers, end before that.
HANGS_S = 25.0
AGAIN_S = 3.0  # after which a fault is looked for again: a unit that is restarted, a device that is made anew, is none
SLURM_S = 15.0
PROCESSES_S = 10.0
CLEAN_S = 40.0
DEEPEST = 64  # folders in folders: each is an open file meanwhile
USERS_WRITE = ("/tmp", "/var/tmp", "/home")  # noqa: S108 - where a file system is searched for who has filled it
OWNERS_S = 3.0
FIRST_UID, NOBODY = 1000, 65534
RUNS = "RUNNING,SUSPENDED,STOPPED,CONFIGURING,RESIZING,SIGNALING"
MIB = 1 << 20
# NVSwitches of the board, where the driver shows them. Fabric Manager starts after a reset of GPUs and switches.
NVSWITCHES = "/proc/driver/nvidia-nvswitch/devices"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
# The kernel's line of a fatal error; `Severity 1` is another of the same error. 10006 (thermal shutdown) and 10007 (IO
# failure) have no severity (NVIDIA/open-gpu-kernel-modules, src/common/nvswitch).
FATAL_SXID = re.compile(
    r"nvidia-nvswitch\d{1,3}: SXid \(PCI:([0-9a-fA-F:.]{7,16})\): (?:(\d{1,6}), (?:Fatal|Severity 1)\b|(1000[67]),)"
)
MOST_SXIDS = 4  # that are named
# File systems that no server answers for; of others none is touched, since that may never return.
LOCAL = {"btrfs", "devtmpfs", "overlay", "ramfs", "tmpfs", "zfs"}  # and those whose source is in /dev


# What may be wrong with a node


def faults(wanted: dict[str, Any], begin: Callable[[str], None], root: str = "") -> Iterator[str]:
    """Yield what is wrong; `begin` is told what is looked at next."""
    if wanted["gpus"]:
        begin("GPUs")
        yield from missing_gpus(wanted["gpus"], root)
    mounts = mount_table(root)
    for path in wanted["space"]:
        if not is_local(path, mounts):
            continue
        begin(path)
        try:
            for fault in space_faults(path, os.statvfs(root + path), wanted["min_free_mib"]):
                yield fault + largest_owner(root + path, mounts, root)
        except OSError as error:
            yield f"{path}: {error.strerror}"
    begin("mounts")
    yield from (f"nothing is mounted at {path}" for path in wanted["mounts"] if path not in mounts)
    if wanted["units"]:
        begin("systemd")
        yield from unit_faults(wanted["units"], unit_states(wanted["units"]))
    if os.path.isdir(root + NVSWITCHES):
        begin("the journal")
        yield from sxid_faults(*kernel_messages())


def missing_gpus(devices: list[str], root: str = "") -> Iterator[str]:
    """Yield how many device files there are, if not all are, and which are not."""
    missing = [path for path in devices if not is_character_device(root + path)]
    if missing:
        yield f"GPUs {len(devices) - len(missing)}, declared {len(devices)}: no {', '.join(missing)}"


def is_character_device(path: str) -> bool:
    """Whether there is one; it is not opened, which might wake it or fail for a reason of its own."""
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def space_faults(path: str, seen: os.statvfs_result, min_free_mib: int) -> Iterator[str]:
    """Yield what is wrong with a file system: it cannot be written to, or is full."""
    free_mib = seen.f_bavail * seen.f_frsize // MIB
    if seen.f_flag & os.ST_RDONLY:
        yield f"{path} is read-only"
    elif free_mib < min_free_mib:
        yield f"{path} has {free_mib} MiB free, needed {min_free_mib} MiB"
    elif seen.f_files and not seen.f_favail:  # some file systems count none
        yield f"{path} has 0 of {seen.f_files} inodes free"


def largest_owner(path: str, mounts: dict[str, bool], root: str = "", until_s: float = OWNERS_S) -> str:
    """Which user has most of a file system, as far as it is searched in `until_s`; "" where no user has any of it."""
    until, device = time.monotonic() + until_s, os.stat(path).st_dev
    used: dict[int, int] = {}
    within = frozenset(root + mount for mount in mounts)
    for folder in USERS_WRITE:
        if not is_local(folder, mounts):
            continue
        with contextlib.suppress(OSError):
            opened = os.open(root + folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(opened).st_dev == device:
                    count_used(opened, root + folder, within, device, until, DEEPEST, used)
            finally:
                os.close(opened)
    users = {uid: size for uid, size in used.items() if uid >= FIRST_UID and uid != NOBODY}
    if not users:
        return ""
    uid = max(users, key=lambda uid: users[uid])
    return f"; {local_name(uid, root)} uses {users[uid] // MIB} MiB of it"


def count_used(
    fd: int, path: str, mounts: frozenset[str], device: int, until: float, deep: int, used: dict[int, int]
) -> None:
    """Add the bytes on disk of what is below an open folder to those of its owners; no link is followed.

    `path` only tells what is mounted there, and is not touched.
    """
    with os.scandir(fd) as entries:
        for entry in entries:
            if time.monotonic() >= until:
                return
            inside = f"{path}/{entry.name}"
            if inside in mounts:
                continue
            with contextlib.suppress(OSError):  # it is gone
                seen = entry.stat(follow_symlinks=False)
                used[seen.st_uid] = used.get(seen.st_uid, 0) + 512 * seen.st_blocks // seen.st_nlink
                if deep and stat.S_ISDIR(seen.st_mode) and seen.st_dev == device:
                    inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                    try:
                        if os.fstat(inner).st_dev == device:
                            count_used(inner, inside, mounts, device, until, deep - 1, used)
                    finally:
                        os.close(inner)


def local_name(uid: int, root: str = "") -> str:
    """The user's name in /etc/passwd; a directory is not asked, since it may not answer."""
    with open(f"{root}/etc/passwd", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, number = line.split(":", 3)[:3] if line.count(":") >= 3 else ("", "", "")
            if number == str(uid):
                return f"{name} (uid {uid})"
    return f"uid {uid}"


def mount_table(root: str = "") -> dict[str, bool]:
    """Return for each mount point whether its file system is local; none of it is touched (proc_pid_mountinfo(5))."""
    table = {}
    with open(f"{root}/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            escaped = line.split(" ")[4]
            path = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), escaped)
            kind, source = [*line.partition(" - ")[2].split(" "), ""][:2]
            table[path] = kind in LOCAL or (source.startswith("/dev/") and not kind.startswith("fuse"))
    return table


def is_local(path: str, mounts: dict[str, bool]) -> bool:
    """Whether a path is on a local file system, by its text alone."""
    around = [mount for mount in mounts if f"{path}/".startswith(f"{mount.rstrip('/')}/")]
    return bool(around) and mounts[max(around, key=len)]


def unit_states(units: list[str]) -> list[str]:
    """What systemd says of each, in their order."""
    return said("systemctl", "is-active", "--", *units, fails=True).split()


def unit_faults(units: list[str], states: list[str]) -> Iterator[str]:
    """Yield the units that are not running; one that is being started is no fault yet."""
    for unit, state in zip(units, states):
        if state not in ("active", "activating", "reloading"):
            yield f"{unit} is {state}"


def kernel_messages() -> tuple[str, str]:
    """Return this boot's lines that may be fatal SXids, as JSON, and the uptime in us when Fabric Manager last started.

    No user can write them: the journal marks the kernel's own messages.
    """
    try:
        grep = "--grep=^nvidia-nvswitch[0-9]+: SXid .*: ([0-9]+, (Fatal|Severity 1)|1000[67],)"
        lines = said("journalctl", "--quiet", "--dmesg", "--lines=1000", "--output=json", grep, fails=True)
        shown = ("systemctl", "show", "--property=InactiveExitTimestampMonotonic", "--value", FABRIC_MANAGER)
        return lines, said(*shown, fails=True).strip()
    except RuntimeError as error:  # the other checks count all the same
        complain(str(error))
        return "", "0"


def sxid_faults(lines: str, started_us: str) -> Iterator[str]:
    """Yield the fatal errors of NVSwitches since Fabric Manager last started, in the order of their place."""
    after_us = int(started_us) if started_us.isdecimal() else 0
    fatal = set()
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            match = FATAL_SXID.match(entry["MESSAGE"])  # elsewhere in a message a user may have written it
            if match and int(entry["__MONOTONIC_TIMESTAMP"]) >= after_us:
                fatal.add(f"fatal SXid {match[2] or match[3]} on NVSwitch {match[1].lower().partition('.')[0]}")
    named = sorted(fatal)
    yield from named[:MOST_SXIDS]
    if named[MOST_SXIDS:]:
        yield f"{len(named) - MOST_SXIDS} more fatal SXids"


def found(wanted: dict[str, Any], lock: str = LOCK, hangs_s: float = HANGS_S) -> list[str]:
    """Every fault, or else which check does not come back. A check that hangs stays behind, and no second joins it.

    The checks run in a process of their own: whatever waits for a dead disk cannot be interrupted.
    """
    until = time.monotonic() + hangs_s
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while not taken(held):
            if time.monotonic() >= until:
                return [f"an earlier check has not come back for {hangs_s:.0f} s"]
            time.sleep(0.05)
        reads, writes = os.pipe()
        if os.fork() == 0:
            tell(wanted, writes)  # which has the lock, too, until it ends
        os.close(writes)
        return heard(reads, until, hangs_s)
    finally:
        os.close(held)


def taken(lock: int) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def tell(wanted: dict[str, Any], writes: int) -> None:
    """Write what is begun, what is wrong and that this was all, a line each, and end this process."""

    def line(kind: str, text: str = "") -> None:
        os.write(writes, f"{json.dumps([kind, text])}\n".encode())

    status = 1
    try:
        if any(faults(wanted, lambda what: line("begun", what))):
            time.sleep(AGAIN_S)
            for fault in faults(wanted, lambda what: line("begun", what)):
                line("fault", fault)
        line("done")
        status = 0
    except Exception as error:
        line("broken", f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def heard(reads: int, until: float, hangs_s: float) -> list[str]:
    """What the checks found. Raises RuntimeError if they could not be made, which is no fault of the node's."""
    text, begun = b"", "nothing"
    while time.monotonic() < until and select.select([reads], [], [], max(0.0, until - time.monotonic()))[0]:
        more = os.read(reads, 1 << 16)
        if not more:
            break
        text += more
    os.close(reads)
    lines = [json.loads(line) for line in text.decode().splitlines()]
    for kind, what in lines:
        if kind == "broken":
            raise RuntimeError(f"the health check failed at {begun}: {what}")
        begun = what if kind == "begun" else begun
    known = [what for kind, what in lines if kind == "fault"]
    return known if ["done", ""] in lines else [*known, f"{begun} does not answer within {hangs_s:.0f} s"]


# What Slurm is told


def said(*argv: str, fails: bool = False) -> str:
    """What a program prints. Raises RuntimeError if it ends otherwise than well, unless that `fails` to matter."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SLURM_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(f"{argv[0]}: {error}") from error
    if done.returncode and not fails:
        raise RuntimeError(f"{argv[0]}: {done.stderr.strip()}")
    return done.stdout


class Order(NamedTuple):
    """What Slurm is to do with a node."""

    state: str  # DRAIN, RESUME
    reason: str


def order(node: str, wrong: list[str]) -> Optional[Order]:
    """What has to be told, `node` being Slurm's line about it; None: nothing. Others' drains are theirs."""
    state = node.partition(" State=")[2].partition(" ")[0]
    reason = node.partition(" Reason=")[2]
    drained, ours = "DRAIN" in state.split("+"), reason.startswith(PREFIX)
    text = PREFIX + "; ".join(wrong)
    if wrong and (not drained or (ours and not reason.startswith(f"{text} ["))):
        return Order("DRAIN", text)
    return Order("RESUME", "") if drained and ours and not wrong else None


def settle(name: str, wrong: list[str], well: str = WELL) -> None:
    """Have Slurm drain or resume a node, where it does not yet. One that is well asks once, not every time."""
    if not wrong and os.path.exists(well):
        return
    if wrong:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(well)
    told = order(said("scontrol", "--oneliner", "show", "node", name).rstrip("\n"), wrong)
    if told:
        why = [f"Reason={told.reason}"] if told.reason else []
        said("scontrol", "update", f"NodeName={name}", f"State={told.state}", *why)
        syslog.syslog(f"{told.state} {told.reason}")
    if not wrong:
        os.close(os.open(well, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))


# What a user left behind


def tidy(wanted: dict[str, Any], uid: int, job: str) -> None:
    """End a user's processes and remove what is the user's, unless the user has another job here or is to be spared."""
    if uid < FIRST_UID or uid == NOBODY:
        return
    here = (f"--user={uid}", f"--nodelist={os.uname().nodename}", f"--states={RUNS}")
    others = said("squeue", "--noheader", "--format=%A", *here)
    if set(others.split()) - {job} or may_be_root(uid):
        return
    ended = end_processes(uid) if wanted["end_processes"] else 0
    until = time.monotonic() + CLEAN_S
    removed = sum(clean(path, uid, until) for path in wanted["clean"])
    if ended or removed:
        syslog.syslog(f"after job {job}: user {uid} left {ended} processes and {removed} files")


def may_be_root(uid: int) -> bool:
    """Whether sudo lets a user do anything: so are administrators, and so is the account by which hpcforge gets in."""
    import pwd  # noqa: PLC0415 - after jobs alone

    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return False
    return bool(said("sudo", "-n", "-l", "-U", name, "/usr/bin/true", fails=True).strip())


class Process(NamedTuple):
    """A line of what /proc knows."""

    pid: int
    parent: int
    name: str
    uid: int  # the real one: that of who started it
    over: bool  # a zombie, whose parent has yet to look


def processes(proc: str = "/proc") -> list[Process]:
    """All that there are."""
    read = (process(pid, proc) for pid in os.listdir(proc) if pid.isdecimal())
    return [process for process in read if process]


def process(pid: str, proc: str = "/proc") -> Optional[Process]:
    """One of them; None if it is gone."""
    try:
        with open(f"{proc}/{pid}/status", encoding="utf-8", errors="replace") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except (FileNotFoundError, ProcessLookupError):
        return None
    over = fields["State"].startswith(("Z", "X"))
    return Process(int(pid), int(fields["PPid"]), fields["Name"], int(fields["Uid"].split()[0]), over)


def left(all_: list[Process], uid: int) -> list[Process]:
    """Those of a user that no job step has: of a job that begins meanwhile, all are below a slurmstepd of root's."""
    by_pid = {process.pid: process for process in all_}

    def in_step(process: Optional[Process]) -> bool:
        while process and not (process.name == "slurmstepd" and process.uid == 0):
            process = by_pid.get(process.parent)
        return process is not None

    return [process for process in all_ if process.uid == uid and not process.over and not in_step(process)]


def end_processes(uid: int) -> int:
    """Kill what a user left, until nothing comes after it, and say how many there were."""
    until, ended = time.monotonic() + PROCESSES_S, set()
    while time.monotonic() < until:
        there = left(processes(), uid)
        if not there:
            break
        for target in there:
            # A number may have become another's: the descriptor is of that process, whose user is then looked at again.
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(target.pid)
                try:
                    now = process(str(target.pid))
                    if now and now.uid == uid:
                        signal.pidfd_send_signal(handle, signal.SIGKILL)
                        ended.add(target.pid)
                finally:
                    os.close(handle)
        time.sleep(0.05)
    return len(ended)


def clean(folder: str, uid: int, until: float) -> int:
    """Remove what is a user's in a folder that many may write to, and say how many files.

    Users may exchange any path for a link while root walks it. So no path is walked: each folder is opened from the one
    that has it, never through a link, and must be the user's own, on the same file system; what goes is named in the
    open folder. The worst that can be had is that files of the user's own go.
    """
    mounts = mount_table()
    if not is_local(folder, mounts):  # jobs on other nodes may have their files there
        syslog.syslog(f"{folder} is not cleaned: it is on no local file system")
        return 0
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        syslog.syslog(f"{folder} is not cleaned: {error.strerror}")
        return 0
    try:
        return emptied(opened, folder, uid, os.fstat(opened).st_dev, frozenset(mounts), until, DEEPEST)
    finally:
        os.close(opened)


def emptied(fd: int, path: str, uid: int, device: int, mounts: frozenset[str], until: float, deep: int) -> int:
    """Remove what is the user's in an open folder; `path` is only to know what is mounted there, and left alone."""
    removed = 0
    with os.scandir(fd) as entries:  # a list of all could fill the memory
        for name in (entry.name for entry in entries):
            if time.monotonic() >= until:
                break
            if f"{path}/{name}" in mounts:
                continue
            with contextlib.suppress(OSError):  # it is gone, or holds what is another's
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if seen.st_uid != uid:
                    continue
                if not stat.S_ISDIR(seen.st_mode):
                    os.unlink(name, dir_fd=fd)
                    removed += 1
                    continue
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    now = os.fstat(inner)
                    if deep and (now.st_uid, now.st_dev) == (uid, device):
                        removed += emptied(inner, f"{path}/{name}", uid, device, mounts, until, deep - 1)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=fd)
    return removed


def main() -> int:
    """Do what Slurm asks. 1: the node has a fault, and no job may begin."""
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    syslog.openlog("hpcforge-health")
    context = os.environ.get("SLURM_SCRIPT_CONTEXT", "")
    try:
        with open(WANTED, encoding="utf-8") as file:
            wanted = json.load(file)
        if context.startswith("epilog"):
            tidy(wanted, int(os.environ["SLURM_JOB_UID"]), os.environ["SLURM_JOB_ID"])
            return 0
        wrong = found(wanted)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        # What goes wrong with the looking says nothing of the node: drained for it, a whole cluster would stand.
        complain(f"{context or 'check'}: {type(error).__name__}: {error}")
        return 0
    try:
        settle(os.uname().nodename, wrong)
    except RuntimeError as error:
        complain(str(error))  # the next check tells it
    return 1 if wrong and context.startswith("prolog") else 0


def complain(message: str) -> None:
    """Say what could not be done, to slurmd's log and the node's."""
    print(message, file=sys.stderr)
    syslog.syslog(syslog.LOG_ERR, message)


if __name__ == "__main__":
    sys.exit(main())
