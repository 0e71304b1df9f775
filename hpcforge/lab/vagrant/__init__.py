"""Labs of machines that Vagrant makes, by `vagrant/Vagrantfile`: a `hpcforge.lab.kinds.LabBackend`.

Their disks are made of the same image as virtual machines (`hpcforge.lab.vm`), and they get their identity in the same
way; so this kind may import that one, beside `hpcforge.lab`, `hpcforge.image` and `hpcforge.host`. Only
`hpcforge.lab.kinds` imports it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from hpcforge.lab.errors import LabError
from hpcforge.host.paths import Progress
from hpcforge.lab.target_state import Trees
from hpcforge.host.package_sources import check_distribution
from hpcforge.lab.state import Lab, PlacedNode
from hpcforge.lab.vagrant.libvirt import ensure as prepare_host
from hpcforge.lab.vagrant.libvirt import release as restore_host
from hpcforge.lab.vagrant.machines import (
    check_disks,
    host_key,
    lay_out,
    memory_mib,
    remove,
    running,
    start,
    started_s,
    stop,
)
from hpcforge.lab.vagrant.machines import remove_others as remove_other_disks

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
    "vagrant": "vagrant",
    "vagrant-libvirt": "/usr/share/doc/vagrant-libvirt",
    "libvirt-daemon-system": "libvirtd",
    "libvirt-clients": "virsh",
    "dnsmasq-base": "dnsmasq",
    "qemu-system-x86": "qemu-system-x86_64",
    "qemu-utils": "qemu-img",
    "e2fsprogs": "debugfs",
}
BOOTS = True
SAVES = False


def trees(release: str, in_use: Iterable[Path], progress: Progress) -> Trees:  # noqa: ARG001 - there is no other way
    """Raise `LabError`, always: machines boot the disk of an image, and nothing else."""
    raise LabError(
        f"machines of Vagrant boot an image of their blueprint, and no image of Debian {release} exists",
        "build it: `hpcforge image build --disk BLUEPRINT`",
    )


def written(lab: Lab, node: PlacedNode) -> Path:  # noqa: ARG001 - there is none
    """Raise `LabError`, always: the disks are Vagrant's."""
    raise LabError(f"node {node.name} is a machine of Vagrant's, which keeps no saves", "use `--on vm`")


def disk_sizes_kib(lab: Lab, disks: Collection[tuple[str, int]]) -> Mapping[tuple[str, int], int]:  # noqa: ARG001
    """Return nothing: there are no saves."""
    return {}
