"""The bill of materials: what the blueprint comes to, line by line. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hpcforge.blueprint.hardware import CatalogEntry
from hpcforge.blueprint.values import counted
from hpcforge.design.facility.design import BomLine
from hpcforge.design.facility.room import NodeKind, Room


def bom(room: Room) -> tuple[BomLine, ...]:
    """Return one line a model: servers, what is fitted into them, switches, racks, PDUs and UPSs."""
    return (*_servers(room), *_fitted(room), *_switches(room), *_racks(room), *_ups(room))


def _servers(room: Room) -> Iterator[BomLine]:
    counts: dict[tuple[str, float | None], int] = defaultdict(int)
    for kind in _metal(room):
        counts[kind.model, kind.watts.node_w] += len(kind.names)
    for (model, each_w), count in counts.items():
        server = room.catalog.servers[model]
        yield BomLine("server", model, said(server), count, False, each_w, server.weight_kg)


def _metal(room: Room) -> Iterator[NodeKind]:
    return (kind for kind in room.kinds if kind.metal)


def _fitted(room: Room) -> Iterator[BomLine]:
    """GPUs, adapters and drives; `included` where a server model comes with them."""
    gpus: dict[tuple[str, bool], int] = defaultdict(int)
    nics: dict[str, int] = defaultdict(int)
    drives: dict[str, int] = defaultdict(int)
    for kind in _metal(room):
        if kind.gpus:
            own = room.blueprint.hardware.get(kind.model)
            included = kind.gpus == kind.server.gpus and not (own and own.gpus)
            gpus[kind.gpus.model, included] += kind.gpus.count * len(kind.names)
        for count, model in map(counted, kind.server.nics):
            nics[model] += count * len(kind.names)
        for count, model in map(counted, kind.server.nvme):
            drives[model] += count * len(kind.names)
    for (model, included), count in gpus.items():
        gpu = room.catalog.gpus.get(model)
        yield BomLine("gpu", model, said(gpu), count, included, gpu.tdp_w if gpu else None, None)
    for model, count in nics.items():
        nic = room.catalog.nics.get(model)
        yield BomLine("nic", model, said(nic), count, False, nic.max_w if nic else None, None)
    for model, count in drives.items():
        drive = room.catalog.drives.get(model)
        yield BomLine("drive", model, said(drive), count, False, drive.max_w if drive else None, None)


def _switches(room: Room) -> Iterator[BomLine]:
    counts: dict[str, int] = defaultdict(int)
    for mount in room.mounts:
        counts[mount.model] += 1
    for model, count in counts.items():
        switch = room.catalog.switches[model]
        yield BomLine("switch", model, said(switch), count, False, switch.max_w, switch.weight_kg)


def _racks(room: Room) -> Iterator[BomLine]:
    racks: dict[str, int] = defaultdict(int)
    pdus: dict[str, int] = defaultdict(int)
    for rack in room.racks.values():
        racks[rack.spec.model] += 1
        if rack.spec.pdu:
            pdus[rack.spec.pdu] += len(rack.spec.feeds)
    for model, count in racks.items():
        rack_model = room.catalog.racks[model]
        yield BomLine("rack", model, said(rack_model), count, False, None, rack_model.weight_kg)
    for model, count in pdus.items():
        pdu = room.catalog.pdus[model]
        yield BomLine("pdu", model, said(pdu), count, False, None, pdu.weight_kg)


def _ups(room: Room) -> Iterator[BomLine]:
    counts: dict[str, int] = defaultdict(int)
    for feed in room.feeds.values():
        if feed.ups and feed.ups.model:
            counts[feed.ups.model] += feed.ups.count
    for model, count in counts.items():
        ups = room.catalog.ups[model]
        yield BomLine("ups", model, said(ups), count, False, None, ups.weight_kg)


def said(entry: CatalogEntry | None) -> str:
    """What an entry is, in a sentence, or what it is like; "" where nobody has said."""
    if entry is None:
        return ""
    return entry.description or (f"like {entry.like}" if entry.like else "")
