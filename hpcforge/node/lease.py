"""The active run of the cluster, kept on the head, so that a second apply is refused early.

A courtesy: what keeps two runs apart are the nodes' locks and run numbers. The holder beats by taking the lease again;
one that has been silent for `stale_s` has lost it to whoever asks next. Time is counted since this node's boot: a clock
that is set while a cluster is configured makes nobody's lease old.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import files, paths
from hpcforge.node.events import EventReporter, Json, NodeError, readable

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import HoldLeaseRequest, LeaseRequest, LogRequest, ReadLeaseRequest, RosterRequest


# What the head keeps for all operators: the history of runs, a JSON object a line, and the roster of nodes.
#
# What the lines and the roster mean is `hpcforge.run.records.history`'s; here they are only kept, whole, and given
# back.


FOLDER = Path("/var/lib/hpcforge")
HISTORY = "history.jsonl"
VERDICTS = "verdicts.json"
VERIFICATIONS = "verifications.json"
ROSTER = "roster.json"
_LOCK = "records.lock"  # not the lock of a converge, which is held for minutes
_LOCK_WAIT_S = 10.0
_READ_LIMIT = 4 * 2**20  # bytes of history in one answer, the newest; an answer has to fit a line of 8 MiB


def log(request: LogRequest, report: EventReporter, folder: Path = FOLDER) -> Json:
    """The verb log, see `hpcforge.node`: `write` a line and perhaps the roster, `read` both, keep `verdicts`
    or `verifications`."""
    if request["do"] == "write":
        roster = request.get("roster")
        with open_folder(folder) as fd, locked(fd):
            append(fd, request["line"])
            if roster is not None:
                _replace_roster(fd, roster, report)
    elif request["do"] in ("verdicts", "verifications"):
        name = VERDICTS if request["do"] == "verdicts" else VERIFICATIONS
        with open_folder(folder) as fd:
            rights = files.Rights(os.geteuid(), os.getegid(), 0o600)
            files.replace(fd, name, request["text"].encode("utf-8"), rights)
    report.emit({"event": "log", **_read(folder, request.get("last", 0))})
    return {"time_s": time.time()}


@contextlib.contextmanager
def open_folder(folder: Path = FOLDER) -> Iterator[int]:
    """A descriptor of the folder, made 0700 where it is missing."""
    parent = paths.open_directory(str(folder.parent), create=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder.name, 0o700, dir_fd=parent)
        fd = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    finally:
        os.close(parent)
    try:
        os.fchmod(fd, 0o700)
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """One at a time; the lock is held for milliseconds, and the kernel frees it however its holder ends."""
    fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        until = time.monotonic() + _LOCK_WAIT_S
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > until:
                raise NodeError(f"{FOLDER / _LOCK} has been held by another process for {_LOCK_WAIT_S:g} s")
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def append(folder: int, line: Json) -> None:
    """One more line of history; on disk before this returns, and not there at all if it could not be written whole."""
    data = (json.dumps(line, sort_keys=True) + "\n").encode("ascii")
    fd = os.open(HISTORY, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data  # a write was cut off by a crash: what is left of that line must not spoil this one
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
            if not size:
                os.fsync(folder)  # its name, too
        except OSError:
            os.ftruncate(fd, size)
            raise
    finally:
        os.close(fd)


def _replace_roster(folder: int, roster: RosterRequest, report: EventReporter) -> None:
    """Write the roster, unless a newer run has. Checks only the run number and the checksum."""
    known = _roster_run(folder)
    if known > roster["run"]["number"]:
        report.warning(f"the node list is from run {known}, which is newer: not changed")
        return
    data = (json.dumps(roster, separators=(",", ":")) + "\n").encode("ascii")
    files.replace(folder, ROSTER, data, files.Rights(os.geteuid(), os.getegid(), 0o600))


def _roster_run(folder: int) -> int:
    """The number of the run that wrote the roster; 0 where there is none, or none to be read."""
    try:
        fd = os.open(ROSTER, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return 0
    try:
        with os.fdopen(fd, "rb") as file:
            document = json.load(file)
        rest = {key: value for key, value in document.items() if key != "checksum"}
        whole = document["checksum"] == hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
        return int(document["run"]["number"]) if whole else 0
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0


def _read(folder: Path, last: int) -> Json:
    """The last lines of history, as text, how many there are before them, and the roster's text."""
    lines, before = _last_lines(folder / HISTORY, last)
    return {"lines": lines, "before": before, "roster": files.read_text(str(folder / ROSTER))}


