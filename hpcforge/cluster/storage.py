"""The file systems of a cluster's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID, uuid5

from hpcforge.catalog import Catalog


@dataclass(frozen=True)
class LocalDrives:
    """Drives of each node for a file system of its own."""

    count: int
    size_mb: int | None  # decimal megabytes; None: not known
    raid: int | None  # RAID level; None: one drive
    quota_gib: int | None  # quota of a user; None: none
    keep: bool  # users' files stay after their jobs
    uuid: str  # identifier; nodes' own identifiers derive from it and their names


@dataclass(frozen=True)
class FileSystem:
    """Files that several nodes reach at the same place, or that each has there for itself."""

    name: str
    kind: str
    what: str  # the source for mount(8) on its nodes
    type: str  # type for mount(8)
    options: str  # options for mount(8), separated by commas
    mount: str  # mount point on nodes
    on: tuple[str, ...] = field(hash=False)  # the nodes that mount it
    server: str | None = None  # the node with the files; None: the site serves it
    path: str | None = None  # folder on the server
    network: str | None = None  # from the server to nodes; None: that of nodes' addresses, or the site serves it
    packages: tuple[str, ...] = ()  # packages that a node needs for it, by Debian 12's names
    mounted_by: str = ""  # the program that mounts it; "": hpcforge
    drives: LocalDrives | None = None  # None: it is not on nodes' own drives
    homes: bool = False  # homes of users are on it; its server creates them
    volume: str | None = None  # the file system of drives with its files on the server; None: the system disk
    quota_gib: int | None = None  # quota of each user on that volume; None: none

    @cached_property
    def known(self) -> frozenset[str]:
        """The nodes that mount it, as a set."""
        return frozenset(self.on)

    @property
    def unit(self) -> str:
        """The systemd unit that mounts it."""
        return f"{self.mount[1:].replace('-', chr(92) + 'x2d').replace('/', '-')}.mount"

    def at(self, node: str) -> FileSystem:
        """As a node mounts it: the server binds its own folder, since it is not to be its own client.

        Of drives each node has an identifier of its own: one that was moved here from another is not taken for its own.
        """
        if self.drives is not None:
            uuid = str(uuid5(UUID(self.drives.uuid), node))
            return replace(self, what=f"/dev/disk/by-uuid/{uuid}", drives=replace(self.drives, uuid=uuid))
        if node != self.server or self.path is None:
            return self
        return replace(self, what=self.path, type="none", options="bind,nosuid,nodev", packages=())


def on_volumes(systems: Sequence[FileSystem]) -> tuple[FileSystem, ...]:
    """With what each that is served has below it."""
    return tuple(_on_volume(file_system, systems) for file_system in systems)


def _on_volume(system: FileSystem, others: Sequence[FileSystem]) -> FileSystem:
    for parent in others:
        if parent.drives and system.server in parent.on and f"{system.path}/".startswith(f"{parent.mount}/"):
            return replace(system, volume=parent.name, quota_gib=parent.drives.quota_gib)
    return system


def size_mb(drive: str, catalog: Catalog) -> int | None:
    """Return decimal megabytes of a drive: a model of the catalog, or a size; None: not known."""
    if drive in catalog.drives:
        gb = catalog.drives[drive].capacity_gb
        return round(gb * 1000) if gb else None
    factor = {"GB": 1_000, "TB": 1_000_000}.get(drive[-2:])
    return round(float(drive[:-2]) * factor) if factor else None
