"""Places for switches: the racks that their fabric names, evenly filled in order, from the top of each down. Pure.

A switch's place follows from its number among the switches of its fabric, so that it stays where it is as long as the
fabric's size and the racks do; `hpcforge pin` writes it down, and then it stays in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.facility.layout import Filling, Item
from hpcforge.facility.room import Mount, Room
from hpcforge.facility.rules import Breach, not_checked


def mount(room: Room, fillings: dict[str, Filling]) -> Iterator[Breach]:
    """Put switches into racks, pinned ones first; yield what finds no room."""
    full: set[tuple[str, int]] = set()  # racks without so many free units
    left: dict[tuple[Loc, str], list[str]] = defaultdict(list)
    waiting = [one for one in room.mounts if one.racks]
    for one in waiting:
        yield from _pinned(room, one, fillings)
    for one in waiting:
        if one.name in room.pins:
            continue
        if one.height is None:
            missing = f"no published height of {one.model}: its switches have no place"
            yield not_checked("RACK-011", one.loc, missing, f"like: {one.model}, rack_units: N under `parts.switches`")
        elif _heights_unknown(one, fillings):
            missing = f"no published height of racks {hostlist.fold(one.racks)}: switches have no place in them"
            yield not_checked("RACK-011", one.loc, missing)
        elif not _put(one, fillings, full):
            left[one.loc, one.model].append(one.name)
    for (loc, model), names in left.items():
        height = next(one.height for one in waiting if one.model == model)
        racks = next(one.racks for one in waiting if one.name == names[0])
        message = f"no room for {hostlist.fold(names)} in racks {hostlist.fold(racks)}"
        sums = f"{len(names)} x {height} units are left over"
        yield Breach("RACK-011", loc, message, sums, "more racks in `switches_in`, or free units in them")


def _heights_unknown(one: Mount, fillings: dict[str, Filling]) -> bool:
    """True if it is not known of any of its racks how high it is."""
    return all(fillings[name].rack.model.rack_units is None for name in one.racks if name in fillings)


def _pinned(room: Room, one: Mount, fillings: dict[str, Filling]) -> Iterator[Breach]:
    pin = room.pins.get(one.name)
    if pin is None:
        return
    if pin.rack in one.racks and pin.rack in fillings:
        fillings[pin.rack].put(Item(one.name, "switch", one.load, pin.u, one.height or 1, "pinned", loc=one.loc))
        return
    hint = f"correct `positions: {one.name}:` in the inventory"
    message = f"{one.name} is pinned in {pin.rack}, but `switches_in` says {hostlist.fold(one.racks)}"
    yield Breach("RACK-009", one.loc, message, None, hint)


def _put(one: Mount, fillings: dict[str, Filling], full: set[tuple[str, int]]) -> bool:
    """Put a switch into the first rack from its own on that has room; False if none has."""
    height = one.height or 1
    for name in (*one.racks[one.first :], *one.racks[: one.first]):
        if (name, height) in full or name not in fillings:
            continue
        u = fillings[name].top_gap(height)
        if u is not None:
            fillings[name].put(Item(one.name, "switch", one.load, u, height, "proposed", loc=one.loc))
            return True
        full.add((name, height))
    return False
