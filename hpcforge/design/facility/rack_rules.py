"""Rules about what stands in racks: overlap, height, depth, weight, room. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.design.facility.layout import Item
from hpcforge.design.facility.loads import LoadedRack
from hpcforge.design.facility.room import Load, Rack, Room
from hpcforge.design.facility.rules import Breach, not_checked
from hpcforge.design.facility.units import apart, kg, kw

Breaches = Iterator[Breach]
RackRule = Callable[[Room, LoadedRack], Breaches]


def fold_racks(room: Room, loaded: Iterable[LoadedRack], rules: Iterable[RackRule]) -> Breaches:
    """Yield what rules say of racks; racks of a group of which the same is said are folded: RACKS in the message."""
    said: dict[Breach, list[str]] = defaultdict(list)
    seen: dict[tuple[str, int, RackRule], tuple[Breach, ...]] = {}
    for loaded_rack in loaded:
        for rule in rules:
            alike = (loaded_rack.rack.key, id(loaded_rack.load), rule)
            if alike not in seen or rule in _BY_NAME:
                seen[alike] = tuple(rule(room, loaded_rack))
            for breach in seen[alike]:
                said[breach].append(loaded_rack.rack.name)
    for breach, names in said.items():
        where = f"rack {names[0]}" if len(names) == 1 else f"racks {hostlist.fold(names)}"
        each = f"each of {where}"
        yield replace(
            breach,
            message=breach.message.replace("RACKS", where),
            arithmetic=breach.arithmetic and breach.arithmetic.replace("RACKS", where if len(names) == 1 else each),
        )


def rack_breaches(room: Room, loaded: Iterable[LoadedRack]) -> Breaches:
    """Yield what rules say of racks as places."""
    yield from fold_racks(room, loaded, (_overlap, _height, _depth, _weight, _pdus, _spare))


def item_loc(room: Room, rack: Rack, item: Item) -> Loc:
    """Where the blueprint says where something stands."""
    if item.loc is not None:
        return item.loc
    if item.node is None:
        return (*rack.loc, "equipment", item.name) if item.kind == "equipment" else (*rack.loc, "pdu")
    units = room.blueprint.nodes[item.node.group].u or ()
    if item.how != "given" or item.u not in units:
        return ("nodes", item.node.group, "hardware")
    return ("nodes", item.node.group, "u", units.index(item.u))


def _overlap(room: Room, loaded_rack: LoadedRack) -> Breaches:
    owner: dict[int, Item] = {}
    order = {"equipment": 0, "pdu": 1, "node": 2, "switch": 3}
    for item in sorted(loaded_rack.items, key=lambda item: (order[item.kind], item.u)):
        other = next((owner[unit] for unit in item.taken if unit in owner), None)
        for unit in item.taken:
            owner.setdefault(unit, item)
        if other:
            yield Breach(
                "RACK-002",
                item_loc(room, loaded_rack.rack, item),
                f"{item.name} overlaps {other.name} in rack {loaded_rack.rack.name}",
                f"{item.name} takes {_span(item)}, {other.name} {_span(other)}",
                f"move one of them; {item.load.label} is {item.height} units high",
            )


def _span(item: Item) -> str:
    units = item.taken
    return f"unit {units[0]}" if len(units) == 1 else f"units {units[0]} to {units[-1]}"


def _height(room: Room, loaded_rack: LoadedRack) -> Breaches:
    height = loaded_rack.rack.model.rack_units
    if height is None:
        yield not_checked("RACK-003", loaded_rack.rack.loc, f"no published height of {loaded_rack.rack.spec.model}")
        return
    for item in loaded_rack.items:
        if item.taken[-1] > height:
            yield Breach(
                "RACK-003",
                item_loc(room, loaded_rack.rack, item),
                f"{item.name} sticks out of rack {loaded_rack.rack.name}",
                f"{item.u} + {item.height} - 1 = unit {item.taken[-1]} > {height} units of "
                f"{loaded_rack.rack.spec.model}",
                "move it down, or use a higher rack",
            )


def _depth(_: Room, loaded_rack: LoadedRack) -> Breaches:
    deepest = loaded_rack.rack.model.mounting_depth_mm
    servers = {item.node.model: item for item in loaded_rack.items if item.node}
    if deepest is None and servers:
        yield not_checked(
            "RACK-004", loaded_rack.rack.loc, f"no published mounting depth of {loaded_rack.rack.spec.model}"
        )
        return
    for model, item in servers.items():
        node = item.node
        if node is None or deepest is None:
            continue
        if node.server.depth_mm is None:
            yield not_checked("RACK-004", node.loc(), f"no published depth of {model}")
        elif node.server.depth_mm > deepest:
            sums = f"{node.server.depth_mm:g} mm > {deepest:g} mm of {loaded_rack.rack.spec.model}"
            yield Breach("RACK-004", node.loc(), f"{model} is too deep for RACKS", sums, "use a deeper rack")


def _weight(_: Room, loaded_rack: LoadedRack) -> Breaches:
    limit, load = loaded_rack.rack.limit_kg, loaded_rack.load
    if limit is None:
        yield not_checked(
            "RACK-005", loaded_rack.rack.loc, f"no published weight limit of {loaded_rack.rack.spec.model}, no limit_kg"
        )
        return
    if load.weight_kg > limit:
        said, most = apart(kg, load.weight_kg, limit)
        sums = f"{weight_terms(loaded_rack)} = {said} > {most}: {kg(load.weight_kg - limit, 1)} too much"
        where = (*loaded_rack.rack.loc, "limit_kg")
        yield Breach("RACK-005", where, "RACKS: too heavy", sums, "spread the nodes over more racks")
    elif load.weight_unknown:
        yield not_checked(
            "RACK-005", loaded_rack.rack.loc, f"RACKS: no published weight of {', '.join(load.weight_unknown)}"
        )


def weight_terms(loaded_rack: LoadedRack) -> str:
    """What a rack's weight is the sum of: `4 x 130.5 kg + 3 x 7.7 kg`."""
    terms = _counted([(item.load, item.load.weight_kg) for item in loaded_rack.items if item.kind != "pdu"])
    pdu_kg = loaded_rack.rack.pdu.weight_kg if loaded_rack.rack.pdu else None
    if pdu_kg and loaded_rack.rack.spec.feeds:
        terms.append((len(loaded_rack.rack.spec.feeds), pdu_kg))
    return " + ".join(f"{count} x {kg(each, 1)}" for count, each in terms) or "nothing"


