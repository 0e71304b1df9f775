"""Labs of nspawn containers: a `hpcforge.lab.kinds.LabBackend`. Each node is a systemd, on an overlay above one base.

`base` has the trees, `disks` the overlays, `machines` starts and stops nodes, and `inotify` raises the host's limit.
The package may import `hpcforge.lab`, `hpcforge.image` and `hpcforge.host`, no other kind of lab. Only
`hpcforge.lab.kinds` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcforge.host.package_sources import check_distribution
from hpcforge.host.paths import Progress, quiet
from hpcforge.lab.nspawn.base import trees
from hpcforge.lab.nspawn.disks import check as check_disks
from hpcforge.lab.nspawn.disks import host_key, written
from hpcforge.lab.nspawn.disks import remove_others as remove_other_disks
from hpcforge.lab.nspawn.disks import sizes_kib as disk_sizes_kib
from hpcforge.lab.nspawn.inotify import raise_limit as prepare_host
from hpcforge.lab.nspawn.inotify import restore_limit as restore_host
from hpcforge.lab.nspawn.machines import remove, running, start, started_s, stop
from hpcforge.lab.state import Lab

__all__ = [
    "BOOTS",
    "PACKAGES",
    "SAVES",
    "check_disks",
    "check_distribution",
    "disk_sizes_kib",
    "host_key",
    "lay_out",
    "memory_mib",
    "prepare_host",
    "remove",
    "remove_other_disks",
    "restore_host",
    "running",
    "start",
    "started_s",
    "stop",
    "trees",
    "written",
]

PACKAGES: Mapping[str, str] = {
    "mmdebstrap": "mmdebstrap",
    "systemd-container": "systemd-nspawn",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "util-linux": "unshare",
}
BOOTS = False
SAVES = True


def memory_mib(lab: Lab) -> int | None:  # noqa: ARG001 - the same for every lab
    """Return None: containers share the host's memory."""
    return None


def lay_out(lab: Lab, progress: Progress = quiet) -> None:
    """Do nothing: containers are made when they start."""
