"""The file systems that nodes serve, in numbers, and the findings of rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from hpcforge.blueprint.hardware import Raid, Server
from hpcforge.blueprint.storage import StorageNeedsSection as Said
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster, Network, OwnLinks
from hpcforge.cluster.storage import FileSystem, size_mb
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.facility.room import Room
from hpcforge.design.facility.rules import Breach
from hpcforge.design.storage.capacity import NodeLink, ServedFileSystem, ServerDrives, StorageNeeds, grouped
from hpcforge.design.storage.rule_checks import judge, not_served
from hpcforge.kinds import spare


def served(cluster: Cluster, room: Room, built: Mapping[str, Fabric]) -> tuple[ServedFileSystem, ...]:
    """The file systems that nodes of the blueprint serve, with each of their servers; `built`: its fabrics, by name."""
    return tuple(
        _served(file_system, name, cluster, room, built)
        for file_system in cluster.storage
        for name in file_system.servers
    )


def storage_breaches(room: Room, systems: tuple[ServedFileSystem, ...]) -> Iterator[Breach]:
    """Yield findings of rules for them, and for needs of file systems that no node serves."""
    ours = {file_system.name for file_system in systems}
    others = [
        (name, file_system.needs)
        for name, file_system in room.blueprint.storage.items()
        if file_system.needs and name not in ours
    ]
    foreign = (not_served(name, sorted(needs.model_fields_set)) for name, needs in others)
    return chain(judge(systems, lambda node: room.kind_of[node].loc()), *foreign)


def _served(
    file_system: FileSystem, server: str, cluster: Cluster, room: Room, built: Mapping[str, Fabric]
) -> ServedFileSystem:
    kind = room.kind_of[server]
    network = next(each for each in cluster.networks if each.name == (file_system.network or cluster.network.name))
    fabric = built.get(network.fabric or "")
    clients = [name for name in file_system.on if name != server]
    own = {links.node: links for each in cluster.fabrics if each.name == network.fabric for links in each.own_links}
    links = [_link(name, network, fabric, own.get(name)) for name in clients]
    known = [each for each in links if each is not None]
    below = room.blueprint.storage[file_system.volume] if file_system.volume else None
    drives, raid = (
        _of_volume(below.drives, below.raid or 0, room.catalog)
        if below and below.drives
        else (_drives(kind.server, room.catalog), kind.server.raid)
    )
    return ServedFileSystem(
        name=file_system.name,
        kind=file_system.kind,
        server=server,
        hardware=kind.model,
        drives=drives,
        raid=raid,
        network=network.name,
        link=_link(server, network, fabric, own.get(server)),
        clients=len(clients),
        client_link=min(known, key=lambda each: each.gb_per_s) if known and len(known) == len(links) else None,
        needs=_needs(room.blueprint.storage[file_system.name].needs, len(file_system.servers), file_system.replicas),
        servers=file_system.servers,
        replicas=file_system.replicas,
        arbiter=file_system.arbiter is not None,
        path=file_system.path,
        volume=file_system.volume,
        level=(below.raid or 0) if below and sum(each.count for each in drives) > 1 else None,
        declared=kind.server.raid if below else None,
    )


def _needs(said: Said | None, servers: int, replicas: int) -> StorageNeeds:
    """One server's part: each file is on `replicas` of them, written to each of these, and read from one."""
    if said is None:
        return StorageNeeds()
    capacity, read, write = (
        None if need is None else need * copies / servers
        for need, copies in ((said.capacity_tib, replicas), (said.read_gb_per_s, 1), (said.write_gb_per_s, replicas))
    )
    return StorageNeeds(capacity, read, write)


def _drives(server: Server, catalog: Catalog) -> tuple[ServerDrives, ...]:
    lots = [counted(text) for text in server.nvme]
    groups = grouped([count for count, _ in lots], server.raid)
    return tuple(_alike(model, count, some, catalog) for (count, model), some in zip(lots, groups, strict=True))


def _of_volume(said: str, level: int, catalog: Catalog) -> tuple[tuple[ServerDrives, ...], Raid]:
    """The drives of a volume that apply builds, all in one group, and the share for files."""
    count, model = counted(said)
    parity = spare(level, count)
    return (_alike(model, count, 1, catalog),), Raid.model_construct(data=count - parity, parity=parity, groups=1)


def _alike(model: str, count: int, groups: int, catalog: Catalog) -> ServerDrives:
    drive, mb = catalog.drives.get(model), size_mb(model, catalog)
    capacity_gb = mb / 1000 if mb is not None else None
    if drive is None:  # a size, as in 24 x 15.36TB
        return ServerDrives(model, count, groups, capacity_gb, None, None)
    return ServerDrives(model, count, groups, capacity_gb, drive.read_gb_per_s, drive.write_gb_per_s)


def _link(node: str, network: Network, fabric: Fabric | None, own: OwnLinks | None) -> NodeLink | None:
    """How a node is reached on a network: all its links where they are one bond that shares out, else one of them."""
    at = fabric.index.get(node) if fabric else None
    if fabric is None or at is None:
        return None
    links = fabric.devices[at].ports if ((own and own.bond) or network.bond) == "802.3ad" else 1
    rate_gbps = fabric.devices[at].rate_gbps or fabric.rate_gbps
    return NodeLink(fabric.name, fabric.kind, rate_gbps, links, network.mtu, network.vlan is not None)
