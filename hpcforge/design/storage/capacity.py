"""A file system that a node of the cluster serves, in numbers: the capacity of drives, and the rates of drives and
links. Pure.

Figures are the makers', for large files read or written in one go. They leave out the costs of processors, memory and
the file system itself, so they are upper bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from hpcforge.blueprint.sections.hardware import Raid
from hpcforge.design.facility.design import about

# Formulas of capacity and throughput, and their formats.

BYTES_PER_GB = 10**9  # makers of drives and networks count in powers of ten (IEC 80000-13)
BYTES_PER_TIB = 2**40  # df -h, lfs df -h and quotas in powers of two (the same)
# Around each packet on the wire. Ethernet: header 14, check 4, preamble 8, gap 12 (IEEE 802.3, clauses 3 and 4). IPoIB
# on InfiniBand: LRH 8, BTH 12, DETH 8, IPoIB 4, ICRC 4, VCRC 2 (InfiniBand Architecture Specification 1, chapters 5,
# 7 and 9; RFC 4391). Both have the same sum.
_FRAME = 38
_VLAN = 4  # IEEE 802.1Q
_HEADERS = 20 + 20 + 12  # IPv4, TCP, TCP's timestamps (RFC 791, 9293, 7323)
_DEFAULT_MTU = {"infiniband": 2_044}  # of IPoIB's datagram mode (RFC 4391: 2,048 less 4)
_ETHERNET_MTU = 1_500  # IEEE 802.3


def tib(capacity_gb: float) -> float:
    """Convert decimal gigabytes to TiB."""
    return capacity_gb * BYTES_PER_GB / BYTES_PER_TIB


def payload_share(kind: str, mtu: int | None, *, tagged: bool) -> float:
    """Return the part of a link's rate for TCP's payload: (MTU - headers) / (MTU + framing).

    `mtu` in bytes, None: the default of interfaces of that kind of fabric. `tagged`: frames have a VLAN tag.
    """
    size = mtu or _DEFAULT_MTU.get(kind, _ETHERNET_MTU)
    return (size - _HEADERS) / (size + _FRAME + (_VLAN if tagged else 0))


def link_gb_per_s(rate_gbps: float, links: int, share: float) -> float:
    """Return the capacity of links together in one direction, GB/s: rate in Gb/s x links x payload / 8 bits a byte."""
    return rate_gbps * links * share / 8


def raid_read_gb_per_s(drives: int, each_gb_per_s: float) -> float:
    """Return the rate of large reads of all drives in groups, GB/s: data and parity are spread over all, so all read.

    Source: Chen, Lee, Gibson, Katz, Patterson: RAID: High-Performance, Reliable Secondary Storage, ACM Computing
    Surveys 26 (1994), table 4: 1 of the drives' rate, at levels 1, 5 and 6.
    """
    return drives * each_gb_per_s


def raid_write_gb_per_s(drives: int, data: int, parity: int, each_gb_per_s: float) -> float:
    """Return the rate of large writes in groups of `data` + `parity` drives, GB/s: parity is not a part of a file.

    Source: as of `raid_read_gb_per_s`: 1/2 at level 1, (G - 1)/G at level 5, (G - 2)/G at level 6.
    """
    return drives * each_gb_per_s * data / (data + parity)


def write_tib(capacity_tib: float, digits: int = 1) -> str:
    """`279.4 TiB`."""
    return f"{capacity_tib:,.{digits}f} TiB"


def write_rate(gb_per_s: float, digits: int = 1) -> str:
    """`49.5 GB/s`; below 1 GB/s `728 MB/s`."""
    if abs(gb_per_s) < 1:
        return f"{gb_per_s * 1_000:,.{max(0, digits - 1)}f} MB/s"
    return f"{gb_per_s:,.{digits}f} GB/s"


Direction = Literal["read", "write"]


@dataclass(frozen=True)
class ServerDrives:
    """Drives of one model in a server; None: not known."""

    model: str
    count: int
    groups: int  # that they form; without a declared RAID each drive is one
    capacity_gb: float | None
    read_gb_per_s: float | None
    write_gb_per_s: float | None

    def rate(self, direction: Direction) -> float | None:
        """Return the rate of one server or drive in a direction, GB/s."""
        return self.read_gb_per_s if direction == "read" else self.write_gb_per_s


@dataclass(frozen=True)
class NodeLink:
    """The links of a fabric that a node uses together."""

    fabric: str
    kind: str
    rate_gbps: float
    links: int
    mtu: int | None
    tagged: bool

    @property
    def share(self) -> float:
        """The part of the rate for files."""
        return payload_share(self.kind, self.mtu, tagged=self.tagged)

    @property
    def gb_per_s(self) -> float:
        """Its capacity in one direction, GB/s."""
        return link_gb_per_s(self.rate_gbps, self.links, self.share)

    @property
    def terms(self) -> str:
        """The terms of the capacity."""
        return f"{self.links} x {self.rate_gbps:g} Gb/s of {self.fabric} x {self.share:.3f} payload / 8"


@dataclass(frozen=True)
class StorageNeeds:
    """The needs of jobs on all nodes together, from one server; None: not set."""

    capacity_tib: float | None = None
    read_gb_per_s: float | None = None
    write_gb_per_s: float | None = None

    def rate(self, direction: Direction) -> float | None:
        """Return the required rate in a direction, GB/s."""
        return self.read_gb_per_s if direction == "read" else self.write_gb_per_s


@dataclass(frozen=True)
class ServedFileSystem:
    """A file system and the node that has its files."""

    name: str
    kind: str
    server: str
    hardware: str  # the server's model
    drives: tuple[ServerDrives, ...]  # already in groups; empty: not declared
    raid: Raid | None  # of these drives; None: not declared
    network: str  # of clients to the server
    link: NodeLink | None  # None: no possible fabric carries that network to the server
    clients: int  # nodes that mount it over the network
    client_link: NodeLink | None  # the least of theirs; None: not known of all
    needs: StorageNeeds = StorageNeeds()
    path: str | None = None  # of the files on the server
    volume: str | None = None  # entry of `storage` with the files, built by apply; None: the site's own at `path`
    level: int | None = None  # RAID of that volume; None: one drive
    declared: Raid | None = None  # of all drives by the hardware entry, if a volume has the files

    @property
    def data(self) -> int:
        """The number of a group's drives for data."""
        return self.raid.data if self.raid else 1

    @property
    def size(self) -> int:
        """The number of a group's drives."""
        return self.raid.data + self.raid.parity if self.raid else 1

    @property
    def raw_tib(self) -> float | None:
        """The capacity of all drives, TiB; None: not known."""
        drives = [(drive.count, drive.capacity_gb) for drive in self.drives]
        if not drives or any(capacity_gb is None for _, capacity_gb in drives):
            return None
        return tib(sum(count * (capacity_gb or 0.0) for count, capacity_gb in drives))

    @property
    def capacity_tib(self) -> float | None:
        """The highest capacity, before the file system's own use, TiB; without declared groups that of all drives."""
        drives = [(drive.groups * self.data, drive.capacity_gb) for drive in self.drives if drive.groups]
        if not self.drives or any(capacity_gb is None for _, capacity_gb in drives):
            return None
        return tib(sum(count * (capacity_gb or 0.0) for count, capacity_gb in drives))

    def of_drives(self, direction: Direction) -> float | None:
        """Return the highest rate of the drives, GB/s."""
        drives = [(drive.groups * self.size, drive.rate(direction)) for drive in self.drives if drive.groups]
        if not self.drives or any(rate is None for _, rate in drives):
            return None
        if direction == "read":
            return sum(raid_read_gb_per_s(count, rate or 0.0) for count, rate in drives)
        return sum(raid_write_gb_per_s(count, self.data, self.size - self.data, rate or 0.0) for count, rate in drives)

    def most(self, direction: Direction) -> float | None:
        """Return the lesser of the known rates of drives and links, GB/s, the upper bound. None: neither is known."""
        return min((rate for rate in (self.of_drives(direction), self.of_link) if rate is not None), default=None)

    def gives(self, direction: Direction) -> float | None:
        """Return the delivered rate, GB/s; None: the rate of drives or links is not known."""
        return None if self.raid is None or None in (self.of_drives(direction), self.of_link) else self.most(direction)

    @property
    def of_link(self) -> float | None:
        """The capacity of the server's links, GB/s."""
        return None if self.link is None else self.link.gb_per_s

    def bound(self, direction: Direction) -> Literal["drives", "links"] | None:
        """Return the slower of drives and links, of the known ones."""
        most = self.most(direction)
        return None if most is None else "links" if most == self.of_link else "drives"

    def each(self, direction: Direction) -> float | None:
        """Return the rate of each of all active clients, GB/s: its share, at most the capacity of its own links."""
        gives = self.gives(direction)
        if gives is None or not self.clients or self.client_link is None:
            return None
        return min(gives / self.clients, self.client_link.gb_per_s)

    @property
    def left_over(self) -> int:
        """The number of drives without a group."""
        return sum(drive.count - drive.groups * self.size for drive in self.drives)


