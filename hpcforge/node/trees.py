"""Trees: folders that a role's own code makes, by path. Each is removed with its role, and with its content."""

from __future__ import annotations

import os
from pathlib import Path

from hpcforge.node import commands, paths
from hpcforge.node.events import NodeError

_REMOVE_S = 600


def remove(path: str) -> str | None:
    """Delete what is at a path, with all that is in it: "removed", or None where there is nothing.

    Raises NodeError, and deletes nothing, where somebody but root could have put it there, or a file system is mounted
    in it: what that holds is somebody's.
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
        # By way of the open directory, so that nobody can put another one in its place meanwhile.
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
    """Where something is mounted at or below a path. A bind mount is on the same device, so that no device tells."""
    points = (line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines())
    spelled = path.replace("\\", "\\134").replace(" ", "\\040")
    return [point for point in points if point == spelled or point.startswith(f"{spelled}/")]
