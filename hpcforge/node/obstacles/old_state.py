"""State of another cluster that a role would use as its own: Slurm's state, a slurm.conf with precedence over the
controller's.

`apply --take-over` renames it under the node's lock: the new name has the cluster and the time. It deletes nothing, and
never touches state with this cluster's name. A killed run leaves the old name or the new one; the next continues.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands, paths
from hpcforge.node.events import EventReporter, NodeError
from hpcforge.node.inspection import Conflict, Inspection

if TYPE_CHECKING:
    from hpcforge.node.requests import OldStateRequest, WorkRequest

KIND = "old state"
_MOST = 1 << 20  # bytes of a file that are read
_STOP_S = 120
_IN_CONF = re.compile(r"^[ \t]*ClusterName[ \t]*=[ \t]*([^\s#]+)", re.IGNORECASE | re.MULTILINE)
_IN_STATE = re.compile(r"[^\s|\0]+")  # NAME, since Slurm 24.11 NAME|NUMBER
_NAMELESS = "a cluster without a name"


def search(inspection: Inspection) -> Iterator[Conflict]:
    """Yield each state of another cluster that a role would use."""
    for role in inspection.all_roles:
        for item in role.get("old_state", ()):
            name = _other_cluster(item)
            if name is not None:
                reason = f"it is of {name}, not of {item['cluster']}: {item['why']}; `apply --take-over` renames it"
                yield Conflict(role["role"], KIND, item["path"], reason, tuple(_by_hand(item, name)))


def keep_aside(work: Sequence[WorkRequest], report: EventReporter) -> None:
    """Rename the state of another cluster; an empty folder replaces a renamed folder."""
    for role in work:
        for item in role.get("old_state", ()):
            name = _other_cluster(item)
            if name is None:
                continue
            if item["unit"] and commands.run(["systemctl", "stop", item["unit"]], _STOP_S).timed_out:
                raise NodeError(f"{item['unit']} did not stop within {_STOP_S} s: {item['path']} stays as it is")
            # The file that names the cluster is the last: after an interruption the next run renames the rest.
            for path in (*item["beside"], item["path"]):
                new_path = _rename(path, name)
                if new_path:
                    report.changed(role["role"], KIND, path, f"of {name}: kept as {new_path}")


def _other_cluster(item: OldStateRequest) -> str | None:
    """Return the cluster that left the state; None without state, or for this cluster."""
    file = Path(item["path"], item["name_in"])
    try:
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            text = opened.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return None
    match = _IN_STATE.match(text.lstrip()) if item["name_in"] else _IN_CONF.search(text)
    if match is None:
        return None if item["name_in"] else _NAMELESS
    name = match[match.lastindex or 0]
    return None if name.lower() == item["cluster"].lower() else f"cluster {name[:64]!r}"


def _by_hand(item: OldStateRequest, name: str) -> Iterator[str]:
    if item["unit"]:
        yield f"systemctl stop {shlex.quote(item['unit'].replace('.service', '*.service'))}"
    for path in (*item["beside"], item["path"]):
        if os.path.lexists(path):
            yield f"mv -nT {shlex.quote(path)} {shlex.quote(_aside(path, name))}"


def _aside(path: str, name: str, when: str = "") -> str:
    word = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")
    return f"{path}.{word}{when}"


def _rename(path: str, name: str) -> str | None:
    """Rename a file or folder to a name with the cluster and the time; return that path, None if it is missing."""
    parent, old = paths.split(path)
    if not os.path.lexists(path):
        return None
    new_path = _aside(path, name, time.strftime("-%Y%m%d-%H%M%S"))
    new = paths.split(new_path)[1]
    if os.path.lexists(new_path):
        raise NodeError(f"{new_path} is there already: rename {path} by hand")
    folder = paths.open_directory(parent)
    try:
        status = os.stat(old, dir_fd=folder, follow_symlinks=False)
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
        if stat.S_ISDIR(status.st_mode):
            os.mkdir(old, stat.S_IMODE(status.st_mode), dir_fd=folder)
            os.chown(old, status.st_uid, status.st_gid, dir_fd=folder, follow_symlinks=False)
        os.fsync(folder)
    except OSError as error:
        raise NodeError(
            f"{path} of {name} cannot be renamed to {new_path}: {error.strerror}; move it by hand"
        ) from error
    finally:
        os.close(folder)
    return new_path
