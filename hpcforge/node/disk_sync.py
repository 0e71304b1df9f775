"""Sync other programs' writes to disk: few of them sync their own, and none reports it.

Files of ours are synced one by one as they are written (`hpcforge.node.files`). What systemctl, useradd, maintainer
scripts and a role's own code write is synced here, before anybody is told that it is done: a power cut after that
takes nothing of it away.
"""

from __future__ import annotations

from pathlib import Path

from hpcforge.node import commands

_SYNC_S = 600.0  # on a disk to which others write much
# Where a node's own programs write. Not what users fill, and nothing that a server far away may hold up.
_PLACES = ("/", "/boot", "/boot/efi", "/etc", "/opt", "/usr", "/usr/local", "/var", "/var/lib")


def system() -> None:
    """Return once what was written to the node's own file systems is on their disks. NodeError where that fails."""
    text = Path("/proc/self/mountinfo").read_text("utf-8", "replace")
    commands.succeed(["sync", "--file-system", "--", *places(text)], _SYNC_S)


def places(mounts: str) -> list[str]:
    """Return a path on each of these file systems, from /proc/self/mountinfo as in proc_pid_mountinfo(5)."""
    by_device: dict[str, str] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        device, point = before.split(" ")[2:5:2]
        kind, source = after.split(" ")[:2]
        if point == "/" or (point in _PLACES and (source.startswith("/dev/") or kind == "zfs")):
            by_device.setdefault(device, point)
    return list(by_device.values())