def grouped(counts: Sequence[int], raid: Raid | None) -> tuple[int, ...]:
    """Return the number of groups of each model of drive: in their order, as many as declared."""
    if raid is None:
        return tuple(counts)
    size, remaining, groups = raid.data + raid.parity, raid.groups, list[int]()
    for count in counts:
        formed = count // size if remaining is None else min(count // size, remaining)
        groups.append(formed)
        remaining = None if remaining is None else remaining - formed
    return tuple(groups)


# A file system in `hpcforge design --json` and in summaries.
#
# Throughput is in GB/s (10^9 bytes) of one direction, of large files read or written in one go; capacity is in TiB
# (2^40 bytes), before what the file system itself takes.


@dataclass(frozen=True)
class DriveLot:
    """Drives of a server that are alike."""

    model: Annotated[str, about("Model in the catalog or the blueprint, or a size.")]
    count: Annotated[int, about("Number in the server.")]
    groups: Annotated[int, about("Number of groups; each drive is a group if none is set.")]
    capacity_gb: Annotated[float | None, about("Capacity of one, decimal gigabytes; null: not known.")]


@dataclass(frozen=True)
class Throughput:
    """What comes through in one direction."""

    drives_gb_per_s: Annotated[
        float | None, about("Rate of all groups, GB/s; all drives if no groups are set; null: not known.")
    ]
    links_gb_per_s: Annotated[float | None, about("Rate of the server's links, GB/s; null: not known.")]
    gb_per_s: Annotated[float | None, about("The lower of both, GB/s; null: one is not known.")]
    bound: Annotated[Literal["drives", "links"] | None, about("The lower known rate; null: none is known.")]
    each_client_gb_per_s: Annotated[
        float | None, about("Rate of each client when all are active, GB/s; null: not known, or no client.")
    ]
    needed_gb_per_s: Annotated[float | None, about("Required rate of this server, GB/s; null: none.")]


