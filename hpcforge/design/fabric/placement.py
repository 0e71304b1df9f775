"""Fabrics in a room: positions of switches, lengths of cables, and the breaches of their rules. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.site import Cabling
from hpcforge.catalog import Catalog
from hpcforge.design.fabric.cabling import UNKNOWN, Cabled, cabled
from hpcforge.design.fabric.cages import cages_of
from hpcforge.design.fabric.floor import Spot, equipment_name, row, run_terms, spots
from hpcforge.design.fabric.graph import ENDS, Fabric
from hpcforge.design.fabric.rules import breach
from hpcforge.design.facility.layout import Layout
from hpcforge.design.facility.room import Load, Room, SwitchPlace
from hpcforge.design.facility.rules import Breach


@dataclass(frozen=True)
class Laid:
    """All fabrics with their cables, and the breaches of the rules for these."""

    fabrics: tuple[Cabled, ...]
    breaches: tuple[Breach, ...]


def mounts(blueprint: Blueprint, catalog: Catalog, built: Iterable[Fabric]) -> Iterator[SwitchPlace]:
    """Yield every switch with the racks that its fabric names, the first as many in the first rack, and so on."""
    loads: dict[str, Load] = {}
    for fabric in built:
        declared = blueprint.fabrics[fabric.name].switches_in
        racks = tuple(dict.fromkeys(name for text in declared for name in hostlist.expand(text)))
        switches = [(device.name, device.model) for device in fabric.devices if device.model is not None]
        for index, (name, model) in enumerate(switches):
            facts = catalog.switches[model]
            load = loads.setdefault(model, Load(model, facts.max_w, facts.psu, facts.weight_kg))
            first = index * len(racks) // len(switches)
            loc = ("fabrics", fabric.name, "switches_in")
            yield SwitchPlace(name, model, load, facts.rack_units, racks, first, loc)


def lay(room: Room, layout: Layout, built: Sequence[Fabric]) -> Laid:
    """Cut the cables of all fabrics to length, and judge them."""
    at = spots(room, layout)
    rules = room.site.cabling if room.site else Cabling.model_construct()
    cablings = []
    for fabric in built:
        spec = room.blueprint.fabrics[fabric.name]
        ends = dict(_endpoint_spots(room, fabric, spec.endpoints, at))
        cages = cages_of(fabric, room.blueprint, room.catalog)
        cablings.append(cabled(fabric, {**ends, **at}, rules, room.catalog.cables, cages))
    return Laid(tuple(cablings), tuple(finding for cabling in cablings for finding in _judge(room, cabling)))


def _endpoint_spots(
    room: Room, fabric: Fabric, groups: Iterable[str], at: dict[str, Spot]
) -> Iterator[tuple[str, Spot]]:
    """Place ends that are not nodes at the equipment of their name: ufm-1 at the first rack's `ufm`, and so on."""
    racks = row(room.site, room.racks) if room.site else ()
    places = {group: [spot for rack in racks if (spot := at.get(equipment_name(rack, group)))] for group in groups}
    for device in fabric.devices:
        group, _, number = device.name.rpartition("-")
        if device.kind == "endpoint" and places.get(group):
            yield device.name, places[group][(int(number) - 1) % len(places[group])]


def _judge(room: Room, cabling: Cabled) -> Iterator[Breach]:
    name, loc = cabling.fabric.name, ("fabrics", cabling.fabric.name)
    if not room.racks:
        missing = f"{name}: without racks, cables have no lengths"
        yield breach("CABLE-002", loc, missing, hint="add `site: {racks: ...}` and `switches_in`", key=True)
        return
    yield from _unplaced(room, cabling)
    yield from _too_long(cabling, room.catalog)
    yield from _made_for_others(room, cabling)
    yield from _unknown_ways(cabling)


