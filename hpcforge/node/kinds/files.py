"""Regular files, see `hpcforge.node.files` and `hpcforge.node.backups`.

The receipt has `{"digest": SHA-256 of the last written content, "before": BEFORE, "made": [directories made for it]}`,
and `"secret": true` if hpcforge ever wrote a secret into it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING

from hpcforge.node import backups, commands, files, paths, receipt
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, UNKNOWN, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.files import File, FileWithContent

_HOSTNAME = "/etc/hostname"
_HOSTNAME_S = 10


def compare(file: File) -> Json | None:
    """Return the difference of a file; /etc/hostname also has to match the kernel's name."""
    difference = files.compare_file(file)
    name = f"{os.uname().nodename}\n"
    if difference or file.path != _HOSTNAME or hashlib.sha256(name.encode()).hexdigest() == file.digest:
        return difference
    entry = files.look(_HOSTNAME)
    return entry and {
        "path": _HOSTNAME,
        "exists": True,
        "kind": "file",
        "digest": None,
        "text": name,
        **files.rights(entry),
    }


def obstacle(file: File, record: Json | None) -> str | None:
    """Return the obstacle: not a file, or too large to be kept before it is replaced for the first time."""
    path = file.path
    return files.obstacle(path, "file") or (backups.obstacle(path) if record is None else None)


def put(file: FileWithContent) -> str | None:
    """Write the received content. NodeError if it is not the planned one."""
    detail, content = files.put_file(file, _content(file)), _content(file)
    # systemd gives the kernel this name only at start, and daemons ask the kernel.
    if file.path == _HOSTNAME and content not in (None, f"{os.uname().nodename}\n".encode()):
        commands.succeed(["hostname", "-F", _HOSTNAME], _HOSTNAME_S)
        return detail or "the kernel's"
    return detail


def own(name: str, change: File | None, made: set[str]) -> Json | None:
    """Return the earlier entry, its content safely kept."""
    parents = files.parents(name, made)
    made |= set(parents)
    try:
        if change:
            before = backups.keep(name)
            return {"digest": (before or {}).get("kept"), "before": before, "made": parents}
        entry = files.look(name)
    except NodeError:
        return None  # not hpcforge's; `put` will fail with the reason
    if entry is None or entry.kind != "file":
        return None  # missing, and not to be put now: nothing to own yet
    return {"digest": entry.digest, "before": UNKNOWN, "made": []}


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Restore the old content, or delete the new file."""
    try:
        entry = files.look(name)
    except paths.UnsafeError as error:
        report.warning(f"{error}: left alone")
        return None
    edited = entry is not None and entry.digest not in (record["digest"], record.get("was"))
    try:
        if record["before"] != UNKNOWN:
            detail = backups.restore(name, record["before"])
            return f"{detail}; it was changed by hand before" if detail == "removed" and edited else detail
        if not edited:
            return backups.restore(name, None)
    except paths.UnsafeError as error:  # a user controls their own directory, but must not stop hpcforge there
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} was changed since hpcforge wrote it, and the earlier content is unknown: not touched")
    return None


def room(file: FileWithContent) -> list[SpaceNeed]:
    """Return the space for the new content beside the old, and for a backup of the old."""
    path, old = file.path, _size(file.path)
    size = len(file.content_base64 or "") * 3 // 4 + old
    return [SpaceNeed(path, size + BLOCK, 1), SpaceNeed(str(receipt.FOLDER), old, 1)]


def _content(file: FileWithContent) -> bytes | None:
    if file.content_base64 is None:
        return None
    data = base64.b64decode(file.content_base64, validate=True)
    if file.digest not in (None, hashlib.sha256(data).hexdigest()):
        raise NodeError(f"{file.path}: the received content differs from the plan (digest)")
    return data


def _size(path: str) -> int:
    """Return the bytes of a file for its backup; 0 if it is too large for one."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return 0
    return size if size <= files.SIZE_LIMIT else 0
