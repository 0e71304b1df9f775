"""Regular files, see `hpcforge.node.files` and `hpcforge.node.backups`.

The receipt has `{"digest": SHA-256 of what we last wrote, "before": BEFORE, "made": [directories made for it]}`, and
`"secret": true` where there was ever a secret in what we wrote.
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


def compare(wanted: File) -> Json | None:
    """As that of files; the name that the kernel has belongs to /etc/hostname."""
    found = files.compare_file(wanted)
    name = f"{os.uname().nodename}\n"
    if found or wanted.path != _HOSTNAME or hashlib.sha256(name.encode()).hexdigest() == wanted.digest:
        return found
    entry = files.look(_HOSTNAME)
    return entry and {
        "path": _HOSTNAME,
        "exists": True,
        "kind": "file",
        "digest": None,
        "text": name,
        **files.rights(entry),
    }


def obstacle(wanted: File, known: Json | None) -> str | None:
    """Return the obstacle: not a file, or too large to be kept before it is replaced for the first time."""
    path = wanted.path
    return files.obstacle(path, "file") or (backups.obstacle(path) if known is None else None)


def put(wanted: FileWithContent) -> str | None:
    """With the content that was sent. NodeError where that is not the one that was planned."""
    detail, content = files.put_file(wanted, _content(wanted)), _content(wanted)
    # The kernel reads it when the machine starts, and daemons ask the kernel.
    if wanted.path == _HOSTNAME and content not in (None, f"{os.uname().nodename}\n".encode()):
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
        found = files.look(name)
    except NodeError:
        return None  # what cannot be ours; putting it will fail and say why
    if found is None or found.kind != "file":
        return None  # wanted, not there, and not to be put now: nothing of ours yet
    return {"digest": found.digest, "before": UNKNOWN, "made": []}


def restore(name: str, known: Json, report: EventReporter) -> str | None:
    """Restore the old content, or delete the new file."""
    try:
        found = files.look(name)
    except paths.UnsafeError as error:
        report.warning(f"{error}: left alone")
        return None
    edited = found is not None and found.digest not in (known["digest"], known.get("was"))
    try:
        if known["before"] != UNKNOWN:
            detail = backups.restore(name, known["before"])
            return f"{detail}; it was changed by hand before" if detail == "removed" and edited else detail
        if not edited:
            return backups.restore(name, None)
    except paths.UnsafeError as error:  # somebody may do as they like in their own directory, but not hold us up there
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} was changed since hpcforge wrote it, and the earlier content is unknown: not touched")
    return None


def room(wanted: FileWithContent) -> list[SpaceNeed]:
    """Twice: the new content beside the old, which may have to be kept."""
    path, old = wanted.path, _size(wanted.path)
    size = len(wanted.content_base64 or "") * 3 // 4 + old
    return [SpaceNeed(path, size + BLOCK, 1), SpaceNeed(str(receipt.FOLDER), old, 1)]


def _content(wanted: FileWithContent) -> bytes | None:
    if wanted.content_base64 is None:
        return None
    data = base64.b64decode(wanted.content_base64, validate=True)
    if wanted.digest not in (None, hashlib.sha256(data).hexdigest()):
        raise NodeError(f"{wanted.path}: the received content differs from the plan (digest)")
    return data


def _size(path: str) -> int:
    """Bytes of a file that may have to be kept; what is too large for that is not."""
    try:
        size = os.lstat(path).st_size
    except OSError:
        return 0
    return size if size <= files.SIZE_LIMIT else 0
