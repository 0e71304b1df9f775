"""Mounted file systems: each is a systemd unit, see `hpcforge.node.unit_files`.

A file system whose server may be down has a timer, too. It mounts the file system when the node starts, and tries again
while it is not mounted. Without the timer systemd tries once, and logins and the end of the start wait for the mount;
with it only units that require the mount wait.

hpcforge does not access a path that may be mounted: the access would wait for a server that is down.

If a program on the node serves the file system (FUSE), the timer starts a service instead. A killed program leaves its
mount, and the kernel reports it as not connected. A failed try to mount may leave one, too: systemd sees it as mounted.
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
# The service's commands; their arguments are the mount's unit and its path. A mount has lost its program if the kernel
# reports it as not connected and the unit has no process: a live program reports the same while its server is down, and
# connects again. (`_`: if a unit has the name of a cgroup controller. Below /user.slice users give cgroups any name.)
_AGAIN = (
    """if systemctl -q is-active -- "$$1" """
    """&& ! grep -hsF -e "/$$1" -e "/_$$1" /proc/[0-9]*/cgroup | grep -qvF /user.slice/"""
    """ && LC_ALL=C timeout -s KILL 10 stat -- "$$2" 2>&1 | grep -q "endpoint is not connected";"""
    """ then umount -l -- "$$2"; fi; exec systemctl start --no-block -- "$$1\""""
)
FSTAB = "/etc/fstab"
_ESCAPE = re.compile(r"\\([0-7]{3})")  # the escape of blanks in the kernel's list and in /etc/fstab
_JOB_S = 300  # limit of an apply for one try, which continues after it if `try_s` is longer


class MountPoint(NamedTuple):
    """A mount: its path, the mounted path of its file system (root), and the options of the whole file system."""

    path: str
    root: str
    of_disk: str


class LineOfFstab(NamedTuple):
    """A line of /etc/fstab, counted from 1."""

    number: int
    options: str


def compare(mount: Mount) -> Json | None:
    """Return its state, if its units differ or it is not mounted."""
    path = mount.path
    texts, states = _texts(mount), units.query([_unit(path), _first(mount)])
    if unit_files.is_there(texts, _first(mount)) and not _obsolete_units(path, texts) and states[_unit(path)].runs:
        return None
    return {"path": path, "exists": states[_unit(path)].runs, **_earlier_mount(path)}


def _obsolete_units(path: str, texts: Mapping[str, str]) -> list[str]:
    """Return the existing units that only an earlier blueprint needs."""
    return [unit for unit in (_timer(path), _service(path)) if unit not in texts and unit_files.any_there({unit: ""})]


def _earlier_mount(path: str) -> Json:
    """Return the mount that hpcforge's unit has had until now; nothing without a unit, or with a damaged one."""
    text = files.read_text(f"{unit_files.FOLDER}/{_unit(path)}") or ""
    lines = dict(line.partition("=")[::2] for line in text.splitlines())
    settings = {word: lines.get(word.title(), "") for word in ("what", "type", "options")}
    right = all(_WORD.fullmatch(value) and value.isprintable() for value in settings.values())
    return settings if right and text.startswith(unit_files.MARK) else {}


def obstacle(mount: Mount, record: Known) -> str | None:
    """Return the obstacle: an invalid value, or an entry that the mount would hide."""
    path = mount.path
    try:
        paths.split(path)
    except NodeError as error:
        return str(error)
    if not path.isprintable():
        return f"mount {path!r}: its path is one line"
    if not all(map(_WORD.fullmatch, (mount.what, mount.type, mount.options))):
        return f"mount {path}: what, type and options are one word each, without %"
    ours = record is not None and (Path(unit_files.FOLDER) / _unit(path)).exists()
    if not ours and is_mounted(path):
        return f"another file system is mounted at {path}; unmount it, and remove it from /etc/fstab"
    if not ours and os.path.lexists(path) and not (Path(path).is_dir() and not any(Path(path).iterdir())):
        return f"{path} is not an empty directory: a mount would hide its content; move it away"
    return unit_files.obstacle(_texts(mount))


