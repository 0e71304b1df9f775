"""Places for switches: the racks that their fabric names, evenly filled in order, from the top of each down. Pure.

A switch's place follows from its number among the switches of its fabric, so that it stays where it is as long as the
fabric's size and the racks do; `hpcforge pin` writes it down, and then it stays in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.design.facility.layout import Filling, Item
from hpcforge.design.facility.room import Room, SwitchPlace
from hpcforge.design.facility.rules import Breach, not_checked


def mount(room: Room, fillings: dict[str, Filling]) -> Iterator[Breach]:
    """Put switches into racks, pinned ones first; yield what finds no room."""
    full: set[tuple[str, int]] = set()  # racks without so many free units
    left: dict[tuple[Loc, str], list[str]] = defaultdict(list)
    waiting = [mount for mount in room.mounts if mount.racks]
    for mount in waiting:
        yield from _pinned(room, mount, fillings)
    for mount in waiting:
        if mount.name in room.pins:
            continue
        if mount.height is None:
            missing = f"no published height of {mount.model}: its switches have no place"
            yield not_checked(
                "RACK-011", mount.loc, missing, f"like: {mount.model}, rack_units: N under `parts.switches`"
            )
        elif _heights_unknown(mount, fillings):
            missing = f"no published height of racks {hostlist.fold(mount.racks)}: switches have no place in them"
            yield not_checked("RACK-011", mount.loc, missing)
        elif not _put(mount, fillings, full):
            left[mount.loc, mount.model].append(mount.name)
    for (loc, model), names in left.items():
        height = next(mount.height for mount in waiting if mount.model == model)
        racks = next(mount.racks for mount in waiting if mount.name == names[0])
        message = f"no room for {hostlist.fold(names)} in racks {hostlist.fold(racks)}"
        sums = f"{len(names)} x {height} units are left over"
        yield Breach("RACK-011", loc, message, sums, "more racks in `switches_in`, or free units in them")


def _heights_unknown(mount: SwitchPlace, fillings: dict[str, Filling]) -> bool:
    """True if it is not known of any of its racks how high it is."""
    return all(fillings[name].rack.model.rack_units is None for name in mount.racks if name in fillings)


def _pinned(room: Room, mount: SwitchPlace, fillings: dict[str, Filling]) -> Iterator[Breach]:
    pin = room.pins.get(mount.name)
    if pin is None:
        return
    if pin.rack in mount.racks and pin.rack in fillings:
        fillings[pin.rack].put(
            Item(mount.name, "switch", mount.load, pin.u, mount.height or 1, "pinned", loc=mount.loc)
        )
        return
    hint = f"correct `positions: {mount.name}:` in the inventory"
    message = f"{mount.name} is pinned in {pin.rack}, but `switches_in` says {hostlist.fold(mount.racks)}"
    yield Breach("RACK-009", mount.loc, message, None, hint)


def _put(mount: SwitchPlace, fillings: dict[str, Filling], full: set[tuple[str, int]]) -> bool:
    """Put a switch into the first rack from its own on that has room; False if none has."""
    height = mount.height or 1
    for name in (*mount.racks[mount.first :], *mount.racks[: mount.first]):
        if (name, height) in full or name not in fillings:
            continue
        u = fillings[name].top_gap(height)
        if u is not None:
            fillings[name].put(Item(mount.name, "switch", mount.load, u, height, "proposed", loc=mount.loc))
            return True
        full.add((name, height))
    return False
