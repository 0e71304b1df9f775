"""The active run of the cluster, kept on the head, so that a second apply is refused early.

It is not needed for safety: the nodes' locks and run numbers separate two runs. The holder sends heartbeats by taking
the lease again; after `stale_s` of silence the next run gets it. Time counts from this node's boot: setting the clock
while a cluster is configured does not make a lease old.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import files, head_records
from hpcforge.node.events import EventReporter, Json, readable

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import HoldLeaseRequest, LeaseRequest, ReadLeaseRequest

_FILE = "lease.json"
_SCHEMA = 1
_MOST_BYTES = 4 << 20  # with the names of 100,000 nodes


def lease(request: LeaseRequest, report: EventReporter, folder: Path = head_records.FOLDER) -> Json:
    """Answer a lease request, see `hpcforge.node`: `take` (also a heartbeat), `drop`, `look`."""
    if request["do"] == "look":
        holder, took_over = _look(folder, request, report), None
    else:
        verb = _take if request["do"] == "take" else _drop
        with head_records.open_folder(folder) as fd, head_records.locked(fd):
            holder, took_over = verb(fd, request, report)
    report.emit({"event": "lease", "held": holder, "took_over": took_over})
    return {"time_s": time.time()}


def _take(
    folder: int, request: HoldLeaseRequest, report: EventReporter
) -> tuple[answer_types.HolderAnswer | None, answer_types.HolderAnswer | None]:
    """Take the lease; return the present holder if it is active, and the holder that lost it."""
    old = _load(folder, report)
    mine = old is not None and old["run_id"] == request["run_id"]
    holder = None if old is None or mine else _holder(old)
    if holder and holder["silent_s"] < request["stale_s"] and holder["run_id"] != request.get("over"):
        return holder, None
    if holder:
        _record_end(folder, holder)
    _save(folder, request, old if mine else None)
    return None, holder


def _drop(
    folder: int, request: HoldLeaseRequest, report: EventReporter
) -> tuple[answer_types.HolderAnswer | None, answer_types.HolderAnswer | None]:
    """Drop the lease if the run holds it; else return the holder."""
    old = _load(folder, report)
    if old is None or old["run_id"] != request["run_id"]:
        return None if old is None else _holder(old), None
    if request.get("cut_off"):
        _record_end(folder, {**_holder(old), "number": request.get("number") or old["number"]})
    os.unlink(_FILE, dir_fd=folder)
    os.fsync(folder)
    return None, None


def _record_end(folder: int, holder: answer_types.HolderAnswer) -> None:
    """Write a line of history for a run that will not write its own."""
    about = {key: holder[key] for key in ("who", "number", "since_s")}
    head_records.append(
        folder, {"schema": 1, "id": holder["run_id"], "noticed_s": time.time(), "cut_off": True, **about}
    )


def _look(folder: Path, request: ReadLeaseRequest, report: EventReporter) -> answer_types.HolderAnswer | None:
    """Return the active holder. Change nothing: neither make the folder nor lock."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        old = _load(fd, report)
    finally:
        os.close(fd)
    holder = None if old is None else _holder(old)
    return holder if holder and holder["silent_s"] < request["stale_s"] else None


def _load(folder: int, report: EventReporter) -> Json | None:
    """Return the lease as written; None if it is missing, or, with a warning, if it is unreadable."""
    try:
        fd = os.open(_FILE, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MOST_BYTES)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        document: Json = json.loads(data)
        _holder(document)
        return document
    report.warning(f"{head_records.FOLDER / _FILE} is damaged ({len(data)} bytes): hpcforge treats the lease as free")
    return None


def _save(folder: int, request: HoldLeaseRequest, old: Json | None) -> None:
    """Write the lease; a heartbeat keeps its start, and adds the run's number once it is known."""
    moment = {"boot_id": _boot_id(), "up_s": _up_s()}
    document = {
        "schema": _SCHEMA,
        "run_id": readable(request["run_id"], 100),
        "who": " ".join(readable(request["who"], 200).split()),
        "number": request.get("number") or (old["number"] if old else None),
        "process": request.get("process"),
        "nodes": [readable(name, 100) for name in request.get("nodes", [])],
        "since_s": old["since_s"] if old else time.time(),
        "began": old["began"] if old else moment,
        "beat": moment,
    }
    data = (json.dumps(document, indent=1) + "\n").encode("ascii")
    files.replace(folder, _FILE, data, files.Rights(os.geteuid(), os.getegid(), 0o600))


def _holder(document: Json) -> answer_types.HolderAnswer:
    """Return a lease as shown to others. Raises KeyError, TypeError or ValueError for an invalid one."""
    return {
        "run_id": str(document["run_id"]),
        "who": str(document["who"]),
        "number": document["number"],
        "process": document["process"],
        "since_s": float(document["since_s"]),
        "age_s": _passed_s(document["began"]),
        "silent_s": _passed_s(document["beat"]),
    }


def _passed_s(moment: Json) -> float:
    """Return the seconds since a moment; for one before this boot, the time since boot."""
    return max(0.0, _up_s() - float(moment["up_s"])) if moment["boot_id"] == _boot_id() else _up_s()


def _up_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
