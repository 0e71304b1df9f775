"""Check file systems against the catalog's kinds, and judge what their servers carry. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.hardware import Raid, Server
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import LabSection
from hpcforge.blueprint.storage import FileSystemSection
from hpcforge.blueprint.storage import StorageNeedsSection as Said
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import counted
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.catalog import Catalog
from hpcforge.catalog.file_systems import FileSystemKind
from hpcforge.cluster.model import Cluster, Network, OwnLinks
from hpcforge.cluster.storage import FileSystem, size_mb
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.facility.room import Room
from hpcforge.design.facility.rules import Breach
from hpcforge.design.storage.capacity import NodeLink, ServedFileSystem, ServerDrives, StorageNeeds, grouped
from hpcforge.design.storage.rule_checks import judge, not_served
from hpcforge.kinds import spare


# The file systems that nodes serve, in numbers, and the findings of rules.
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


def _server_drives(server: Server, catalog: Catalog) -> tuple[ServerDrives, ...]:
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


Findings = Iterator[Finding]

_OURS = {  # options by which whoever mounts is told when, and by whom
    "_netdev": "hpcforge mounts it after the network is up",
    "auto": "hpcforge mounts it at every start",
    "defaults": "it is not a mount option",
    "noauto": "hpcforge mounts it at every start",
    "nofail": "a start never waits for it",
    "owner": "root mounts it",
    "user": "root mounts it",
    "users": "root mounts it",
}


def storage_kind_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield kinds that there are not, and addresses and options that are wrong for theirs."""
    systems: dict[str, FileSystemSection] = draft.sections["storage"] or {}
    for name, file_system in systems.items():
        loc = ("storage", name)
        kind = catalog.file_systems.get(file_system.kind)
        if kind is None:
            message = f"unknown kind of file system {quote(file_system.kind)}"
            yield Finding((*loc, "kind"), message, did_you_mean(file_system.kind, catalog.file_systems))
            continue
        yield from _where(loc, file_system, kind)
        yield from _options(loc, file_system, kind)
        if file_system.drives is not None:
            yield from _drives(draft, loc, file_system, file_system.drives, catalog)
        if file_system.homes and kind.without_homes:
            message = f"homes cannot be on {file_system.kind}: {kind.without_homes}"
            yield Finding((*loc, "homes"), message, _homes_elsewhere(catalog), key=True)
        if kind.address is None:
            continue
        if file_system.server is not None and not kind.served:
            served = ", ".join(name for name, each in catalog.file_systems.items() if each.served)
            hint = f'external: "{kind.address.example}"; a node of this blueprint may serve {served}'
            yield Finding((*loc, "server"), f"no role serves {file_system.kind}", hint)
        if draft.intact(*loc):
            yield from _several(loc, file_system, kind, catalog)
        if file_system.external is not None and not re.fullmatch(kind.address.pattern, file_system.external):
            message = f"{quote(file_system.external)} is not an address of {file_system.kind}: {kind.address.form}"
            yield Finding((*loc, "external"), message, f'for example "{kind.address.example}"')


def _several(loc: Loc, file_system: FileSystemSection, kind: FileSystemKind, catalog: Catalog) -> Findings:
    """Check several servers, their copies and the arbiter."""
    count, replicas = len(file_system.servers), file_system.replicas or 1
    if not kind.served or not count:
        return
    if file_system.homes and kind.served_without_homes:
        message = f"homes cannot be on {file_system.kind} that nodes serve: {kind.served_without_homes}"
        yield Finding((*loc, "homes"), message, _homes_elsewhere(catalog), key=True)
    if not kind.spread:
        if count > 1:
            yield Finding(
                (*loc, "server"), f"{file_system.kind} is served by one node, not {count}", "take one of them"
            )
        for key in ("replicas", "arbiter"):
            if getattr(file_system, key) is not None:
                yield Finding((*loc, key), f"{file_system.kind} is served by one node", "leave it out", key=True)
    elif file_system.arbiter is not None and (replicas != 2 or file_system.arbiter in file_system.servers):
        message = (
            f"{file_system.arbiter} already stores the files" if replicas == 2 else f"with {replicas} it has no effect"
        )
        hint = "name another node, as the head" if replicas == 2 else "remove it, or replicas: 2"
        yield Finding((*loc, "arbiter"), f"an arbiter needs two copies: {message}", hint)
    elif count > 1 and file_system.replicas is None:
        hint = "replicas: 3; or 2 with an `arbiter`; 1: a failed server loses its files"
        yield Finding(
            (*loc, "server"), f"`replicas` is missing: the number of the {count} servers that store each file", hint
        )
    elif count % replicas:
        message = (
            f"the number of servers ({hostlist.fold(file_system.servers)}) must be a multiple of `replicas`, {replicas}"
        )
        yield Finding((*loc, "replicas"), message, f"{count + replicas - count % replicas} servers, or other replicas")


