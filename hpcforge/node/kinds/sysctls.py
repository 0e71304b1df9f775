"""Parameters of the kernel: written to /proc/sys, and to a file of their own that systemd-sysctl reads at every start.

The files sort after all that others usually put there, since the last word counts. The receipt has `{"before": VALUE}`,
what it was until then, or null.
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


def compare(wanted: Sysctl) -> Json | None:
    """Its value, and whether a restart keeps it."""
    name, value = wanted.name, _plain(wanted.value)
    live, kept = _live(name), files.read_text(_path(name)) == _text(name, value)
    if live == value and kept:
        return None
    return {"name": name, "exists": live is not None, "value": live, "kept": kept}


def obstacle(wanted: Sysctl, known: Json | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. Whether the kernel has it may depend on packages that come later."""
    if _NAME.fullmatch(wanted.name):
        return None
    return f"{wanted.name!r} is not the name of a kernel parameter, such as net.ipv4.ip_forward"


def put(wanted: Sysctl) -> str | None:
    """Set it and see that it is set, then write it down."""
    name, value = wanted.name, _plain(wanted.value)
    old = _live(name)
    if old is None:
        raise NodeError(f"the kernel of this node has no parameter {name}; is its module loaded?")
    if old != value:
        _set(name, value)
    kept = files.put_text(_path(name), _text(name, value))
    return f"{old} -> {value}" if old != value else "kept over restarts" if kept else None


def own(name: str, change: Sysctl | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return the earlier value; it is unknown if the present one is as desired already."""
    return {"before": _live(name) if change else None}


def restore(name: str, known: Json, report: EventReporter) -> str | None:
    """Restore the earlier value, unless another program has set one since; and empty hpcforge's file."""
    text = files.read_text(_path(name))
    before, live = known["before"], _live(name)
    gone = backups.restore(_path(name), None)
    if live is None or live == before or text is None:
        return gone
    if before is None or text != _text(name, live):
        why = "its value before hpcforge is unknown" if before is None else "it was changed by hand since"
        report.warning(f"{name} stays {live} until the node restarts: {why}")
        return gone
    _set(name, before)
    return f"{live} -> {before}"


def room(wanted: Sysctl) -> list[SpaceNeed]:
    """Its file."""
    return [SpaceNeed(_path(wanted.name), BLOCK, 1)]


def _set(name: str, value: str) -> None:
    try:
        _live_path(name).write_text(value + "\n")
    except OSError as error:
        raise NodeError(f"the kernel rejects {value!r} for {name}: {error.strerror}") from None
    now = _live(name)
    if now != value:
        raise NodeError(f"the kernel changed {name} from {value!r} to {now!r}; use {now!r} in the role")


def _live(name: str) -> str | None:
    try:
        return _plain(_live_path(name).read_text())
    except OSError:
        return None


def _live_path(name: str) -> Path:
    """As sysctl(8): whichever of . and / comes first separates, the other one is part of a name."""
    first = re.search(r"[./]", name)
    dots = first is None or first[0] == "."
    return LIVE / (name.translate(str.maketrans("./", "/.")) if dots else name)


def _path(name: str) -> str:
    return f"{FOLDER}/zz-hpcforge-{name.replace('/', '_')}.conf"


def _text(name: str, value: str) -> str:
    return f"{name} = {value}\n"


def _plain(value: str) -> str:
    """Several numbers are told apart by tabs, and given by blanks."""
    return " ".join(value.split())
