"""Labs of virtual machines: a `hpcforge.lab.kinds.LabBackend`. Each node is a QEMU, on a qcow2 above an image's disk.

`qemu` makes the command line, `machines` starts and stops nodes, `disks` has their disks, and `seed` their identity.
The package may import `hpcforge.lab`, `hpcforge.image` and `hpcforge.host`, no other kind of lab. `hpcforge.lab.kinds`
and the kind of Vagrant import it, nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hpcforge.host.package_sources import check_distribution
from hpcforge.host.paths import Progress, quiet
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab
from hpcforge.lab.target_state import Trees
from hpcforge.lab.vm.disks import check as check_disks
from hpcforge.lab.vm.disks import host_key, written
from hpcforge.lab.vm.disks import remove_others as remove_other_disks
from hpcforge.lab.vm.disks import sizes_kib as disk_sizes_kib
from hpcforge.lab.vm.machines import memory_mib, remove, running, start, started_s, stop

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
    "qemu-system-x86": "qemu-system-x86_64",
    "qemu-utils": "qemu-img",
    "e2fsprogs": "debugfs",
}
BOOTS = True
SAVES = True


def trees(release: str, in_use: Iterable[Path], progress: Progress) -> Trees:  # noqa: ARG001 - there is no other way
    """Raise `LabError`, always: machines boot the disk of an image, and nothing else."""
    raise LabError(
        f"virtual machines of Debian {release} boot an image of their blueprint, which does not exist",
        "build it: `hpcforge image build --disk BLUEPRINT`",
    )


def prepare_host() -> None:
    """Do nothing: machines need no changes on their host."""


def restore_host() -> None:
    """Do nothing: `prepare_host` changed nothing."""


def lay_out(lab: Lab, progress: Progress = quiet) -> None:
    """Do nothing: machines are made when they start."""
