"""The position of every item: given, pinned or proposed. Pure.

*Given*: `rack: "g[01-08]"` with `u: [3, 11, 19, 27]` puts the group's first four nodes into g01, at those lowest units
in that order, the next four into g02, and so on; `rack: i01` with `u: 40` puts one node there. The rest of the last
rack stays free. A node that the inventory has pinned at one of these places keeps it, so that the list may change
without moving it. *Pinned*: the inventory has the position of a node without a declared one. *Proposed*: all others;
see `propose`. Switches come between the two: see `mounting`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sized

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.positions import Place, given_places
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.nodes import NodeGroup
from hpcforge.design.facility.layout import Filling, Item, Layout, allowed_racks, item_of
from hpcforge.design.facility.loads import alike_as
from hpcforge.design.facility.power_rules import carries
from hpcforge.design.facility.room import Load, NodeKind, Rack, Room, SwitchPlace, load_of_equipment
from hpcforge.design.facility.rules import Breach, not_checked


# Places for switches: the racks that their fabric names, evenly filled in order, from the top of each down.
#
# A switch's place follows from its number among the switches of its fabric, so that it stays where it is as long as
# the fabric's size and the racks do; `hpcforge pin` records it, and then it stays in any case.
def mount(room: Room, fillings: dict[str, Filling]) -> Iterator[Breach]:
    """Put switches into racks, pinned ones first; report those without room."""
    full: set[tuple[str, int]] = set()  # racks without this number of free units
    unplaced: dict[tuple[Loc, str], list[str]] = defaultdict(list)
    waiting = [mount for mount in room.mounts if mount.racks]
    for mount in waiting:
        yield from _pinned_switches(room, mount, fillings)
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
            unplaced[mount.loc, mount.model].append(mount.name)
    for (loc, model), names in unplaced.items():
        height = next(mount.height for mount in waiting if mount.model == model)
        racks = next(mount.racks for mount in waiting if mount.name == names[0])
        message = f"no room for {hostlist.fold(names)} in racks {hostlist.fold(racks)}"
        sums = f"{len(names)} x {height} units do not fit"
        yield Breach("RACK-011", loc, message, sums, "more racks in `switches_in`, or free units in them")


def _heights_unknown(mount: SwitchPlace, fillings: dict[str, Filling]) -> bool:
    """Return True if the height is unknown in every one of its racks."""
    return all(fillings[name].rack.model.rack_units is None for name in mount.racks if name in fillings)


def _pinned_switches(room: Room, mount: SwitchPlace, fillings: dict[str, Filling]) -> Iterator[Breach]:
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


# Places for nodes without a declared one: heavy nodes low, load spread over racks and feeds.
#
# The heaviest models come first. Each takes the lowest gap of a rack, and of several possible racks the one with the
# least loaded feeds, then the least loaded rack. Within a model, names follow racks and units in order, so that
# neighbours in name are neighbours in the rack. A proposal depends on all waiting nodes: `hpcforge pin` fixes it.
Feeds = tuple[str, ...]
Slot = tuple[int, int, str]  # rack's place in the order of racks, unit, rack


def propose(room: Room, fillings: dict[str, Filling], waiting: list[tuple[str, NodeKind]]) -> Iterator[Breach]:
    """Put waiting nodes into racks; report those without room, and those to be pinned."""
    if not fillings:
        return
    proposed: dict[str, list[str]] = defaultdict(list)
    for kind, names in _heaviest_first(waiting):
        if kind.server.rack_units is None:
            missing = f"{hostlist.fold(names)}: no published height of {kind.model}, so no place is proposed"
            yield not_checked("RACK-006", kind.loc(), missing, f"like: {kind.model}, rack_units: N under `hardware`")
            continue
        slots = sorted(_Racks(room, fillings, kind).slots(len(names)))
        for name, (_, u, rack) in zip(names, slots, strict=False):
            fillings[rack].items.append(item_of(name, kind, u, "proposed"))
        proposed[kind.group] += names[: len(slots)]
        if len(slots) < len(names):
            yield _no_room(room, kind, names[len(slots) :])
    yield from (_unpinned(group, names) for group, names in proposed.items() if names)


def _heaviest_first(waiting: list[tuple[str, NodeKind]]) -> list[tuple[NodeKind, list[str]]]:
    batches: dict[NodeKind, list[str]] = defaultdict(list)
    for name, kind in waiting:
        batches[kind].append(name)
    return sorted(batches.items(), key=lambda batch: -(batch[0].server.weight_kg or 0.0))  # stable: blueprint order


class _Racks:
    """The possible racks for nodes of one kind, least loaded first."""

    def __init__(self, room: Room, fillings: dict[str, Filling], kind: NodeKind) -> None:
        self.room, self.fillings, self.kind, self.load = room, fillings, kind, kind.load
        self.heaps: dict[Feeds, list[tuple[float, int, str]]] = defaultdict(list)
        self.feed_w: dict[str, float] = defaultdict(float)
        self.taken: dict[str, list[Item]] = defaultdict(list)  # by rack, places that `slots` has yielded
        self.carried: dict[object, bool] = {}
        for filling in fillings.values():
            self._count(filling.rack.spec.feeds, filling.power_w)
        allowed = set(allowed_racks(room, kind))
        for index, (name, filling) in enumerate(fillings.items()):
            if name in allowed:
                self.heaps[filling.rack.spec.feeds].append((self._loaded(filling), index, name))
        for heap in self.heaps.values():
            heapq.heapify(heap)

    def slots(self, count: int) -> Iterator[Slot]:
        """Yield `count` places, fewer if the racks are full, and mark them as taken."""
        for _ in range(count):
            place = next((slot for feeds in self._feeds_by_load() if (slot := self._take(feeds))), None)
            if place is None:
                return
            yield place

    def _feeds_by_load(self) -> list[Feeds]:
        return sorted((f for f in self.heaps if self.heaps[f]), key=lambda feeds: (self._feed_load(feeds), feeds))

    def _feed_load(self, feeds: Feeds) -> float:
        """Return the load of the fullest of a rack's feeds, as a part of its limit if that is set."""
        limits = ((self.feed_w[name], self.room.feeds[name].limit_w) for name in feeds)
        return max((load / (limit or 1.0) for load, limit in limits), default=0.0)

    def _take(self, feeds: Feeds) -> Slot | None:
        """Take the lowest gap of the least loaded rack on these feeds; a rack without one is not tried again."""
        heap, height = self.heaps[feeds], self.kind.server.rack_units or 1
        while heap:
            _, index, name = heap[0]
            filling = self.fillings[name]
            u = self._lowest(filling, height) if self._fits(filling, height) else None
            if u is None:
                heapq.heappop(heap)
                continue
            filling.reserve(self.kind.model, range(u, u + height), self.load)
            self._count(feeds, self.load.least_w)
            heapq.heapreplace(heap, (self._loaded(filling), index, name))
            return index, u, name
        return None

    def _lowest(self, filling: Filling, height: int) -> int | None:
        """Take the lowest gap in which PDUs, their phases and outlets carry the rack; None without one."""
        rack = filling.rack
        for u in filling.gaps(height):
            item = item_of("", self.kind, u, "proposed")
            items = (*filling.items, *self.taken[rack.name], item)
            key = alike_as(rack, items)
            if key not in self.carried:
                self.carried[key] = carries(self.room, rack, items)
            if self.carried[key]:
                self.taken[rack.name].append(item)
                return u
        return None

    def _count(self, feeds: Feeds, power_w: float) -> None:
        for name in feeds:
            self.feed_w[name] += power_w / len(feeds)

    def _loaded(self, filling: Filling) -> float:
        return filling.power_w / (filling.rack.spec.limit_w or 1.0)

    def _fits(self, filling: Filling, height: int) -> bool:
        """Tell whether one more of the kind keeps a rack within the known limits."""
        rack, server = filling.rack, self.kind.server
        units = rack.model.rack_units or 0
        cooling = self.room.site.cooling.rack_limit_w if self.room.site else None
        power_w = filling.power_w + self.load.least_w
        weight_kg = filling.weight_kg + (self.load.weight_kg or 0.0)
        heat_w = rack.spec.cooling_limit_w if rack.spec.cooling_limit_w is not None else cooling
        pairs = (
            (power_w, rack.spec.limit_w),
            (power_w, heat_w),
            (weight_kg, rack.limit_kg),
            (server.depth_mm, rack.model.mounting_depth_mm),
            (len(filling.owner) + height + (rack.spec.spare_u or 0), units),
        )
        return all(value is None or limit is None or value <= limit for value, limit in pairs)


