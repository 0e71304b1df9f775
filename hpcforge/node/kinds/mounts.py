"""File systems that are mounted: a unit of systemd's each, see `hpcforge.node.unit_files`.

One whose server may be away has a timer beside it, which mounts it when the node starts, and tries again whenever it is
not mounted. By itself systemd has logins and the end of a start wait for a mount, and tries once; here nothing waits
but what says so.

Nothing looks at the place itself where it may be mounted: whoever does waits for a server that is away.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands, files, paths, unit_files, units
from hpcforge.node.events import Json, NodeError, Report, readable
from hpcforge.node.kinds import BLOCK, Known, Need

if TYPE_CHECKING:
    from hpcforge.kinds.mounts import Mount

_WORD = re.compile(r"[^\s%]+")
_JOB_S = 300  # that an apply waits for one try, which goes on after that where `try_s` is longer


def compare(wanted: Mount) -> Json | None:
    """Whether its units are as wanted, and it is mounted."""
    path = wanted.path
    texts, found = _texts(wanted), units.query([_unit(path), _first(wanted)])
    right = unit_files.is_there(texts, _first(wanted)) and (wanted.retry_s > 0) == unit_files.any_there(
        {_timer(path): ""}
    )
    if right and found[_unit(path)].runs:
        return None
    return {"path": path, "exists": found[_unit(path)].runs}


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
    if not ours and is_mounted(path):
        return f"something is mounted at {path} already; unmount it, and take it out of /etc/fstab"
    if not ours and os.path.lexists(path) and not (Path(path).is_dir() and not any(Path(path).iterdir())):
        return f"{path} is not an empty directory: what is there would be hidden; move it away"
    return unit_files.obstacle(_texts(wanted))


def put(wanted: Mount) -> str | None:
    """Write its units, and mount it; systemd makes the directory. Raises `NodeError` where its server is away."""
    path, did = wanted.path, []
    ran = units.query([_unit(path)])[_unit(path)].runs
    if not wanted.retry_s and unit_files.any_there({_timer(path): ""}):
        did.append(unit_files.put_back([_timer(path)], _timer(path)))
    did.append(unit_files.put(_texts(wanted), _first(wanted)))
    if wanted.retry_s and (did[-1] or not ran):
        _mount(_unit(path), "restart" if ran else "start")  # the timer may be at it: a start waits for that
        did.append("mounted")
    return "mounted" if any(did) else None


def _mount(unit: str, verb: str) -> None:
    outcome = commands.run(["systemctl", verb, "--", unit], _JOB_S)
    if outcome.rc != 0:
        raise NodeError(f"`systemctl {verb} {unit}`: {readable(outcome.stderr, 500)}\n{units.why(unit)}")


def own(name: str, change: Mount | None, made: set[str]) -> Json:  # noqa: ARG001
    """The directories that are missing."""
    found = [] if os.path.lexists(name) else [name, *files.parents(name, made)]
    made |= set(found)
    return {"before": None, "made": found}


def put_back(name: str, known: Known, report: Report) -> str | None:  # noqa: ARG001
    """Unmounted. One that is in use stays, and the role fails with what systemd says."""
    timer = unit_files.put_back([_timer(name)], _timer(name))
    return (unit_files.put_back([_unit(name)], _unit(name)) or timer) and "unmounted"


def room(wanted: Mount) -> list[Need]:
    """Its units, the link that enables one, and its directory."""
    return [Need(f"{unit_files.FOLDER}/x.mount", 2 * BLOCK, 3), Need(wanted.path.rpartition("/")[0] or "/", BLOCK, 1)]


def _unit(path: str) -> str:
    return f"{unit_files.escaped(path)}.mount"


def _timer(path: str) -> str:
    return f"{unit_files.escaped(path)}.timer"


def _first(wanted: Mount) -> str:
    """The unit that is enabled: it begins the rest."""
    return _timer(wanted.path) if wanted.retry_s else _unit(wanted.path)


def is_mounted(path: str) -> bool:
    """Whether the kernel's list has something there."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return os.fsencode(path) in (line.split(b" ")[4].replace(rb"\040", b" ") for line in lines)


def _texts(wanted: Mount) -> dict[str, str]:
    where, retry_s = wanted.path.replace("%", "%%"), wanted.retry_s
    try_s = max(retry_s, wanted.try_s)
    # Without what systemd adds by default, which is what makes the start and logins wait.
    unit = (
        "DefaultDependencies=no\nWants=network-online.target\nAfter=network-online.target local-fs.target\n"
        "Conflicts=umount.target\nBefore=umount.target\n"
    )
    mount = (
        f"[Unit]\nDescription={where}\n{unit if retry_s else ''}\n"
        f"[Mount]\nWhat={wanted.what}\nWhere={where}\nType={wanted.type}\nOptions={wanted.options}\n"
    )
    if not retry_s:
        return {_unit(wanted.path): f"{mount}\n[Install]\nWantedBy=multi-user.target\n"}
    timer = (
        f"[Unit]\nDescription={where}\n\n"
        f"[Timer]\nOnActiveSec=0\nOnUnitInactiveSec={retry_s}\nAccuracySec=1\nUnit={_unit(wanted.path)}\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    return {_unit(wanted.path): f"{mount}TimeoutSec={try_s}\n", _timer(wanted.path): timer}
