"""Symbolic links, put and put back as files are: see `hpcforge.node.backups`.

The receipt has `{"before": what was there, "made": [directories made for it]}`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import backups, files, paths
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, UNKNOWN, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.links import Link


def compare(wanted: Link) -> Json | None:
    """Return the present entry, and the target of a link."""
    path = wanted.path
    try:
        entry = files.look(path, limit=0)
    except paths.UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "target": None}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "target": None}
    if entry.target == wanted.target:
        return None
    return {"path": path, "exists": True, "kind": entry.kind, "target": entry.target}


def obstacle(wanted: Link, known: Json | None) -> str | None:
    """Return the obstacle: a directory, a device, or a file that is too large to be kept."""
    path = wanted.path
    try:
        paths.split(path)
        entry = files.look(path, limit=0)
    except NodeError as error:
        return str(error)
    if entry is not None and entry.kind not in ("file", "symlink"):
        return f"{path} is neither a file nor a symbolic link, and a role puts a link there; move it away"
    if known is None and entry is not None and entry.kind == "file" and entry.digest is None:
        return f"{path} is larger than {files.SIZE_LIMIT} bytes, too large for a backup; move it away"
    return None


def put(wanted: Link) -> str | None:
    """Lead there; what was at the path stays until the link is."""
    entry = files.look(wanted.path, limit=0)
    if entry is not None and entry.target == wanted.target:
        return None
    done = backups.restore(wanted.path, {"link": wanted.target, "owner": "root", "group": "root"})
    return None if done is None else "created" if entry is None else f"-> {wanted.target}"


def own(name: str, change: Link | None, made: set[str]) -> Json | None:
    """Return the earlier entry, a file's content safely kept."""
    parents = files.parents(name, made)
    if change is None:
        return {"before": UNKNOWN, "made": []} if Path(name).is_symlink() else None
    made |= set(parents)
    try:
        return {"before": backups.keep(name), "made": parents}
    except NodeError:
        return None  # nothing that could be replaced; putting it says so


def restore(name: str, known: Json, report: EventReporter) -> str | None:
    """Restore the earlier entry; if it is not known, only remove the link."""
    before = None if known["before"] == UNKNOWN else known["before"]
    try:
        entry = files.look(name, limit=0)
        if entry is None or entry.kind == "symlink":
            return backups.restore(name, before)
    except paths.UnsafeError as error:  # as of files: a user is in the way, in a folder of their own
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} is now a {entry.kind} instead of a symbolic link: not touched")
    return None


def room(wanted: Link) -> list[SpaceNeed]:
    """Itself, and one directory on the way to it."""
    return [SpaceNeed(wanted.path, BLOCK, 2)]
