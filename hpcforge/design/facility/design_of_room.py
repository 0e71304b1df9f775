"""The design of a room, with the result of every rule. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.sections.hardware import CatalogEntry
from hpcforge.blueprint.values import counted, minutes
from hpcforge.design.facility import design as d
from hpcforge.design.facility import limits, units
from hpcforge.design.facility.design import BomLine
from hpcforge.design.facility.feeds import Carried, carried, run_time_min
from hpcforge.design.facility.layout import Item, Layout
from hpcforge.design.facility.loads import LoadedRack, load_racks
from hpcforge.design.facility.placement import pdu_names
from hpcforge.design.facility.power_rules import power_breaches, surviving, worst_loss
from hpcforge.design.facility.rack_rules import free_u, is_impossible, node_breaches, rack_breaches
from hpcforge.design.facility.room import NodeKind, Room
from hpcforge.design.facility.rules import Breach
from hpcforge.design.facility.site_rules import (
    cooling_breaches,
    feed_breaches,
    heat_limit_w,
    missing_parts,
    site_breaches,
    unknown_power,
)


# The bill of materials, line by line.
def bom(room: Room) -> tuple[BomLine, ...]:
    """Return one line a model: servers, what is fitted into them, switches, racks, PDUs and UPSs."""
    return (*_servers(room), *_fitted(room), *_switches(room), *_racks(room), *_ups_lines(room))


def _servers(room: Room) -> Iterator[BomLine]:
    counts: dict[tuple[str, float | None], int] = defaultdict(int)
    for kind in _metal(room):
        counts[kind.model, kind.watts.node_w] += len(kind.names)
    for (model, each_w), count in counts.items():
        server = room.catalog.servers[model]
        yield BomLine("server", model, describe(server), count, False, each_w, server.weight_kg)


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
        yield BomLine("gpu", model, describe(gpu), count, included, gpu.tdp_w if gpu else None, None)
    for model, count in nics.items():
        nic = room.catalog.nics.get(model)
        yield BomLine("nic", model, describe(nic), count, False, nic.max_w if nic else None, None)
    for model, count in drives.items():
        drive = room.catalog.drives.get(model)
        yield BomLine("drive", model, describe(drive), count, False, drive.max_w if drive else None, None)


def _switches(room: Room) -> Iterator[BomLine]:
    counts: dict[str, int] = defaultdict(int)
    for mount in room.mounts:
        counts[mount.model] += 1
    for model, count in counts.items():
        switch = room.catalog.switches[model]
        yield BomLine("switch", model, describe(switch), count, False, switch.max_w, switch.weight_kg)


def _racks(room: Room) -> Iterator[BomLine]:
    racks: dict[str, int] = defaultdict(int)
    pdus: dict[str, int] = defaultdict(int)
    for rack in room.racks.values():
        racks[rack.spec.model] += 1
        if rack.spec.pdu:
            pdus[rack.spec.pdu] += len(rack.spec.feeds)
    for model, count in racks.items():
        rack_model = room.catalog.racks[model]
        yield BomLine("rack", model, describe(rack_model), count, False, None, rack_model.weight_kg)
    for model, count in pdus.items():
        pdu = room.catalog.pdus[model]
        yield BomLine("pdu", model, describe(pdu), count, False, None, pdu.weight_kg)


def _ups_lines(room: Room) -> Iterator[BomLine]:
    counts: dict[str, int] = defaultdict(int)
    for feed in room.feeds.values():
        if feed.ups and feed.ups.model:
            counts[feed.ups.model] += feed.ups.count
    for model, count in counts.items():
        ups = room.catalog.ups[model]
        yield BomLine("ups", model, describe(ups), count, False, None, ups.weight_kg)


def describe(entry: CatalogEntry | None) -> str:
    """Return an entry's description in a sentence, or the entry that it resembles; "" without either."""
    if entry is None:
        return ""
    return entry.description or (f"like {entry.like}" if entry.like else "")


@dataclass(frozen=True, eq=False)
class Facility:
    """A room with everything in its place, and the breaches of its rules."""

    room: Room
    layout: Layout
    loaded: tuple[LoadedRack, ...]
    feeds: Mapping[str, Carried]
    power: d.Power
    cooling: d.Cooling
    breaches: tuple[Breach, ...]


def facility(room: Room, layout: Layout) -> Facility:
    """Compute the loads of a placed room, and check the rules."""
    loaded = load_racks(room, layout)
    feeds = carried(room, loaded)
    power = _power(room)
    cooling = _cooling(room, power)
    wrong = {kind.names for kind in room.kinds if is_impossible(kind, room.catalog)}
    # without any, skip hashing thousands of names
    possible = [loaded_rack for loaded_rack in loaded if not wrong or not _has_any(loaded_rack, wrong)]
    breaches = (
        *missing_parts(room, layout),
        *node_breaches(room),
        *unknown_power(room),
        *layout.breaches,
        *rack_breaches(room, loaded),
        *power_breaches(room, possible),
        *_unless(bool(wrong), feed_breaches(room, feeds)),
        *cooling_breaches(room, possible),
        *_unless(bool(wrong), site_breaches(room, power, cooling)),
    )
    return Facility(room, layout, loaded, feeds, power, cooling, tuple(_once(breaches)))


