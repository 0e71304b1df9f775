"""Trees: folders that a role's own code makes, by path. Each is removed with its role, and with its content."""

from __future__ import annotations

import os
from pathlib import Path

from hpcforge.node import commands, paths
from hpcforge.node.events import NodeError

_REMOVE_S = 600


def remove(path: str) -> str | None:
    """Delete a path with its content; return "removed", or None if it is missing.

    Raises NodeError, and deletes nothing, if a user could have put it there, or if a file system is mounted in it: its
    content belongs to others.
    """
    parent, name = paths.split(path)
    try:
        folder = paths.open_directory(parent)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not _is_there(folder, name):
            return None
        if not paths.is_roots(folder):
            raise paths.UnsafeError(f"{path} is in a place that others can write to: check it, and remove it by hand")
        mounted = _mounted(f"{str(Path(f'/proc/self/fd/{folder}').readlink()).rstrip('/')}/{name}")
        if mounted:
            raise NodeError(f"{path} stays: a file system is mounted there ({', '.join(mounted)}); unmount it first")
        # Through the open directory: no user can replace it meanwhile.
        target = f"/proc/{os.getpid()}/fd/{folder}/{name}"
        commands.succeed(["rm", "-rf", "--one-file-system", "--preserve-root=all", "--", target], _REMOVE_S)
        os.fsync(folder)
        return "removed"
    finally:
        os.close(folder)


def _is_there(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _mounted(path: str) -> list[str]:
    """Return the mount points at or below a path. Devices do not show bind mounts, so the kernel's list is read."""
    points = (line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines())
    spelled = path.replace("\\", "\\134").replace(" ", "\\040")
    return [point for point in points if point == spelled or point.startswith(f"{spelled}/")]
