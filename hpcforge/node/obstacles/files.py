"""Files and folders that root cannot replace: immutable or append-only ones (chattr(1)), and files on a mount point.

A write replaces the file under its name, so a flag on the folder counts like one on the file. useradd and groupadd make
accounts and replace /etc/passwd and the files beside it; packages make accounts, too.
"""

from __future__ import annotations

import array
import fcntl
import os
import shlex
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node import disk_space, package_manager
from hpcforge.node.inspection import Conflict, Inspection
from hpcforge.node.kinds import mounts
from hpcforge.node.obstacles.space import role_needs
from hpcforge.node.unit_files import FOLDER, escaped

if TYPE_CHECKING:
    from hpcforge.node.requests import DesiredRoleRequest

_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS of linux/fs.h on 64 bits
_FLAGS = ((0x10, "i", "immutable"), (0x20, "a", "append-only"))  # FS_IMMUTABLE_FL, FS_APPEND_FL
_ACCOUNTS = tuple(f"/etc/{name}" for name in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid"))
_KINDS_OF_ACCOUNTS = ("accounts", "groups", "memberships")
# Folders of nearly every package.
_OF_PACKAGES = ("/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/share", "/usr/share/doc", "/etc", "/var/lib")


class _Obstruction(NamedTuple):
    """A path that cannot be replaced or written into, with the reason and the commands that change that."""

    path: str
    why: str
    commands: tuple[str, ...]


def search(inspection: Inspection) -> Iterator[Conflict]:
    """Yield each file and folder that the roles would write but cannot, once."""
    points = mounts.points()
    places: set[str] = set()
    for role in inspection.roles:
        for path in dict.fromkeys(_written(role, inspection)):
            for place in _places(path):
                if place not in places:
                    places.add(place)
                    obstruction = _mounted(place, points) or _flagged(place)
                    if obstruction:
                        yield _conflict(role["role"], obstruction)


def _conflict(role: str, obstruction: _Obstruction) -> Conflict:
    kind = "directory" if os.path.isdir(obstruction.path) else "file"  # noqa: PTH112
    return Conflict(role, kind, *obstruction)


def _written(role: DesiredRoleRequest, inspection: Inspection) -> Iterator[str]:
    """Yield the paths that a role writes."""
    yield from (need.path for need in role_needs(role, inspection))
    packages = inspection.differences.get(role["role"], {}).get("packages")
    if packages:
        yield from (*_OF_PACKAGES, *package_manager.of_node().folders)
    if packages or any(kind.name in _KINDS_OF_ACCOUNTS for kind, _ in inspection.resources(role)):
        yield from _ACCOUNTS


def _places(path: str) -> Iterator[str]:
    """Yield what a write to a path changes: an existing entry itself, and the folder with its name."""
    if os.path.lexists(path):
        yield path
    if not os.path.isdir(path):  # noqa: PTH112 - an existing folder is not replaced
        yield disk_space.existing(path.rpartition("/")[0] or "/")


def _mounted(path: str, points: list[mounts.MountPoint]) -> _Obstruction | None:
    """Return the obstruction of a file that is a mount point."""
    present = [point for point in points if point.path == path]
    if not present or os.path.isdir(path):  # noqa: PTH112
        return None
    unit, quoted = f"{escaped(path)}.mount", shlex.quote(path)
    commands = [f"umount {quoted}"] * len(present)
    if os.path.lexists(f"{FOLDER}/{unit}"):
        commands.insert(0, f"systemctl disable --now {shlex.quote(unit)}")
        commands.remove(f"umount {quoted}")
    line = mounts.line_of_fstab(path)
    if line:
        commands.append(f"sed -i '{line.number}s/^/# /' {mounts.FSTAB}")
    source = f" by {mounts.FSTAB}:{line.number}" if line else ""
    reason = f"it is a mount point{source} (of {present[-1].root}), and cannot be replaced"
    return _Obstruction(path, reason, tuple(commands))


def _flagged(path: str) -> _Obstruction | None:
    """Return the obstruction of a path with a flag of chattr."""
    flags = _flags(path)
    set_flags = [(letter, word) for bit, letter, word in _FLAGS if flags & bit]
    if not set_flags:
        return None
    letters, words = "".join(letter for letter, _ in set_flags), " and ".join(word for _, word in set_flags)
    return _Obstruction(path, f"it is {words} (lsattr -d shows {letters})", (f"chattr -{letters} {shlex.quote(path)}",))


def _flags(path: str) -> int:
    """Return the flags of a file or folder; 0 for other entries, and on file systems without flags."""
    try:
        if stat.S_IFMT(os.lstat(path).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            return 0
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return 0
    flags = array.array("l", [0])
    try:
        fcntl.ioctl(fd, _GET_FLAGS, flags)
    except OSError:
        return 0
    finally:
        os.close(fd)
    return flags[0]