def _has_any(rack: LoadedRack, kinds: Set[tuple[str, ...]]) -> bool:
    return any(item.node is not None and item.node.names in kinds for item in rack.items)


def _unless(wrong: bool, breaches: Iterable[Breach]) -> Iterator[Breach]:
    """Leave out errors of sums that include impossible machines."""
    return (breach for breach in breaches if not wrong or breach.judged != "error")


def _once(breaches: Iterable[Breach]) -> Iterator[Breach]:
    """Report an unchecked rule once, though several places may lack the same fact."""
    reported: set[tuple[str, str]] = set()
    for breach in breaches:
        if breach.judged == "not-checked":
            if (breach.code, breach.message) in reported:
                continue
            reported.add((breach.code, breach.message))
        yield breach


def design(facility: Facility, blueprint: str) -> d.FacilityDesign:
    """Return the facility as a design shows it; `blueprint` is the path that it names."""
    room = facility.room
    return d.FacilityDesign(
        name=room.blueprint.name,
        blueprint=blueprint,
        has_site=room.site is not None,
        power=facility.power,
        cooling=facility.cooling,
        feeds=tuple(_feed(facility, name) for name in room.feeds),
        racks=tuple(_rack(room, loaded) for loaded in facility.loaded),
        row=_row(room),
        unplaced=_folded(facility.layout.unplaced),
        exempt=_folded(name for kind in room.kinds if not kind.metal for name in kind.names),
        hardware=_hardware(room),
        bom=tuple(bom(room)),
    )


def _folded(names: Iterable[str]) -> tuple[str, ...]:
    folded = hostlist.fold(names)
    return (folded,) if folded else ()


def _power(room: Room) -> d.Power:
    metal = [kind for kind in room.kinds if kind.metal]
    nodes_w = sum(kind.watts.least_w * len(kind.names) for kind in metal)
    other_w = sum(equipment.max_w for rack in room.racks.values() for equipment in rack.spec.equipment.values())
    switches_w = sum(mount.load.least_w for mount in room.mounts)
    it_w, site = nodes_w + other_w + switches_w, room.site
    diversity = site.power.diversity if site else 1.0
    pue = site.cooling.pue if site else None
    return d.Power(
        it_w=it_w,
        diverse_w=it_w * diversity,
        cooling_w=None if pue is None else it_w * diversity * (pue - 1),
        total_w=None if pue is None else it_w * diversity * pue,
        limit_w=site.power.limit_w if site else None,
        diversity=diversity,
        pue=pue,
        derating=room.derating,
        survive=site.power.survive if site else "none",
        unknown=(
            *_folded(name for kind in metal if kind.watts.node_w is None for name in kind.names),
            *_folded(mount.name for mount in room.mounts if mount.load.power_w is None),
        ),
    )


def _cooling(room: Room, power: d.Power) -> d.Cooling:
    cooling = room.site.cooling if room.site else None
    heat_w, rise_k = power.diverse_w, cooling.rise_k if cooling else None
    air = units.airflow_m3_h(heat_w, rise_k) if rise_k else None
    return d.Cooling(
        method=cooling.method if cooling else None,
        heat_w=heat_w,
        heat_btu_h=units.heat_btu_h(heat_w),
        heat_tons=units.heat_tons(heat_w),
        inlet_c=cooling.inlet_c if cooling else None,
        rise_k=rise_k,
        airflow_m3_h=air,
        airflow_cfm=air * units.CFM_PER_M3_H if air is not None else None,
        limit_w=cooling.limit_w if cooling else None,
    )


def _row(room: Room) -> tuple[str, ...]:
    listed = [name for text in (room.site.row if room.site else ()) for name in hostlist.expand(text)]
    return tuple(dict.fromkeys([*listed, *room.racks]))


def _feed(facility: Facility, name: str) -> d.FeedLoad:
    room, load, feed = facility.room, facility.feeds[name], facility.room.feeds[name]
    diversity = room.site.power.diversity if room.site else 1.0
    return d.FeedLoad(
        name=name,
        volts=feed.volts,
        phase_count=feed.phases,
        load_w=load.load_w * diversity,
        limit_w=limits.feed_w(room, feed),
        load_w_one_lost=load.worst[0],
        phases=_phases(load.phases, tuple(load.lost.values()), feed.volts, load.wiring, limits.feed_a(room, feed)),
        racks=tuple(loaded.rack.name for loaded in facility.loaded if name in loaded.rack.spec.feeds),
        ups=_ups(room, name, load.load_w * diversity),
    )


