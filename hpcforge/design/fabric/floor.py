"""Positions of machines on the floor, and the length of a cable between two of them. Pure.

A cable leaves its port to the side of the rack, goes up to the tray, along the line of racks, across to another line
if need be, and down again:

    in one rack    2 x side_m + |height difference| + slack_m
    in one room    2 x side_m + rise + rise + |x difference| + lines apart x row_pitch_m + slack_m
    two rooms      as in one room, each from its end of the line, plus between_rooms_m

where a rise is from the middle of the machine to the top of its rack, plus overhead_m. Trays are taken to cross
between lines at every rack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.sections.site import Cabling, SiteSection
from hpcforge.design.facility.layout import Item, Layout
from hpcforge.design.facility.room import Rack, Room

UNIT_M = 0.04445  # a rack unit is 1.75 inches (EIA-310-D)
_PITCH_M = 0.6  # of a rack without a published width: a floor tile, the width of most racks


@dataclass(frozen=True, slots=True)
class RackOnFloor:
    """A rack on the floor."""

    room: str
    line: int  # of racks, from 0
    x_m: float  # of its middle, along its line
    top_m: float | None  # height of the rack's mounting space; None: not known


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a machine, and of its ports."""

    standing: RackOnFloor
    rack: str
    u: int  # lowest unit that it takes
    port_m: float  # middle of the machine above the bottom of the rack's mounting space

    @property
    def room(self) -> str:
        """The room's name."""
        return self.standing.room


def standings(room: Room) -> dict[str, RackOnFloor]:
    """Return the place of every rack: by `site.row`, then the rest; each room has lines of its own."""
    site = room.site
    if site is None:
        return {}
    rows: dict[str, list[Rack]] = defaultdict(list)
    for name in row(site, room.racks):
        rack = room.racks[name]
        rows[rack.spec.room or site.room].append(rack)
    return {
        rack.name: standing for name, racks in rows.items() for rack, standing in _lined_up(name, racks, site.cabling)
    }


def row(site: SiteSection, racks: Iterable[str]) -> tuple[str, ...]:
    """Return all racks in their order on the floor."""
    listed = [name for text in site.row for name in hostlist.expand(text)]
    return tuple(dict.fromkeys([*listed, *racks]))


def _lined_up(room: str, racks: list[Rack], rules: Cabling) -> Iterator[tuple[Rack, RackOnFloor]]:
    length = rules.racks_in_row or len(racks)
    end_m = 0.0
    for index, rack in enumerate(racks):
        line, place = divmod(index, length)
        width_mm = rack.model.width_mm
        pitch_m = rules.rack_pitch_m or (width_mm / 1_000 if width_mm else _PITCH_M)
        start_m = 0.0 if place == 0 else end_m
        end_m = start_m + pitch_m
        units = rack.model.rack_units
        yield rack, RackOnFloor(room, line, start_m + pitch_m / 2, units * UNIT_M if units else None)


def spots(room: Room, layout: Layout) -> dict[str, Spot]:
    """Return the place of every node and switch by name, and of equipment by its `equipment_name`."""
    by_name = {}
    places = standings(room)
    for rack, items in layout.racks.items():
        for item in items:
            if item.kind != "pdu":
                name = equipment_name(rack, item.name) if item.kind == "equipment" else item.name
                by_name[name] = _spot(places[rack], rack, item)
    return by_name


def equipment_name(rack: str, name: str) -> str:
    """Name equipment by rack, since several racks may have equipment of the same name."""
    return f"{rack}/{name}"


def _spot(standing: RackOnFloor, rack: str, item: Item) -> Spot:
    return Spot(standing, rack, min(item.taken), (item.u - 1 + item.height / 2) * UNIT_M)


def run_m(spot: Spot, other_spot: Spot, rules: Cabling) -> float | None:
    """Return the required length of a cable between two machines, m.

    None if the height of a rack, or the way between two rooms, is not known.
    """
    sides = 2 * rules.side_m + rules.slack_m
    if spot.rack == other_spot.rack:
        return sides + abs(spot.port_m - other_spot.port_m)
    near, far = spot.standing, other_spot.standing
    if near.top_m is None or far.top_m is None:
        return None
    up = (near.top_m - spot.port_m) + (far.top_m - other_spot.port_m) + 2 * rules.overhead_m
    if near.room != far.room:
        if rules.between_rooms_m is None:
            return None
        return sides + up + near.x_m + far.x_m + (near.line + far.line) * rules.row_pitch_m + rules.between_rooms_m
    return sides + up + abs(near.x_m - far.x_m) + abs(near.line - far.line) * rules.row_pitch_m


def run_terms(end: Spot, other_spot: Spot, rules: Cabling) -> str:
    """Return the terms of `run_m`, with units: `2 x 0.5 m sides + 1.2 m up + ... = 7.4 m`."""
    length_m = run_m(end, other_spot, rules)
    if length_m is None:
        return "not known"
    near, far = end.standing, other_spot.standing
    terms = [f"2 x {rules.side_m:g} m sides"]
    if end.rack == other_spot.rack:
        terms.append(f"{abs(end.port_m - other_spot.port_m):.2f} m in the rack")
    else:
        for spot in (end, other_spot):
            up_m = (spot.standing.top_m or 0.0) - spot.port_m + rules.overhead_m
            terms.append(f"{up_m:.2f} m up from {spot.rack} U{spot.u}")
        same = near.room == far.room
        terms.append(f"{abs(near.x_m - far.x_m) if same else near.x_m + far.x_m:.2f} m along")
        lines = abs(near.line - far.line) if same else near.line + far.line
        terms += [f"{lines} x {rules.row_pitch_m:g} m across"] if lines else []
        terms += [] if same else [f"{rules.between_rooms_m:g} m between rooms"]
    return f"{' + '.join(terms)} + {rules.slack_m:g} m slack = {length_m:.2f} m"
