"""A file system that a node of ours serves, in numbers: what its drives hold, and what drives and links carry. Pure.

Figures are the makers', of large files read or written in one go; what processors, memory and the file system itself
take is not in them, so they are what there is at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.blueprint.sections.hardware import Raid
from hpcforge.design.storage import sizes

Direction = Literal["read", "write"]


@dataclass(frozen=True)
class ServerDrives:
    """Drives of a server that are alike; None: not known."""

    model: str
    count: int
    groups: int  # that they form; without a word of how they are put together each is one
    capacity_gb: float | None
    read_gb_per_s: float | None
    write_gb_per_s: float | None

    def rate(self, direction: Direction) -> float | None:
        """What one of them gives, GB/s."""
        return self.read_gb_per_s if direction == "read" else self.write_gb_per_s


@dataclass(frozen=True)
class NodeLink:
    """How a node is reached: links of a fabric that it uses together."""

    fabric: str
    kind: str
    rate_gbps: float
    links: int
    mtu: int | None
    tagged: bool

    @property
    def share(self) -> float:
        """Part of the rate that is left for files."""
        return sizes.payload_share(self.kind, self.mtu, tagged=self.tagged)

    @property
    def gb_per_s(self) -> float:
        """What it carries in one direction, GB/s."""
        return sizes.link_gb_per_s(self.rate_gbps, self.links, self.share)

    @property
    def terms(self) -> str:
        """How that came about."""
        return f"{self.links} x {self.rate_gbps:g} Gb/s of {self.fabric} x {self.share:.3f} payload / 8"


@dataclass(frozen=True)
class StorageNeeds:
    """What jobs need of a file system, of all nodes together, from one server; None: not said."""

    capacity_tib: float | None = None
    read_gb_per_s: float | None = None
    write_gb_per_s: float | None = None

    def rate(self, direction: Direction) -> float | None:
        """What is needed in a direction, GB/s."""
        return self.read_gb_per_s if direction == "read" else self.write_gb_per_s


@dataclass(frozen=True)
class ServedFileSystem:
    """A file system and the node that has its files."""

    name: str
    kind: str
    server: str
    hardware: str  # the server's model
    drives: tuple[ServerDrives, ...]  # in groups already; empty: nobody has said what it has
    raid: Raid | None  # how those are put together; None: not said
    network: str  # by which others reach the server
    link: NodeLink | None  # None: no fabric that can be built is said to carry that network to it
    clients: int  # that mount it over the network
    client_link: NodeLink | None  # the least of theirs; None: not known of all
    needs: StorageNeeds = StorageNeeds()
    path: str | None = None  # of the files on the server
    volume: str | None = None  # what of `storage` has them there, built by apply; None: what the site has at `path`
    level: int | None = None  # RAID of that volume; None: one drive
    declared: Raid | None = None  # what the hardware says of all drives, where a volume has the files

    @property
    def data(self) -> int:
        """Drives of a group whose capacity is for files."""
        return self.raid.data if self.raid else 1

    @property
    def size(self) -> int:
        """Drives of a group."""
        return self.raid.data + self.raid.parity if self.raid else 1

    @property
    def raw_tib(self) -> float | None:
        """What all drives hold, TiB; None: not known."""
        known = [(drive.count, drive.capacity_gb) for drive in self.drives]
        if not known or any(each is None for _, each in known):
            return None
        return sizes.tib(sum(count * (each or 0.0) for count, each in known))

    @property
    def capacity_tib(self) -> float | None:
        """What it holds at most, before what the file system itself takes, TiB; without a word of groups all drives."""
        known = [(drive.groups * self.data, drive.capacity_gb) for drive in self.drives if drive.groups]
        if not self.drives or any(each is None for _, each in known):
            return None
        return sizes.tib(sum(count * (each or 0.0) for count, each in known))

    def of_drives(self, direction: Direction) -> float | None:
        """What the drives give at most, GB/s."""
        known = [(drive.groups * self.size, drive.rate(direction)) for drive in self.drives if drive.groups]
        if not self.drives or any(each is None for _, each in known):
            return None
        if direction == "read":
            return sum(sizes.read_gb_per_s(count, each or 0.0) for count, each in known)
        return sum(sizes.write_gb_per_s(count, self.data, self.size - self.data, each or 0.0) for count, each in known)

    def most(self, direction: Direction) -> float | None:
        """The least of what is known of drives and links, GB/s: no more comes through. None: nothing is known."""
        return min((each for each in (self.of_drives(direction), self.of_link) if each is not None), default=None)

    def gives(self, direction: Direction) -> float | None:
        """What comes through, GB/s; None: one of both is not known."""
        return None if self.raid is None or None in (self.of_drives(direction), self.of_link) else self.most(direction)

    @property
    def of_link(self) -> float | None:
        """What the server's links carry, GB/s."""
        return None if self.link is None else self.link.gb_per_s

    def bound(self, direction: Direction) -> Literal["drives", "links"] | None:
        """Which of both lets less through, of those that are known."""
        most = self.most(direction)
        return None if most is None else "links" if most == self.of_link else "drives"

    def each(self, direction: Direction) -> float | None:
        """Rate of each client when all are active, GB/s: its part, and no more than its own links carry."""
        gives = self.gives(direction)
        if gives is None or not self.clients or self.client_link is None:
            return None
        return min(gives / self.clients, self.client_link.gb_per_s)

    @property
    def left_over(self) -> int:
        """Drives that are in no group."""
        return sum(drive.count - drive.groups * self.size for drive in self.drives)


def grouped(counts: Sequence[int], raid: Raid | None) -> tuple[int, ...]:
    """How many groups drives form, of each model: of drives that are alike, in their order, as many as are wanted."""
    if raid is None:
        return tuple(counts)
    size, left, groups = raid.data + raid.parity, raid.groups, list[int]()
    for count in counts:
        some = count // size if left is None else min(count // size, left)
        groups.append(some)
        left = None if left is None else left - some
    return tuple(groups)
