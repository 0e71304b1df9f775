"""What a file system comes to: its part of `hpcforge design --json`, and all that summaries show. Pure.

Throughput is in GB/s (10^9 bytes) of one direction, of large files read or written in one go; capacity is in TiB
(2^40 bytes), before what the file system itself takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hpcforge.design.facility.design import about
from hpcforge.design.storage.capacity import Direction, ServedFileSystem


@dataclass(frozen=True)
class DriveLot:
    """Drives of a server that are alike."""

    model: Annotated[str, about("Model in the catalog or the blueprint, or a size.")]
    count: Annotated[int, about("How many the server has.")]
    groups: Annotated[int, about("Groups that they form; each drive is one if no groups are set.")]
    capacity_gb: Annotated[float | None, about("Capacity of one, decimal gigabytes; null: not known.")]


@dataclass(frozen=True)
class Throughput:
    """What comes through in one direction."""

    drives_gb_per_s: Annotated[
        float | None, about("Rate of all groups, GB/s; all drives if no groups are set; null: not known.")
    ]
    links_gb_per_s: Annotated[float | None, about("What the server's links carry, GB/s; null: not known.")]
    gb_per_s: Annotated[float | None, about("The less of both, GB/s; null: one of them is not known.")]
    bound: Annotated[Literal["drives", "links"] | None, about("Which of those that are known is less; null: none is.")]
    each_client_gb_per_s: Annotated[
        float | None, about("Rate of each client when all are active, GB/s; null: not known, or there is none.")
    ]
    needed_gb_per_s: Annotated[float | None, about("Required rate of this server, GB/s; null: none.")]


@dataclass(frozen=True)
class FileSystemDesign:
    """One file system that a node serves. Those of one server share its drives and links."""

    name: Annotated[str, about("Its name in the blueprint.")]
    kind: Annotated[str, about("How nodes reach it.")]
    server: Annotated[str, about("The node that has the files.")]
    hardware: Annotated[str, about("The server's model.")]
    drives: Annotated[tuple[DriveLot, ...], about("The server's drives; none: not said.")]
    volume: Annotated[
        str | None, about("The volume of `storage` that has its files, built by apply; null: what the site has there.")
    ]
    group: Annotated[str | None, about("Data and parity drives of a group, 10 + 2; null: no groups are set.")]
    left_over: Annotated[int, about("Drives that are in no group.")]
    capacity_tib: Annotated[float | None, about("What the groups hold, TiB; null: not known.")]
    raw_tib: Annotated[float | None, about("What all drives hold, TiB; null: not known.")]
    needed_tib: Annotated[float | None, about("Required capacity of this server, TiB; null: none.")]
    link: Annotated[str | None, about("How the server is reached, in words; null: not known.")]
    clients: Annotated[int, about("Nodes that mount it over the network.")]
    read: Annotated[Throughput, about("Large reads.")]
    write: Annotated[Throughput, about("Large writes.")]


def file_system_design(file_system: ServedFileSystem) -> FileSystemDesign:
    """Sum a file system up."""
    raid = file_system.raid
    return FileSystemDesign(
        name=file_system.name,
        kind=file_system.kind,
        server=file_system.server,
        hardware=file_system.hardware,
        drives=tuple(DriveLot(each.model, each.count, each.groups, each.capacity_gb) for each in file_system.drives),
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