def _last_lines(path: Path, last: int) -> tuple[list[str], int]:
    if last <= 0:
        return [], 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    every = [line for line in data.split(b"\n") if line.strip()]
    taken: list[bytes] = []
    size = 0
    for line in reversed(every[-last:]):
        size += len(line)
        if size > _READ_LIMIT:
            break
        taken.append(line)
    return [line.decode("utf-8", "replace") for line in reversed(taken)], len(every) - len(taken)


_FILE = "lease.json"
_SCHEMA = 1
_MOST_BYTES = 4 << 20  # with the names of 100,000 nodes


def lease(request: LeaseRequest, report: EventReporter, folder: Path = FOLDER) -> Json:
    """The verb lease, see `hpcforge.node`: `take` (or beat), `drop`, `look`."""
    if request["do"] == "look":
        held, took_over = _look(folder, request, report), None
    else:
        verb = _take if request["do"] == "take" else _drop
        with open_folder(folder) as fd, locked(fd):
            held, took_over = verb(fd, request, report)
    report.emit({"event": "lease", "held": held, "took_over": took_over})
    return {"time_s": time.time()}


def _take(
    folder: int, request: HoldLeaseRequest, report: EventReporter
) -> tuple[answer_types.HolderAnswer | None, answer_types.HolderAnswer | None]:
    """Hold the lease from now on; else who does."""
    old = _load(folder, report)
    mine = old is not None and old["run_id"] == request["run_id"]
    holder = None if old is None or mine else _told(old)
    if holder and holder["silent_s"] < request["stale_s"] and holder["run_id"] != request.get("over"):
        return holder, None
    if holder:
        _tell_end(folder, holder)
    _save(folder, request, old if mine else None)
    return None, holder


def _drop(
    folder: int, request: HoldLeaseRequest, report: EventReporter
) -> tuple[answer_types.HolderAnswer | None, answer_types.HolderAnswer | None]:
    """Give it back, if it is the asker's; else who holds it."""
    old = _load(folder, report)
    if old is None or old["run_id"] != request["run_id"]:
        return None if old is None else _told(old), None
    if request.get("cut_off"):
        _tell_end(folder, {**_told(old), "number": request.get("number") or old["number"]})
    os.unlink(_FILE, dir_fd=folder)
    os.fsync(folder)
    return None, None


def _tell_end(folder: int, holder: answer_types.HolderAnswer) -> None:
    """A line of history for a run that will not write its own."""
    about = {key: holder[key] for key in ("who", "number", "since_s")}
    append(folder, {"schema": 1, "id": holder["run_id"], "noticed_s": time.time(), "cut_off": True, **about})


def _look(folder: Path, request: ReadLeaseRequest, report: EventReporter) -> answer_types.HolderAnswer | None:
    """Who holds it and is alive. Changes nothing, so it neither makes the folder nor locks."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        old = _load(fd, report)
    finally:
        os.close(fd)
    held = None if old is None else _told(old)
    return held if held and held["silent_s"] < request["stale_s"] else None


def _load(folder: int, report: EventReporter) -> Json | None:
    """The lease as it was written; None where there is none, or, with a warning, none to be read."""
    try:
        fd = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MOST_BYTES)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found: Json = json.loads(data)
        _told(found)
        return found
    report.warning(f"{FOLDER / _FILE} is damaged ({len(data)} bytes): hpcforge treats the lease as free")
    return None


def _save(folder: int, request: HoldLeaseRequest, old: Json | None) -> None:
    """Write it down; a beat keeps since when, and learns the run's number once that is known."""
    now = {"boot_id": _boot_id(), "up_s": _up_s()}
    document = {
        "schema": _SCHEMA,
        "run_id": readable(request["run_id"], 100),
        "who": " ".join(readable(request["who"], 200).split()),
        "number": request.get("number") or (old["number"] if old else None),
        "process": request.get("process"),
        "nodes": [readable(name, 100) for name in request.get("nodes", [])],
        "since_s": old["since_s"] if old else time.time(),
        "began": old["began"] if old else now,
        "beat": now,
    }
    data = (json.dumps(document, indent=1) + "\n").encode("ascii")
    files.replace(folder, _FILE, data, files.Rights(os.geteuid(), os.getegid(), 0o600))


def _told(found: Json) -> answer_types.HolderAnswer:
    """Return a lease as shown to others. Raises KeyError, TypeError or ValueError for an invalid one."""
    return {
        "run_id": str(found["run_id"]),
        "who": str(found["who"]),
        "number": found["number"],
        "process": found["process"],
        "since_s": float(found["since_s"]),
        "age_s": _passed_s(found["began"]),
        "silent_s": _passed_s(found["beat"]),
    }


def _passed_s(moment: Json) -> float:
    """Seconds since then; from before this boot, all of this boot."""
    return max(0.0, _up_s() - float(moment["up_s"])) if moment["boot_id"] == _boot_id() else _up_s()


def _up_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
