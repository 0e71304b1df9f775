"""File systems that are mounted: a unit of systemd's each, see `hpcforge.node.unit_files`.

One whose server may be away has a timer beside it, which mounts it when the node starts, and tries again whenever it is
not mounted. By itself systemd has logins and the end of a start wait for a mount, and tries once; here nothing waits
but what says so.

Nothing looks at the place itself where it may be mounted: whoever does waits for a server that is away.

Where a program on the node serves it (FUSE), the timer's work is a service: a program that was killed leaves its mount,
at which the kernel says that nobody is connected. So may one that a try to mount left behind: to systemd it is mounted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node import commands, files, paths, unit_files, units
from hpcforge.node.events import EventReporter, Json, NodeError, readable
from hpcforge.node.kinds import BLOCK, Known, SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.mounts import Mount

_WORD = re.compile(r"[^\s%]+")
# What the service does with the mount's unit and its place. Nobody is at the other end of a mount where the kernel says
# so, and no process of the unit's is left: one that lives says it, too, while its server is away, and connects again.
# (`_`: where a unit is called as a controller of cgroups is. Below /user.slice users give cgroups any name.)
_AGAIN = (
    """if systemctl -q is-active -- "$$1" """
    """&& ! grep -hsF -e "/$$1" -e "/_$$1" /proc/[0-9]*/cgroup | grep -qvF /user.slice/"""
    """ && LC_ALL=C timeout -s KILL 10 stat -- "$$2" 2>&1 | grep -q "endpoint is not connected";"""
    """ then umount -l -- "$$2"; fi; exec systemctl start --no-block -- "$$1\""""
)
FSTAB = "/etc/fstab"
_ESCAPE = re.compile(r"\\([0-7]{3})")  # of blanks, in the kernel's list and in /etc/fstab
_JOB_S = 300  # that an apply waits for one try, which goes on after that where `try_s` is longer


class MountPoint(NamedTuple):
    """What is mounted at a path: which path of its file system, and the options of the whole file system."""

    path: str
    root: str
    of_disk: str


class LineOfFstab(NamedTuple):
    """A line of /etc/fstab, counted from 1."""

    number: int
    options: str


def compare(wanted: Mount) -> Json | None:
    """Whether its units are as wanted, and it is mounted."""
    path = wanted.path
    texts, found = _texts(wanted), units.query([_unit(path), _first(wanted)])
    if unit_files.is_there(texts, _first(wanted)) and not _left_over(path, texts) and found[_unit(path)].runs:
        return None
    return {"path": path, "exists": found[_unit(path)].runs, **_was(path)}


def _left_over(path: str, texts: Mapping[str, str]) -> list[str]:
    """Units of an earlier wish that are there."""
    return [unit for unit in (_timer(path), _service(path)) if unit not in texts and unit_files.any_there({unit: ""})]


def _was(path: str) -> Json:
    """Return the mount that hpcforge's unit has had until now; nothing without a unit, or with a damaged one."""
    text = files.read_text(f"{unit_files.FOLDER}/{_unit(path)}") or ""
    lines = dict(line.partition("=")[::2] for line in text.splitlines())
    said = {word: lines.get(word.title(), "") for word in ("what", "type", "options")}
    right = all(_WORD.fullmatch(value) and value.isprintable() for value in said.values())
    return said if right and text.startswith(unit_files.MARK) else {}


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
        return f"another file system is mounted at {path}; unmount it, and remove it from /etc/fstab"
    if not ours and os.path.lexists(path) and not (Path(path).is_dir() and not any(Path(path).iterdir())):
        return f"{path} is not an empty directory: a mount would hide its content; move it away"
    return unit_files.obstacle(_texts(wanted))


def put(wanted: Mount) -> str | None:
    """Write its units, and mount it; systemd makes the directory. Raises `NodeError` where its server is away."""
    path, did = wanted.path, []
    ran = units.query([_unit(path)])[_unit(path)].runs
    texts = _texts(wanted)
    did += [unit_files.restore([unit], unit) for unit in _left_over(path, texts)]
    did.append(unit_files.put(texts, _first(wanted)))
    if wanted.retry_s and (did[-1] or not ran):
        _mount(_unit(path), "restart" if ran else "start")  # the timer may be at it: a start waits for that
        did.append("mounted")
    return "mounted" if any(did) else None