def _homes_elsewhere(catalog: Catalog) -> str:
    """Where homes of users may be instead: each node's own, made by a node, or the site's."""
    kinds = {name: kind for name, kind in catalog.file_systems.items() if kind.address and not kind.without_homes}
    served = ", ".join(name for name, kind in kinds.items() if kind.served and not kind.served_without_homes)
    return (
        f"remove it for homes on each node; or set it on another kind of file system: one that a node serves "
        f"({served}), or the site's (`external`: {', '.join(kinds)})"
    )


def _where(loc: Loc, file_system: FileSystemSection, kind: FileSystemKind) -> Findings:
    """A kind of drives that is elsewhere, and another that is on drives."""
    key = "server" if file_system.server else "external" if file_system.external else ""
    if kind.address is None and key:
        hint = "name drives from the hardware's `nvme`, such as drives: 8 x 3.84TB"
        yield Finding((*loc, key), f"{file_system.kind} needs `drives` of each node", hint)
    if kind.address is not None and file_system.drives is not None:
        yield Finding((*loc, "drives"), f"{file_system.kind} cannot use `drives`", "say kind: xfs")


def _drives(draft: Draft, loc: Loc, file_system: FileSystemSection, said: str, catalog: Catalog) -> Findings:
    """Drives that the hardware of these nodes is not known to have, and machines that have none."""
    lab = draft.sections["inventory"]
    if isinstance(lab, LabSection) and lab.lab == "nspawn":
        message = "containers have no drives of their own"
        yield Finding((*loc, "drives"), message, "rehearse on virtual machines: inventory: {lab: vm}")
        return
    declared = NamedNodes(draft)
    if not (declared.names_known and all(map(draft.intact, ("nodes", "hardware")))):
        return
    nodes = (
        declared.named(draft, (*loc, "on"), file_system.on)[0] if file_system.on else declared.with_function("worker")
    )
    count, what = counted(said)
    lacking: dict[str, list[str]] = {}
    for node in nodes or ():
        hardware = declared.groups[declared.group_of[node]].hardware
        has = map(counted, catalog.servers[hardware].nvme) if hardware in catalog.servers else ((count, what),)
        if not any(of == what and number >= count for number, of in has):
            lacking.setdefault(hardware, []).append(node)
    for hardware, names in lacking.items():
        has_ = ", ".join(catalog.servers[hardware].nvme)
        like = "" if hardware in draft.keys("hardware") else f"like: {hardware}, "
        hint = f"if the nodes have them: hardware: {{{hardware}: {{{like}nvme: [{said}]}}}}"
        differ = f"differ: {has_}" if has_ else "are not known"
        yield Finding((*loc, "drives"), f"the NVMe drives of {hostlist.fold(names)} ({hardware}) {differ}", hint)


def _options(loc: Loc, file_system: FileSystemSection, kind: FileSystemKind) -> Findings:
    if file_system.options and kind.mounted_by:
        message = f"{file_system.kind} is mounted by {kind.mounted_by}"
        yield Finding((*loc, "options"), message, "set its options there", key=True)
        return
    seen: dict[str, str] = {}
    for place, option in enumerate(file_system.options):
        word = option.partition("=")[0]
        why = kind.refused.get(option) or kind.refused.get(word)
        if why:
            shown = option if option in kind.refused else word  # its value may be a key
            yield Finding(
                (*loc, "options", place), f"`{shown}` is not safe for {file_system.kind}: {why}", "leave it out"
            )
        elif word in _OURS or word.startswith(("x-", "comment")):
            reason = _OURS.get(word, "hpcforge writes the unit itself")
            yield Finding((*loc, "options", place), f"`{option}` cannot be set here: {reason}", "leave it out")
        elif seen.setdefault(word, option) != option or option in file_system.options[:place]:
            yield Finding((*loc, "options", place), f"`{word}` is repeated", f"first as `{seen[word]}`")