def _phases(
    loads: Sequence[float], lost: Sequence[Sequence[float]], volts: float, wiring: str | None, limit_a: float | None
) -> tuple[d.Phase, ...]:
    amps = units.line_amps(loads, volts, wiring)
    watts = units.line_watts(loads, wiring)
    worst = [units.line_amps(values, volts, wiring) for values in lost] or [amps]
    return tuple(
        d.Phase(f"L{line + 1}", watts[line], amps[line], limit_a, max(values[line] for values in worst))
        for line in range(len(loads))
    )


def _ups(room: Room, name: str, load_w: float) -> d.UpsDesign | None:
    ups = room.feeds[name].ups
    if ups is None:
        return None
    model = room.catalog.ups.get(ups.model) if ups.model else None
    return d.UpsDesign(
        model=ups.model,
        count=ups.count,
        load_w=load_w,
        capacity_w=model.capacity_w * ups.count if model and model.capacity_w is not None else None,
        wanted_min=minutes(ups.run_time) if ups.run_time else None,
        run_time_min=run_time_min(model, ups.count, load_w) if model else None,
    )


def _rack(room: Room, loaded_rack: LoadedRack) -> d.RackDesign:
    rack, load = loaded_rack.rack, loaded_rack.load
    rise_k = room.site.cooling.rise_k if room.site else None
    return d.RackDesign(
        name=rack.name,
        model=rack.spec.model,
        height_u=rack.model.rack_units,
        used_u=len({unit for item in loaded_rack.items for unit in item.taken}),
        free_u=free_u(loaded_rack),
        power_w=load.power_w,
        limit_w=rack.spec.limit_w,
        power_unknown=load.power_unknown,
        heat_btu_h=units.heat_btu_h(load.power_w),
        cooling_limit_w=heat_limit_w(room, loaded_rack),
        airflow_m3_h=units.airflow_m3_h(load.power_w, rise_k) if rise_k else None,
        weight_kg=load.weight_kg,
        limit_kg=rack.limit_kg,
        weight_unknown=load.weight_unknown,
        survives_one_lost=_survives(room, loaded_rack),
        elevation=_elevation(loaded_rack),
        pdus=_pdus(room, loaded_rack),
    )


def _elevation(loaded_rack: LoadedRack) -> tuple[d.Position, ...]:
    return tuple(
        d.Position(
            node=item.name,
            kind=item.kind,
            model=item.load.label,
            u_bottom=run[0],
            u_height=len(run),
            power_w=_share(item.load.power_w, item),
            weight_kg=_share(item.load.weight_kg, item),
            placed=item.how,
        )
        for item in loaded_rack.items
        for run in item.runs
    )


def _share(quantity: float | None, item: Item) -> float | None:
    return None if quantity is None else quantity / len(item.runs)


def _survives(room: Room, loaded_rack: LoadedRack) -> bool | None:
    if not surviving(room) or not loaded_rack.rack.spec.feeds or not limits.pdus_known(room, loaded_rack.rack):
        return None
    if loaded_rack.load.stranded or worst_loss(room, loaded_rack):
        return False
    return None if loaded_rack.load.supplies_unknown or loaded_rack.load.power_unknown else True


def _pdus(room: Room, loaded_rack: LoadedRack) -> tuple[d.PduLoad, ...]:
    rack, load, pdu = loaded_rack.rack, loaded_rack.load, loaded_rack.rack.pdu
    if pdu is None:
        return ()
    at = {feed: limits.pdu_volts(room, rack, feed) for feed in rack.spec.feeds}
    shown = pdu.phases == 1 or pdu.wiring is not None
    return tuple(
        d.PduLoad(
            name=name,
            model=rack.spec.pdu or "",
            feed=feed,
            load_w=load.pdu_w[index],
            limit_w=limits.pdu_w(room, rack, feed),
            load_w_one_lost=max(map(sum, load.without_another(index, feed))),
            phases=_phases(
                load.phases[index],
                load.without_another(index, feed),
                volts,
                pdu.wiring,
                limits.pdu_a(room, rack),
            )
            if shown and (volts := at[feed]) is not None
            else (),
            outlets_used=load.inlets[index],
            outlets=None if pdu.outlets is None else {str(kind): count for kind, count in pdu.outlets.items()},
        )
        for index, (name, feed) in enumerate(zip(pdu_names(rack), rack.spec.feeds, strict=True))
    )


def _hardware(room: Room) -> tuple[d.Hardware, ...]:
    groups: dict[tuple[object, ...], list[NodeKind]] = defaultdict(list)
    for kind in room.kinds:
        if kind.metal:
            groups[kind.model, kind.watts.node_w, kind.watts.origin, kind.watts.parts].append(kind)
    return tuple(
        d.Hardware(
            model=kinds[0].model,
            nodes=hostlist.fold(name for kind in kinds for name in kind.names),
            count=sum(len(kind.names) for kind in kinds),
            node_w=kinds[0].watts.node_w,
            origin=kinds[0].watts.origin,
            parts=kinds[0].watts.parts,
        )
        for kinds in groups.values()
    )