def _unplaced(room: Room, cabling: Cabled) -> Iterator[Breach]:
    """Report devices without a declared place; RACK-011 reports switches without room in their racks."""
    name = cabling.fabric.name
    switches = {device.name for device in cabling.fabric.devices if device.kind not in ENDS}
    reported = switches if room.blueprint.fabrics[name].switches_in else set[str]()
    without = [device for device in cabling.unplaced if device not in reported]
    if without:
        missing = f"{name}: {hostlist.fold(without)} without a place, so cables that end there have no lengths"
        remedy = "switches_in: its racks" if switches.intersection(without) else "give `rack` and `u`"
        hint = f"{remedy}; subnet managers and storage stand where `equipment` of their name does"
        yield breach("CABLE-002", ("fabrics", name), missing, hint=hint, key=True)


def _too_long(cabling: Cabled, catalog: Catalog) -> Iterator[Breach]:
    """Report cables longer than any sold, by kind, with the terms of the longest."""
    name = cabling.fabric.name
    unreached = [
        cable for cable, model in enumerate(cabling.model) if model == UNKNOWN and cabling.run_m[cable] != UNKNOWN
    ]
    for code, link in enumerate(cabling.links):
        cables = [cable for cable in unreached if cabling.link[cable] == code]
        if not cables:
            continue
        kind, rate, reach_m = link.kind, link.rate_gbps, cabling.reach_m[code]
        if not reach_m and not any(model.rate_gbps == rate for model in catalog.cables.values()):
            missing = f"{name}: the site buys no known cable of {rate:g} Gb/s"
            yield breach("CABLE-003", ("fabrics", name, "rate_gbps"), missing, hint="add one under `parts.cables`")
        if not reach_m:  # CABLE-005 reports cables that do not fit
            continue
        worst = max(cables, key=lambda cable: cabling.run_m[cable])
        a, b = (cabling.spots[end[worst]] for end in (cabling.fabric.cables.a, cabling.fabric.cables.b))
        sums = f"{run_terms(a, b, cabling.rules)} > {reach_m:g} m" if a and b else None
        message = f"{name}: {len(cables)} {kind.replace('_', '-')} cables are longer than any of {rate:g} Gb/s reaches"
        hint = "switches nearer to the nodes, or longer cables under `parts.cables` and `site.cabling.kinds`"
        yield breach("CABLE-001", ("fabrics", name), message, sums, hint, key=True)


def _made_for_others(room: Room, cabling: Cabled) -> Iterator[Breach]:
    """Report cables that are not sold for the fabric's protocol."""
    speaks = "ethernet" if cabling.fabric.kind == "roce" else cabling.fabric.kind
    for index, model in enumerate(cabling.models):
        cable = room.catalog.cables[model]
        if cable.protocols is not None and speaks not in cable.protocols:
            message = f"{cabling.fabric.name}: {cabling.model.count(index):,} cables are {model}, not sold for {speaks}"
            sums = f"{speaks} is not one of {', '.join(cable.protocols)}"
            hint = f"leave {cable.kind} out of `site: {{cabling: {{kinds: ...}}}}`, or add a cable that is"
            yield breach("CABLE-004", ("fabrics", cabling.fabric.name), message, sums, hint, key=True)


def _unknown_ways(cabling: Cabled) -> Iterator[Breach]:
    """Report ways between two places with an unknown distance."""
    if UNKNOWN not in cabling.run_m:
        return
    counts: dict[str, int] = defaultdict(int)
    for cable, run in enumerate(cabling.run_m):
        a, b = cabling.spots[cabling.fabric.cables.a[cable]], cabling.spots[cabling.fabric.cables.b[cable]]
        if run != UNKNOWN or a is None or b is None:
            continue
        tall = a.standing.top_m is not None and b.standing.top_m is not None
        counts["the way between rooms (site.cabling.between_rooms_m)" if tall else "the height of a rack"] += 1
    for fact, count in counts.items():
        message = f"{cabling.fabric.name}: {count} cables have no lengths: missing {fact}"
        yield breach("CABLE-002", ("fabrics", cabling.fabric.name), message, key=True)