def _mount(unit: str, verb: str) -> None:
    outcome = commands.run(["systemctl", verb, "--", unit], _JOB_S)
    if outcome.rc != 0:
        raise NodeError(f"`systemctl {verb} {unit}`: {readable(outcome.stderr, 500)}\n{units.why(unit)}")


def own(name: str, change: Mount | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return the directories that are missing."""
    found = [] if os.path.lexists(name) else [name, *files.parents(name, made)]
    made |= set(found)
    return {"before": None, "made": found}


def restore(name: str, known: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Unmounted. One that is in use stays, and the role fails with what systemd says."""
    did = [unit_files.restore([unit], unit) for unit in (_timer(name), _service(name), _unit(name))]
    return "unmounted" if any(did) else None


def room(wanted: Mount) -> list[SpaceNeed]:
    """Its units, the link that enables one, and its directory."""
    return [
        SpaceNeed(f"{unit_files.FOLDER}/x.mount", 3 * BLOCK, 4),
        SpaceNeed(wanted.path.rpartition("/")[0] or "/", BLOCK, 1),
    ]


def _unit(path: str) -> str:
    return f"{unit_files.escaped(path)}.mount"


def _timer(path: str) -> str:
    return f"{unit_files.escaped(path)}.timer"


def _service(path: str) -> str:
    """Of a name that is nobody else's: there is a service `docker`, and may be a mount at /docker."""
    return f"hpcforge-mount@{unit_files.escaped(path)}.service"


def _first(wanted: Mount) -> str:
    """Return the unit that is enabled: it starts the others."""
    return _timer(wanted.path) if wanted.retry_s else _unit(wanted.path)


def is_mounted(path: str) -> bool:
    """Whether the kernel's list has something there."""
    return any(point.path == path for point in points())


def points() -> list[MountPoint]:
    """Return the kernel's list of mounts, see proc_pid_mountinfo(5); of several at a place the last one shows."""
    found = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        words = os.fsdecode(line).split(" ")
        found.append(MountPoint(_plain(words[4]), _plain(words[3]), words[-1]))
    return found


def mount_of(path: str) -> MountPoint:
    """Return the mount that a path is on."""
    real = os.path.realpath(path)
    above = [point for point in points() if f"{real}/".startswith(f"{point.path.rstrip('/')}/")]
    return max(reversed(above), key=lambda point: len(point.path), default=MountPoint("/", "/", ""))


def line_of_fstab(path: str) -> LineOfFstab | None:
    """Return the line of /etc/fstab that mounts something at a path."""
    for number, line in enumerate((files.read_text(FSTAB) or "").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if len(words) >= 4 and _plain(words[1]) == path:
            return LineOfFstab(number, words[3])
    return None


def with_option(point: str, old: str, new: str, bind: bool = False) -> tuple[str, ...]:
    """Return the commands that give a mount an option for another, now and in /etc/fstab."""
    words = f"remount,{'bind,' if bind else ''}{new}"
    line = line_of_fstab(point)
    if not line or old not in line.options.split(","):
        return (f"mount -o {words} {shlex.quote(point)}",)
    edit = rf"sed -i '{line.number}s/\([[:space:],]\){old}\([[:space:],]\)/\1{new}\2/' {FSTAB}"
    return (edit, f"mount -o {words} {shlex.quote(point)}")  # mount(8) merges what is written there


def _plain(word: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), word)


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
    begins = _service(wanted.path) if wanted.fuse else _unit(wanted.path)
    timer = (
        f"[Unit]\nDescription={where}\n\n"
        f"[Timer]\nOnActiveSec=0\nOnUnitInactiveSec={retry_s}\nAccuracySec=1\nUnit={begins}\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    service = (
        f"[Unit]\nDescription={where}, also where its program has ended\n\n"
        # Else the journal would have two lines each time.
        f"[Service]\nType=oneshot\nLogLevelMax=notice\nExecStart=/bin/sh -c '{_AGAIN}' sh %i.mount %f\n"
    )
    texts = {_unit(wanted.path): f"{mount}TimeoutSec={try_s}\n", _timer(wanted.path): timer}
    return texts | {begins: service} if wanted.fuse else texts
