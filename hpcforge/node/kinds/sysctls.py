"""Parameters of the kernel: written to /proc/sys, and to a file of their own that systemd-sysctl reads at every start.

The files sort after the usual ones, since the last setting wins. The receipt has `{"before": VALUE}`, the earlier
value, or null.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import backups, files
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import BLOCK, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.sysctls import Sysctl

FOLDER = "/etc/sysctl.d"
LIVE = Path("/proc/sys")
_NAME = re.compile(r"\w[\w-]*([./][\w:@-]+)+")


def compare(sysctl: Sysctl) -> Json | None:
    """Return the value, and whether a restart keeps it, if one differs."""
    name, value = sysctl.name, _plain(sysctl.value)
    live, persistent = _live(name), files.read_text(_path(name)) == _text(name, value)
    if live == value and persistent:
        return None
    return {"name": name, "exists": live is not None, "value": live, "kept": persistent}


def obstacle(sysctl: Sysctl, record: Json | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. Whether the kernel has it may depend on packages that come later."""
    if _NAME.fullmatch(sysctl.name):
        return None
    return f"{sysctl.name!r} is not the name of a kernel parameter, such as net.ipv4.ip_forward"


def put(sysctl: Sysctl) -> str | None:
    """Set it, check that it is set, then write its file."""
    name, value = sysctl.name, _plain(sysctl.value)
    old = _live(name)
    if old is None:
        raise NodeError(f"the kernel of this node has no parameter {name}; is its module loaded?")
    if old != value:
        _set(name, value)
    written = files.put_text(_path(name), _text(name, value))
    return f"{old} -> {value}" if old != value else "kept over restarts" if written else None


def own(name: str, change: Sysctl | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return the earlier value; it is unknown if the present one is as desired already."""
    return {"before": _live(name) if change else None}


def restore(name: str, record: Json, report: EventReporter) -> str | None:
    """Restore the earlier value, unless another program has set one since; and empty hpcforge's file."""
    text = files.read_text(_path(name))
    before, live = record["before"], _live(name)
    removed = backups.restore(_path(name), None)
    if live is None or live == before or text is None:
        return removed
    if before is None or text != _text(name, live):
        reason = "its value before hpcforge is unknown" if before is None else "it was changed by hand since"
        report.warning(f"{name} stays {live} until the node restarts: {reason}")
        return removed
    _set(name, before)
    return f"{live} -> {before}"


def room(sysctl: Sysctl) -> list[SpaceNeed]:
    """Return the space for its file."""
    return [SpaceNeed(_path(sysctl.name), BLOCK, 1)]


def _set(name: str, value: str) -> None:
    try:
        _live_path(name).write_text(value + "\n")
    except OSError as error:
        raise NodeError(f"the kernel rejects {value!r} for {name}: {error.strerror}") from None
    present = _live(name)
    if present != value:
        raise NodeError(f"the kernel changed {name} from {value!r} to {present!r}; use {present!r} in the role")


def _live(name: str) -> str | None:
    try:
        return _plain(_live_path(name).read_text())
    except OSError:
        return None


def _live_path(name: str) -> Path:
    """Return the path of a parameter. As in sysctl(8), the first of . and / separates; the other is part of a name."""
    first = re.search(r"[./]", name)
    dots = first is None or first[0] == "."
    return LIVE / (name.translate(str.maketrans("./", "/.")) if dots else name)


def _path(name: str) -> str:
    return f"{FOLDER}/zz-hpcforge-{name.replace('/', '_')}.conf"


def _text(name: str, value: str) -> str:
    return f"{name} = {value}\n"


def _plain(value: str) -> str:
    """Return a value with single blanks: the kernel separates several numbers by tabs."""
    return " ".join(value.split())