def put(mount: Mount) -> str | None:
    """Write its units, and mount it; systemd makes the directory. Raises `NodeError` if its server is down."""
    path, did = mount.path, []
    ran = units.query([_unit(path)])[_unit(path)].runs
    texts = _texts(mount)
    did += [unit_files.restore([unit], unit) for unit in _obsolete_units(path, texts)]
    did.append(unit_files.put(texts, _first(mount)))
    if mount.retry_s and (did[-1] or not ran):
        _mount(_unit(path), "restart" if ran else "start")  # the timer may be mounting it: `start` waits for that
        did.append("mounted")
    return "mounted" if any(did) else None


def _mount(unit: str, verb: str) -> None:
    outcome = commands.run(["systemctl", verb, "--", unit], _JOB_S)
    if outcome.rc != 0:
        raise NodeError(f"`systemctl {verb} {unit}`: {readable(outcome.stderr, 500)}\n{units.failure(unit)}")


def own(name: str, change: Mount | None, made: set[str]) -> Json:  # noqa: ARG001
    """Return the directories that are missing."""
    missing = [] if os.path.lexists(name) else [name, *files.parents(name, made)]
    made |= set(missing)
    return {"before": None, "made": missing}


def restore(name: str, record: Known, report: EventReporter) -> str | None:  # noqa: ARG001
    """Unmount it. A busy file system stays, and the role fails with systemd's message."""
    did = [unit_files.restore([unit], unit) for unit in (_timer(name), _service(name), _unit(name))]
    return "unmounted" if any(did) else None


def room(mount: Mount) -> list[SpaceNeed]:
    """Return the space for its units, the link that enables one, and its directory."""
    return [
        SpaceNeed(f"{unit_files.FOLDER}/x.mount", 3 * BLOCK, 4),
        SpaceNeed(mount.path.rpartition("/")[0] or "/", BLOCK, 1),
    ]


def _unit(path: str) -> str:
    return f"{unit_files.escaped(path)}.mount"


def _timer(path: str) -> str:
    return f"{unit_files.escaped(path)}.timer"


def _service(path: str) -> str:
    """Return a unique name: there is a service `docker`, and there may be a mount at /docker."""
    return f"hpcforge-mount@{unit_files.escaped(path)}.service"


def _first(mount: Mount) -> str:
    """Return the unit that is enabled: it starts the others."""
    return _timer(mount.path) if mount.retry_s else _unit(mount.path)


def is_mounted(path: str) -> bool:
    """Return whether the kernel's list has a mount at this path."""
    return any(point.path == path for point in points())


def points() -> list[MountPoint]:
    """Return the kernel's list of mounts, see proc_pid_mountinfo(5); of several at a place the last one shows."""
    mounts = []
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        words = os.fsdecode(line).split(" ")
        mounts.append(MountPoint(_plain(words[4]), _plain(words[3]), words[-1]))
    return mounts


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


def _texts(mount: Mount) -> dict[str, str]:
    escaped, retry_s = mount.path.replace("%", "%%"), mount.retry_s
    try_s = max(retry_s, mount.try_s)
    # Without systemd's default dependencies: they make the start and logins wait.
    unit = (
        "DefaultDependencies=no\nWants=network-online.target\nAfter=network-online.target local-fs.target\n"
        "Conflicts=umount.target\nBefore=umount.target\n"
    )
    mount_unit = (
        f"[Unit]\nDescription={escaped}\n{unit if retry_s else ''}\n"
        f"[Mount]\nWhat={mount.what}\nWhere={escaped}\nType={mount.type}\nOptions={mount.options}\n"
    )
    if not retry_s:
        return {_unit(mount.path): f"{mount_unit}\n[Install]\nWantedBy=multi-user.target\n"}
    begins = _service(mount.path) if mount.fuse else _unit(mount.path)
    timer_unit = (
        f"[Unit]\nDescription={escaped}\n\n"
        f"[Timer]\nOnActiveSec=0\nOnUnitInactiveSec={retry_s}\nAccuracySec=1\nUnit={begins}\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    service_unit = (
        f"[Unit]\nDescription={escaped}, also where its program has ended\n\n"
        # Without a level the journal would get two lines for each try.
        f"[Service]\nType=oneshot\nLogLevelMax=notice\nExecStart=/bin/sh -c '{_AGAIN}' sh %i.mount %f\n"
    )
    texts = {_unit(mount.path): f"{mount_unit}TimeoutSec={try_s}\n", _timer(mount.path): timer_unit}
    return texts | {begins: service_unit} if mount.fuse else texts
