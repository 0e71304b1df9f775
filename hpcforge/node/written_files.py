"""Files that a kind of resource needs, at a path that follows from the resource's name.

The receipt has `{"before": the earlier entry at the path}`, see `hpcforge.node.backups`.
"""

from __future__ import annotations

import hashlib

from hpcforge.node import backups, files
from hpcforge.node.events import Json, NodeError
from hpcforge.node.kinds import UNKNOWN

_ROOTS = (0, 0, 0o644)


def compare(name: str, path: str, text: str) -> Json | None:
    """Return the present state of the resource of a file, if the file is not as desired."""
    return None if is_there(path, text) else {"name": name, "exists": exists(path)}


def is_there(path: str, text: str) -> bool:
    """Return whether a file is root's, has this text, and is readable for all."""
    try:
        entry = files.look(path)
    except NodeError:
        return False
    digest = hashlib.sha256(text.encode()).hexdigest()
    return entry is not None and entry.kind == "file" and (entry.digest, entry.rights) == (digest, _ROOTS)


def exists(path: str) -> bool:
    """Return whether the path has an entry."""
    try:
        return files.look(path, limit=0) is not None
    except NodeError:
        return True


def obstacle(path: str) -> str | None:
    """Return the obstacle: an entry that cannot be kept."""
    try:
        entry = files.look(path, limit=0)
    except NodeError as error:
        return str(error)
    if entry is None or entry.kind in ("file", "symlink"):
        return None
    return f"{path} is neither a file nor a symbolic link, and a role puts a file there; move it away"


def own(path: str, change: object | None) -> Json | None:
    """Return the entry before the first change; unknown if it is as desired when it is first observed."""
    if change is None:
        return {"before": UNKNOWN}
    try:
        return {"before": backups.keep(path)}
    except NodeError:
        return None


def restore(path: str, record: Json) -> str | None:
    """Restore the earlier entry."""
    return backups.restore(path, None if record["before"] == UNKNOWN else record["before"])
