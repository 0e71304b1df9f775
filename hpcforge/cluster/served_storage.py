"""The file systems that nodes serve, in numbers: their drives, links and clients. Pure."""

from __future__ import annotations

from hpcforge.blueprint.sections.hardware import Raid, Server
from hpcforge.blueprint.sections.storage import StorageNeedsSection as Said
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster, Network, OwnLinks
from hpcforge.cluster.storage import FileSystem, size_mb
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.site import PlacedSite
from hpcforge.design.storage.capacity import NodeLink, ServedFileSystem, ServerDrives, StorageNeeds, grouped
from hpcforge.kinds import spare


def served(cluster: Cluster, placed: PlacedSite) -> tuple[ServedFileSystem, ...]:
    """Return the file systems that nodes of the blueprint serve, with their servers."""
    return tuple(
        _served(file_system, file_system.server, cluster, placed)
        for file_system in cluster.storage
        if file_system.server
    )


def _served(file_system: FileSystem, server: str, cluster: Cluster, placed: PlacedSite) -> ServedFileSystem:
    room = placed.room
    kind = room.kind_of[server]
    network = next(
        network for network in cluster.networks if network.name == (file_system.network or cluster.network.name)
    )
    fabric = next((fabric for fabric in placed.fabrics if fabric.name == network.fabric), None)
    clients = [name for name in file_system.on if name != server]
    own = {links.node: links for plan in cluster.fabrics if plan.name == network.fabric for links in plan.own_links}
    links = [_link(name, network, fabric, own.get(name)) for name in clients]
    certain = [link for link in links if link is not None]
    below = room.blueprint.storage[file_system.volume] if file_system.volume else None
    drives, raid = (
        _volume_drives(below.drives, below.raid or 0, room.catalog)
        if below and below.drives
        else (_server_drives(kind.server, room.catalog), kind.server.raid)
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
        client_link=min(certain, key=lambda link: link.gb_per_s) if certain and len(certain) == len(links) else None,
        needs=_needs(room.blueprint.storage[file_system.name].needs),
        path=file_system.path,
        volume=file_system.volume,
        level=(below.raid or 0) if below and sum(lot.count for lot in drives) > 1 else None,
        declared=kind.server.raid if below else None,
    )


def _needs(needs: Said | None) -> StorageNeeds:
    return (
        StorageNeeds() if needs is None else StorageNeeds(needs.capacity_tib, needs.read_gb_per_s, needs.write_gb_per_s)
    )


def _server_drives(server: Server, catalog: Catalog) -> tuple[ServerDrives, ...]:
    lots = [counted(text) for text in server.nvme]
    groups = grouped([count for count, _ in lots], server.raid)
    return tuple(_drive_group(model, count, group, catalog) for (count, model), group in zip(lots, groups, strict=True))


def _volume_drives(drives: str, level: int, catalog: Catalog) -> tuple[tuple[ServerDrives, ...], Raid]:
    """Return the drives of a volume that apply builds, all in one group, and the share for files."""
    count, model = counted(drives)
    parity = spare(level, count)
    return (_drive_group(model, count, 1, catalog),), Raid.model_construct(data=count - parity, parity=parity, groups=1)


def _drive_group(model: str, count: int, groups: int, catalog: Catalog) -> ServerDrives:
    drive, mb = catalog.drives.get(model), size_mb(model, catalog)
    capacity_gb = mb / 1000 if mb is not None else None
    if drive is None:  # a size, as in 24 x 15.36TB
        return ServerDrives(model, count, groups, capacity_gb, None, None)
    return ServerDrives(model, count, groups, capacity_gb, drive.read_gb_per_s, drive.write_gb_per_s)


def _link(node: str, network: Network, fabric: Fabric | None, own: OwnLinks | None) -> NodeLink | None:
    """Return a node's link to a network: all its links if they are one bond that shares traffic, else one of them."""
    at = fabric.index.get(node) if fabric else None
    if fabric is None or at is None:
        return None
    links = fabric.devices[at].ports if ((own and own.bond) or network.bond) == "802.3ad" else 1
    rate_gbps = fabric.devices[at].rate_gbps or fabric.rate_gbps
    return NodeLink(fabric.name, fabric.kind, rate_gbps, links, network.mtu, network.vlan is not None)
