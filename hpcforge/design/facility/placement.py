"""Where everything stands: positions given, pinned or proposed. Pure.

*Given*: `rack: "g[01-08]"` with `u: [3, 11, 19, 27]` puts the group's first four nodes into g01, at those lowest units
in that order, the next four into g02, and so on; `rack: i01` with `u: 40` puts one node there. What is left of the
last rack stays free. A node that the inventory has pinned at one of these places keeps it, so that the list may change
without moving it. *Pinned*: the inventory has the position of a node that was given none. *Proposed*: all others;
see `propose`. Switches come between the two: see `mounting`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import schema as s
from hpcforge.blueprint.positions import Place, given_places
from hpcforge.design.facility.layout import Filling, Item, Layout, allowed_racks, item_of
from hpcforge.design.facility.mounting import mount
from hpcforge.design.facility.proposed_positions import propose
from hpcforge.design.facility.room import Load, NodeKind, Rack, Room, load_of_equipment
from hpcforge.design.facility.rules import Breach, not_checked

_MOST_MOVES = 4  # that are shown


def place(room: Room) -> Layout:
    """Place everything that stands in a rack; given positions first, then pinned ones, switches, proposals."""
    fillings = {name: Filling(rack) for name, rack in room.racks.items()}
    breaches: list[Breach] = []
    for filling in fillings.values():
        _furnish(filling)
    waiting: list[tuple[str, NodeKind]] = []
    for key, group in room.blueprint.nodes.items():
        breaches += _given(room, key, group, fillings, waiting)
    homeless = [(name, kind) for name, kind in waiting if not _pinned(room, name, kind, fillings, breaches)]
    breaches += mount(room, fillings)
    breaches += propose(room, fillings, homeless)
    for filling in fillings.values():
        _lay_pdus(filling)
    placed = [(name, item) for name, filling in fillings.items() for item in filling.items]
    place_of = {item.name: (name, item) for name, item in placed if item.kind == "node"}
    switch_of = {item.name: (name, item) for name, item in placed if item.kind == "switch"}
    unplaced = tuple(name for name, kind in room.kind_of.items() if kind.metal and name not in place_of)
    racks = {name: tuple(sorted(filling.items, key=lambda item: -item.u)) for name, filling in fillings.items()}
    return Layout(racks, place_of, switch_of, unplaced, tuple(breaches))


def _furnish(filling: Filling) -> None:
    for name, equipment in filling.rack.spec.equipment.items():
        units = tuple(sorted(equipment.u))
        load = load_of_equipment(name, equipment)
        filling.put(Item(name, "equipment", load, units[0], len(units), "given", units=units))


def _lay_pdus(filling: Filling) -> None:
    """Lay PDUs that do not stand upright into the highest free units; RACK-007 tells of those that do not fit."""
    rack = filling.rack
    if rack.pdu is None or not rack.pdu.rack_units or rack.model.rack_units is None:
        return
    for name in pdu_names(rack):
        height = rack.pdu.rack_units
        for u in range(rack.model.rack_units - height + 1, 0, -1):
            if not any(unit in filling.owner for unit in range(u, u + height)):
                load = Load(rack.spec.pdu or "", 0.0, None, 0.0)  # its weight is counted with all PDUs
                filling.put(Item(name, "pdu", load, u, height, "proposed"))
                break


def pdu_names(rack: Rack) -> Iterator[str]:
    """Name a rack's PDUs by their feeds: g01-A, g01-B; a second one on feed A is g01-A2."""
    for index, feed in enumerate(rack.spec.feeds):
        nth = rack.spec.feeds[: index + 1].count(feed)
        yield f"{rack.name}-{feed}{nth if nth > 1 else ''}"


def _given(
    room: Room, key: str, group: s.NodeGroup, fillings: dict[str, Filling], waiting: list[tuple[str, NodeKind]]
) -> Iterator[Breach]:
    """Place the nodes of a group that were given a rack and units; the others wait."""
    names = hostlist.expand(key)
    metal = [(name, kind) for name in names if (kind := room.kind_of[name]).metal]
    if not metal or (group.rack is None and metal[0][1].floor):
        return
    if group.rack is None or group.u is None:
        waiting += metal
        return
    if metal[0][1].floor:
        message = f"{hostlist.fold(names)}: {group.hardware} stands on the floor, not in a rack"
        yield Breach("RACK-001", ("nodes", key, "rack"), message, None, "leave out `rack` and `u`")
        return
    pins = {name: (pin.rack, pin.u) for name, _ in metal if (pin := room.pins.get(name))}
    at = given_places([name for name, _ in metal], group.rack, group.u, pins)
    if len(metal) > len(at):
        racks = hostlist.expand(group.rack)
        places = f"{len(at)} places = {_count(racks, 'rack')} x {_count(group.u, 'unit')} in `u`"
        yield Breach(
            "RACK-001",
            ("nodes", key, "u"),
            f"no place for {hostlist.fold(name for name, _ in metal if name not in at)}",
            f"{len(metal)} nodes > {places}",
            "list more racks or more units",
        )
    for name, kind in metal:
        if name in at:
            fillings[at[name][0]].put(item_of(name, kind, at[name][1], "given"))
    yield from _moved(key, pins, at)
    unknown = {kind.model for _, kind in metal if kind.server.rack_units is None}
    for model in sorted(unknown):
        missing = f"{key}: no published height of {model}, taken as 1 unit"
        yield not_checked("RACK-002", ("nodes", key, "hardware"), missing, _say(model, "rack_units"))


def _moved(key: str, pins: Mapping[str, Place], at: Mapping[str, Place]) -> Iterator[Breach]:
    """Yield the nodes that a change of `rack` or `u` moves from where the inventory has pinned them."""
    moved = [name for name, pin in pins.items() if name in at and at[name] != pin]
    if moved:
        ways = [f"{name} from {_where(pins[name])} to {_where(at[name])}" for name in moved[:_MOST_MOVES]]
        rest = [f"and {len(moved) - _MOST_MOVES} more"] if len(moved) > _MOST_MOVES else []
        message = f"this change moves {hostlist.fold(moved)} within racks: {', '.join([*ways, *rest])}"
        hint = "move the machines, then `hpcforge pin BLUEPRINT`; or restore `rack` and `u`"
        yield Breach("RACK-012", ("nodes", key, "u"), message, None, hint)


def moves(layout: Layout) -> list[str]:
    """Return which nodes a change moves within racks, as RACK-012 names them."""
    return [breach.message for breach in layout.breaches if breach.code == "RACK-012"]


def _where(place: Place) -> str:
    return f"{place[0]} unit {place[1]}"


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def _say(model: str, fact: str) -> str:
    return f"say it under hardware: MODEL: {{like: {model}, {fact}: N}}"


def _pinned(room: Room, name: str, kind: NodeKind, fillings: dict[str, Filling], breaches: list[Breach]) -> bool:
    """Place a node where the inventory has pinned it; False if it has not."""
    pin = room.pins.get(name)
    if pin is None:
        return False
    if pin.rack not in fillings or pin.rack not in allowed_racks(room, kind):
        named = room.blueprint.nodes[kind.group].rack
        wrong = f"but `rack` says {named}" if named and pin.rack in fillings else "which is no rack of this blueprint"
        hint = f"correct `positions: {name}:` in the inventory"
        breaches.append(
            Breach("RACK-009", ("nodes", kind.group), f"{name} is pinned in {pin.rack}, {wrong}", None, hint, key=True)
        )
        return True
    fillings[pin.rack].put(item_of(name, kind, pin.u, "pinned"))
    return True
