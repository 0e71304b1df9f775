"""The kinds of labs, and their interface.

`up`, `down`, `status`, `save` and `restore` and access (`hpcforge.lab.lab`) are the same for all: subnet and bridge,
package proxy, records, the disks of a save. A kind is the layer below: the form of a node, its start and stop, and its
disks. It is a module `hpcforge.lab.NAME`, which no other module imports, with its name in
`hpcforge.blueprint.lab_kinds` and its row here.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from hpcforge.blueprint.lab_kinds import LabKind
from hpcforge.host.commands import PATH
from hpcforge.host.paths import Progress, quiet
from hpcforge.lab import nspawn, vagrant, vm
from hpcforge.lab.errors import LabError
from hpcforge.lab.state import Lab, PlacedNode
from hpcforge.lab.target_state import Trees

Disks = Collection[tuple[str, int]]  # by node and number, see `PlacedNode`


class LabBackend(Protocol):
    """The interface of a kind. All functions raise `LabError` if this machine cannot do it."""

    PACKAGES: Mapping[str, str]
    """Debian packages that this machine needs for it, in addition to those of every lab, each with a program of it."""

    BOOTS: bool
    """Whether nodes boot their own kernel: they use the disk of an image, not a tree."""

    SAVES: bool
    """Whether saves can keep its disks."""

    def check_distribution(self, name: str) -> None:
        """Raise `LabError` for a distribution that nodes cannot have."""

    def trees(self, release: str, in_use: Iterable[Path], progress: Progress) -> Trees:
        """Return the base of new nodes, built if missing. Bases that are `in_use` by a lab stay. Call under the host
        lock.

        `LabError` for a release that nodes cannot have.
        """

    def memory_mib(self, lab: Lab) -> int | None:
        """Return each node's own memory, in MiB; None: nodes share this machine's."""

    def prepare_host(self) -> None:
        """Change settings of this machine that nodes need; repeating it is harmless. Call under the host lock."""

    def restore_host(self) -> None:
        """Revert these settings if no lab is left. Call under the host lock."""

    def lay_out(self, lab: Lab, progress: Progress = quiet) -> None:
        """Write the input of machines that another program may start; repeating it is harmless."""

    def start(self, lab: Lab, node: PlacedNode, progress: Progress = quiet) -> bool:
        """Start a node, made if it is new, and wait until it answers on SSH; return true if it was started now.

        A new node has its name, its address on the lab's bridge, its own host key, the lab's package proxy, and the
        login user with the lab's key.
        """

    def stop(self, lab: Lab, node: PlacedNode, *, graceful: bool) -> bool:
        """Stop a node if it runs, and free its resources here except disks; return false if it was killed."""

    def running(self, lab: Lab, node: PlacedNode) -> bool:
        """Return whether a node runs, answering or not."""

    def started_s(self) -> Mapping[str, float]:
        """Return the running machines of all labs of this kind (`Lab.machine`), with start times in s since 1970."""

    def host_key(self, lab: Lab, node: PlacedNode) -> str | None:
        """Return a node's public host key, "ssh-ed25519 AAAA..."; None: the node was not made yet."""

    def check_disks(self, lab: Lab, node: PlacedNode) -> None:
        """Raise `LabError` if a disk or base of a node is missing."""

    def written(self, lab: Lab, node: PlacedNode) -> Path:
        """Return the first of a stopped node's disks, made if missing; a save can keep it from then on."""

    def remove_other_disks(self, lab: Lab, keep: Disks) -> None:
        """Remove all disks of the lab except these, and leftovers of nodes without disks."""

    def disk_sizes_kib(self, lab: Lab, disks: Disks) -> Mapping[tuple[str, int], int]:
        """Return the size of each of these disks on this machine, in KiB."""

    def remove(self, directory: Path, tags: Collection[str]) -> None:
        """End all machines of a lab and release its directory, by the present state, not by records.

        `tags` are of its bridges. Its disks are lost. The lab may have nothing of this kind.
        """


KINDS: Mapping[LabKind, LabBackend] = {"nspawn": nspawn, "vm": vm, "vagrant": vagrant}


def kind_of(lab: Lab) -> LabBackend:
    return KINDS[lab.kind]


# Package -> a program of it; for every kind of lab.
_PACKAGES = {
    "apt-cacher-ng": "apt-cacher-ng",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "util-linux": "setpriv",
}


def host_packages(kind: LabBackend) -> dict[str, str]:
    """Return the Debian packages that a host of such labs needs, each with a program of it."""
    return {**kind.PACKAGES, **_PACKAGES}


def missing_host_packages(kind: LabBackend) -> tuple[str, ...]:
    """Return the missing ones of these packages."""
    return tuple(package for package, brings in host_packages(kind).items() if not _is_installed(brings))


def _is_installed(brings: str) -> bool:
    return Path(brings).exists() if brings.startswith("/") else shutil.which(brings, path=PATH) is not None


def require_programs(kind: LabBackend) -> None:
    """Check the host's programs. Raises `LabError` with the missing packages."""
    if missing := missing_host_packages(kind):
        raise LabError(
            f"this host lacks packages for labs: {', '.join(missing)}",
            f"apt-get install --no-install-recommends {' '.join(missing)}",
        )
