"""Symbolic links, put and restored like files: see `hpcforge.node.backups`.

The receipt has `{"before": the earlier entry, "made": [directories made for it]}`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import backups, files, paths
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, UNKNOWN, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.links import Link


def compare(link: Link) -> Json | None:
    """Return the present entry, and the target of a link."""
    path = link.path
    try:
        entry = files.look(path, limit=0)
    except paths.UnsafeError:
        return {"path": path, "exists": True, "kind": "unsafe", "target": None}
    if entry is None:
        return {"path": path, "exists": False, "kind": None, "target": None}
    if entry.target == link.target:
        return None
    return {"path": path, "exists": True, "kind": entry.kind, "target": entry.target}


def obstacle(link: Link, record: Json | None) -> str | None:
    """Return the obstacle: a directory, a device, or a file that is too large to be kept."""
    path = link.path
    try:
        paths.split(path)
        entry = files.look(path, limit=0)
    except NodeError as error:
        return str(error)
    if entry is not None and entry.kind not in ("file", "symlink"):
        return f"{path} is neither a file nor a symbolic link, and a role puts a link there; move it away"
    if record is None and entry is not None and entry.kind == "file" and entry.digest is None:
        return f"{path} is larger than {files.SIZE_LIMIT} bytes, too large for a backup; move it away"
    return None


def put(link: Link) -> str | None:
    """Create the link; the old entry stays until the link is ready."""
    entry = files.look(link.path, limit=0)
    if entry is not None and entry.target == link.target:
        return None
    detail = backups.restore(link.path, {"link": link.target, "owner": "root", "group": "root"})
    return None if detail is None else "created" if entry is None else f"-> {link.target}"


def own(name: str, change: Link | None, made: set[str]) -> Json | None:
    """Return the earlier entry, a file's content safely kept."""
    parents = files.parents(name, made)
    if change is None:
        return {"before": UNKNOWN, "made": []} if Path(name).is_symlink() else None
    made |= set(parents)
    try:
        return {"before": backups.keep(name), "made": parents}
    except NodeError:
        return None  # it cannot be replaced; `put` will fail with the reason


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Restore the earlier entry; if it is not known, only remove the link."""
    before = None if record["before"] == UNKNOWN else record["before"]
    try:
        entry = files.look(name, limit=0)
        if entry is None or entry.kind == "symlink":
            return backups.restore(name, before)
    except paths.UnsafeError as error:  # a user changed a folder of their own
        report.warning(f"{error}: left alone")
        return None
    report.warning(f"{name} is now a {entry.kind} instead of a symbolic link: not touched")
    return None


def room(link: Link) -> list[SpaceNeed]:
    """Return the space for itself and one parent."""
    return [SpaceNeed(link.path, BLOCK, 2)]