def _counted(loads: Iterable[tuple[Load, float | None]]) -> list[tuple[int, float]]:
    counts: dict[tuple[str, float], int] = defaultdict(int)
    for load, each in loads:
        if each:
            counts[load.label, each] += 1
    return [(count, each) for (_, each), count in counts.items()]


def power_terms(loaded_rack: LoadedRack) -> str:
    """What a rack's power is the sum of: `4 x 10.2 kW`."""
    terms = _counted([(item.load, item.load.least_w) for item in loaded_rack.items])
    least = "at least " if loaded_rack.load.power_unknown else ""
    sums = " + ".join(f"{count} x {kw(each)}" for count, each in sorted(terms, key=lambda t: -t[1]))
    return f"{least}{sums or 'nothing'}"


def _pdus(_: Room, loaded_rack: LoadedRack) -> Breaches:
    rack, count = loaded_rack.rack, len(loaded_rack.rack.spec.feeds)
    if rack.pdu is None or not count:
        return
    where = (*rack.loc, "feeds")
    if rack.pdu.rack_units is None:
        yield not_checked("RACK-007", (*rack.loc, "pdu"), f"no published height of {rack.spec.pdu}")
    elif rack.pdu.rack_units:
        lying = sum(item.kind == "pdu" for item in loaded_rack.items)
        if lying < count:
            sums = f"{count} x {rack.pdu.rack_units} units, room for {lying}"
            yield Breach("RACK-007", where, "RACKS: no room for all PDUs", sums, "keep units free for them")
    elif rack.model.pdu_mounts is None:
        yield not_checked("RACK-007", rack.loc, f"no published places for upright PDUs of {rack.spec.model}")
    elif count > rack.model.pdu_mounts:
        sums = f"{count} > {rack.model.pdu_mounts} of {rack.spec.model}"
        yield Breach("RACK-007", where, "RACKS: too few places for PDUs", sums, "fewer or larger PDUs")


def free_u(loaded_rack: LoadedRack) -> int | None:
    """Units of a rack that nothing takes; None where its height is not known."""
    height = loaded_rack.rack.model.rack_units
    return (
        None if height is None else height - len({u for item in loaded_rack.items for u in item.taken if u <= height})
    )


def _spare(_: Room, loaded_rack: LoadedRack) -> Breaches:
    wanted, free = loaded_rack.rack.spec.spare_u, free_u(loaded_rack)
    if wanted is not None and free is not None and free < wanted:
        sums = f"{free} free of {loaded_rack.rack.model.rack_units} < {wanted}"
        where = (*loaded_rack.rack.loc, "spare_u")
        yield Breach("RACK-010", where, "RACKS: no room for switches and cables", sums, "fewer nodes in the rack")


_BY_NAME: frozenset[RackRule] = frozenset({_overlap, _height})  # they name nodes, so that no two racks are alike