def _no_room(room: Room, kind: NodeKind, names: list[str]) -> Breach:
    racks = allowed_racks(room, kind)
    return Breach(
        "RACK-006",
        ("nodes", kind.group),
        f"no room for {hostlist.fold(names)} in racks {hostlist.fold(racks)}",
        f"{len(names)} x {kind.server.rack_units} units within height, depth, weight, power, heat, PDUs, spare units",
        "add racks, or give positions with `rack` and `u` to see which limit they break",
        key=True,
    )


def _unpinned(group: str, names: list[str]) -> Breach:
    return Breach(
        "RACK-008",
        ("nodes", group),
        f"the positions of {hostlist.fold(names)} are proposed, not pinned",
        None,
        "hpcforge pin BLUEPRINT writes them into the inventory; or give `rack` and `u`",
        key=True,
    )


_MOST_MOVES = 4  # that are shown


def place(room: Room) -> Layout:
    """Place everything that stands in a rack; given positions first, then pinned ones, switches, proposals."""
    fillings = {name: Filling(rack) for name, rack in room.racks.items()}
    breaches: list[Breach] = []
    for filling in fillings.values():
        _furnish(filling)
    waiting: list[tuple[str, NodeKind]] = []
    for key, group in room.blueprint.nodes.items():
        breaches += _place_declared(room, key, group, fillings, waiting)
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
    """Lay PDUs that are not upright into the highest free units; RACK-007 reports those that do not fit."""
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


