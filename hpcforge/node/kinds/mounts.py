"""File systems that are mounted: a unit of systemd's each, see `hpcforge.node.unit_files`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import files, paths, unit_files
from hpcforge.node.events import Json, NodeError, Report
from hpcforge.node.kinds import BLOCK, Known, Need

if TYPE_CHECKING:
    from hpcforge.kinds.mounts import Mount

_WORD = re.compile(r"[^\s%]+")


def compare(wanted: Mount) -> Json | None:
    """Whether its unit is as wanted, and it is mounted."""
    path = wanted.path
    if unit_files.is_there(_texts(wanted), _unit(path)):
        return None
    return {"path": path, "exists": Path(path).is_mount()}


def obstacle(wanted: Mount, known: Known) -> str | None:
    """Something that is there already, and would be hidden."""
    path = wanted.path
    try:
        paths.split(path)
    except NodeError as error:
        return str(error)
    if not path.isprintable():
        return f"mount {path!r}: its path is one line"
    if not all(map(_WORD.fullmatch, (wanted.what, wanted.type, wanted.options))):
        return f"mount {path}: what, type and options are one word each, without %"
    ours = known is not None and (Path(unit_files.FOLDER) / _unit(path)).exists()
    if not ours and Path(path).is_mount():
        return f"something is mounted at {path} already; unmount it, and take it out of /etc/fstab"
    if not ours and os.path.lexists(path) and not (Path(path).is_dir() and not any(Path(path).iterdir())):
        return f"{path} is not an empty directory: what is there would be hidden; move it away"
    return unit_files.obstacle(_texts(wanted))


def put(wanted: Mount) -> str | None:
    """Write its unit, and mount it; systemd makes the directory."""
    return unit_files.put(_texts(wanted), _unit(wanted.path)) and "mounted"


def own(name: str, change: Mount | None, made: set[str]) -> Json:  # noqa: ARG001
    """The directories that are missing."""
    found = [] if os.path.lexists(name) else [name, *files.parents(name, made)]
    made |= set(found)
    return {"before": None, "made": found}


def put_back(name: str, known: Known, report: Report) -> str | None:  # noqa: ARG001
    """Unmounted. One that is in use stays, and the role fails with what systemd says."""
    return unit_files.put_back([_unit(name)], _unit(name)) and "unmounted"


def room(wanted: Mount) -> list[Need]:
    """Its unit, the link that enables it, and its directory."""
    return [Need(f"{unit_files.FOLDER}/x.mount", BLOCK, 2), Need(wanted.path.rpartition("/")[0] or "/", BLOCK, 1)]


def _unit(path: str) -> str:
    return f"{unit_files.escaped(path)}.mount"


def _texts(wanted: Mount) -> dict[str, str]:
    text = (
        f"[Unit]\nDescription={wanted.path.replace('%', '%%')}\n\n"
        f"[Mount]\nWhat={wanted.what}\nWhere={wanted.path.replace('%', '%%')}\nType={wanted.type}\n"
        f"Options={wanted.options}\n\n[Install]\nWantedBy=multi-user.target\n"
    )
    return {_unit(wanted.path): text}
