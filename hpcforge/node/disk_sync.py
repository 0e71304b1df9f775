"""Sync other programs' writes to disk: few programs sync, and none reports it.

hpcforge syncs its own files one by one as it writes them (`hpcforge.node.files`). Writes of systemctl, useradd,
maintainer scripts and a role's own code are synced here, before they are reported as complete: a power cut after that
loses none.
"""

from __future__ import annotations

from pathlib import Path

from hpcforge.node import commands

_SYNC_S = 600.0  # on a busy disk
# Folders of a node's own programs: without users' folders, and without mounts that wait for a server.
_PLACES = ("/", "/boot", "/boot/efi", "/etc", "/opt", "/usr", "/usr/local", "/var", "/var/lib")


def system() -> None:
    """Sync the node's own file systems to their disks. NodeError if that fails."""
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