def _place_declared(
    room: Room, key: str, group: NodeGroup, fillings: dict[str, Filling], waiting: list[tuple[str, NodeKind]]
) -> Iterator[Breach]:
    """Place the nodes of a group with declared rack and units; the others wait."""
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
    """Report the nodes that a change of `rack` or `u` moves from their pinned places."""
    moved = [name for name, pin in pins.items() if name in at and at[name] != pin]
    if moved:
        ways = [
            f"{name} from {_describe_place(pins[name])} to {_describe_place(at[name])}" for name in moved[:_MOST_MOVES]
        ]
        rest = [f"and {len(moved) - _MOST_MOVES} more"] if len(moved) > _MOST_MOVES else []
        message = f"this change moves {hostlist.fold(moved)} within racks: {', '.join([*ways, *rest])}"
        hint = "move the machines, then `hpcforge pin BLUEPRINT`; or restore `rack` and `u`"
        yield Breach("RACK-012", ("nodes", key, "u"), message, None, hint)


def moves(layout: Layout) -> list[str]:
    """Return the messages of RACK-012 on nodes that a change moves within racks."""
    return [breach.message for breach in layout.breaches if breach.code == "RACK-012"]


def _describe_place(place: Place) -> str:
    return f"{place[0]} unit {place[1]}"


def _count(things: Sized, noun: str) -> str:
    return f"{len(things)} {noun}{'s' * (len(things) != 1)}"


def _say(model: str, fact: str) -> str:
    return f"set it under hardware: MODEL: {{like: {model}, {fact}: N}}"


def _pinned(room: Room, name: str, kind: NodeKind, fillings: dict[str, Filling], breaches: list[Breach]) -> bool:
    """Place a node at its pinned place in the inventory; False without one."""
    pin = room.pins.get(name)
    if pin is None:
        return False
    if pin.rack not in fillings or pin.rack not in allowed_racks(room, kind):
        racks = room.blueprint.nodes[kind.group].rack
        wrong = (
            f"but `rack` says {racks}" if racks and pin.rack in fillings else "which is not a rack of this blueprint"
        )
        hint = f"correct `positions: {name}:` in the inventory"
        breaches.append(
            Breach("RACK-009", ("nodes", kind.group), f"{name} is pinned in {pin.rack}, {wrong}", None, hint, key=True)
        )
        return True
    fillings[pin.rack].put(item_of(name, kind, pin.u, "pinned"))
    return True