@dataclass(frozen=True)
class FileSystemDesign:
    """One file system that a node serves. Those of one server share its drives and links."""

    name: Annotated[str, about("Its name in the blueprint.")]
    kind: Annotated[str, about("Kind of file system.")]
    server: Annotated[str, about("The node that has the files.")]
    hardware: Annotated[str, about("The server's model.")]
    drives: Annotated[tuple[DriveLot, ...], about("The server's drives; empty: not set.")]
    volume: Annotated[
        str | None, about("The volume of `storage` that has its files, built by apply; null: the site's own array.")
    ]
    group: Annotated[str | None, about("Data and parity drives of a group, 10 + 2; null: no groups are set.")]
    left_over: Annotated[int, about("Drives that are in no group.")]
    capacity_tib: Annotated[float | None, about("Capacity of the groups, TiB; null: not known.")]
    raw_tib: Annotated[float | None, about("Capacity of all drives, TiB; null: not known.")]
    needed_tib: Annotated[float | None, about("Required capacity of this server, TiB; null: none.")]
    link: Annotated[str | None, about("The links to the server, as text; null: not known.")]
    clients: Annotated[int, about("Nodes that mount it over the network.")]
    read: Annotated[Throughput, about("Large reads.")]
    write: Annotated[Throughput, about("Large writes.")]


def file_system_design(file_system: ServedFileSystem) -> FileSystemDesign:
    """Return the summary of a file system."""
    raid = file_system.raid
    return FileSystemDesign(
        name=file_system.name,
        kind=file_system.kind,
        server=file_system.server,
        hardware=file_system.hardware,
        drives=tuple(DriveLot(lot.model, lot.count, lot.groups, lot.capacity_gb) for lot in file_system.drives),
        volume=file_system.volume,
        group=f"{raid.data} + {raid.parity}" if raid else None,
        left_over=file_system.left_over,
        capacity_tib=file_system.capacity_tib if raid else None,
        raw_tib=file_system.raw_tib,
        needed_tib=file_system.needs.capacity_tib,
        link=file_system.link.terms if file_system.link else None,
        clients=file_system.clients,
        read=_throughput(file_system, "read"),
        write=_throughput(file_system, "write"),
    )


def _throughput(file_system: ServedFileSystem, direction: Direction) -> Throughput:
    return Throughput(
        drives_gb_per_s=file_system.of_drives(direction),
        links_gb_per_s=file_system.of_link,
        gb_per_s=file_system.gives(direction),
        bound=file_system.bound(direction),
        each_client_gb_per_s=file_system.each(direction),
        needed_gb_per_s=file_system.needs.rate(direction),
    )
