"""The kinds of labs, and their interface.

`up`, `down`, `status`, `save` and `restore` (`hpcforge.lab.lab`) and how one enters (`hpcforge.lab.lab`) are the
same for all: subnet and bridge, package proxy, what is written down, which disks a save names. A kind is the layer
below: the form of a node, its start and stop, and its disks. It is a module `hpcforge.lab.NAME`, which nothing
else imports, with its name in `hpcforge.blueprint.lab_kinds` and its row here.
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
    """What a lab is made of. All raise `LabError` where this machine cannot do it."""

    PACKAGES: Mapping[str, str]
    """Debian packages that this machine needs for it, beside those of every lab, and a program that each brings."""

    BOOTS: bool
    """Whether nodes boot a kernel of their own: they use the disk of an image, not a tree."""

    SAVES: bool
    """Whether its disks can be set aside."""

    def check_distribution(self, name: str) -> None:
        """`LabError` for a distribution that nodes cannot be made of."""

    def trees(self, release: str, in_use: Iterable[Path], progress: Progress) -> Trees:
        """Return the base of new nodes; builds it if needed. Bases that are `in_use` by any lab stay. Call under the
        host lock.

        `LabError` for a release that nodes cannot be made of.
        """

    def memory_mib(self, lab: Lab) -> int | None:
        """Return each node's own memory, in MiB; None: nodes share this machine's."""

    def prepare_host(self) -> None:
        """Change what this machine needs for nodes to run; again is harmless. Under the host lock."""

    def restore_host(self) -> None:
        """Undo that, if no lab is left. Under the host lock."""

    def lay_out(self, lab: Lab, progress: Progress = quiet) -> None:
        """Have what its machines are made from, where another program may start them; again is harmless."""

    def start(self, lab: Lab, node: PlacedNode, progress: Progress = quiet) -> bool:
        """Have a node running and answering on SSH, made if it is new; true if it was started now.

        A new node has its name, its address on the lab's bridge, a host key of its own, the lab's package proxy, and
        the login user with the lab's key.
        """

    def stop(self, lab: Lab, node: PlacedNode, *, graceful: bool) -> bool:
        """Stop a node if it runs, and free all that it holds on this machine but its disks; false if it was killed."""

    def running(self, lab: Lab, node: PlacedNode) -> bool:
        """Whether a node runs, answering or not."""

    def started_s(self) -> Mapping[str, float]:
        """All machines of all labs of this kind that run (`Lab.machine`), and when each started, in s since 1970."""

    def host_key(self, lab: Lab, node: PlacedNode) -> str | None:
        """Return the public host key that a node was made with, "ssh-ed25519 AAAA..."; None: it was not made yet."""

    def check_disks(self, lab: Lab, node: PlacedNode) -> None:
        """Raise `LabError` if a disk or base of a node is missing."""

    def written(self, lab: Lab, node: PlacedNode) -> Path:
        """Return the first of a stopped node's disks, made if missing; a save can set it aside from here on."""

    def remove_other_disks(self, lab: Lab, keep: Disks) -> None:
        """Remove all disks of the lab but these, and what is left of nodes that have none."""

    def disk_sizes_kib(self, lab: Lab, disks: Disks) -> Mapping[tuple[str, int], int]:
        """Return the size of each of these disks on this machine, in KiB."""

    def remove(self, directory: Path, tags: Collection[str]) -> None:
        """End all machines of a lab and let go of its directory, found by what is there, not by what is written down.

        `tags` are those that its bridges bear. Nothing of its disks is kept, and there may be nothing of this kind.
        """


KINDS: Mapping[LabKind, LabBackend] = {"nspawn": nspawn, "vm": vm, "vagrant": vagrant}


def kind_of(lab: Lab) -> LabBackend:
    return KINDS[lab.kind]


# Package -> a program it brings; of every lab, whatever its nodes are.
_PACKAGES = {
    "apt-cacher-ng": "apt-cacher-ng",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "util-linux": "setpriv",
}


def host_packages(kind: LabBackend) -> dict[str, str]:
    """Return the Debian packages that a host of such labs needs, and a program that each brings."""
    return {**kind.PACKAGES, **_PACKAGES}


def missing_host_packages(kind: LabBackend) -> tuple[str, ...]:
    """Those of them that are not installed here."""
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
