"""Rules about racks and machines: overlap, height, depth, weight, room; memory, ports, supplies, GPUs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.design.facility.design import Severity
from hpcforge.design.facility.layout import Item
from hpcforge.design.facility.loads import LoadedRack
from hpcforge.design.facility.room import Load, NodeKind, Rack, Room
from hpcforge.design.facility.rules import MIN_MEMORY_GIB, Breach, not_checked
from hpcforge.design.facility.units import apart, kg, kw

Breaches = Iterator[Breach]
RackRule = Callable[[Room, LoadedRack], Breaches]


def fold_racks(room: Room, loaded: Iterable[LoadedRack], rules: Iterable[RackRule]) -> Breaches:
    """Yield the breaches of racks; equal breaches of several racks become one, with their names for RACKS."""
    racks_by_breach: dict[Breach, list[str]] = defaultdict(list)
    cache: dict[tuple[str, int, RackRule], tuple[Breach, ...]] = {}
    for loaded_rack in loaded:
        for rule in rules:
            key = (loaded_rack.rack.key, id(loaded_rack.load), rule)
            if key not in cache or rule in _BY_NAME:
                cache[key] = tuple(rule(room, loaded_rack))
            for breach in cache[key]:
                racks_by_breach[breach].append(loaded_rack.rack.name)
    for breach, names in racks_by_breach.items():
        place = f"rack {names[0]}" if len(names) == 1 else f"racks {hostlist.fold(names)}"
        each_rack = f"each of {place}"
        yield replace(
            breach,
            message=breach.message.replace("RACKS", place),
            arithmetic=breach.arithmetic
            and breach.arithmetic.replace("RACKS", place if len(names) == 1 else each_rack),
        )


def rack_breaches(room: Room, loaded: Iterable[LoadedRack]) -> Breaches:
    """Yield the breaches of racks as places."""
    yield from fold_racks(room, loaded, (_overlap, _height, _depth, _weight, _pdus, _spare))


def item_loc(room: Room, rack: Rack, item: Item) -> Loc:
    """Return the place in the blueprint that positions an item."""
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
        occupant = next((owner[unit] for unit in item.taken if unit in owner), None)
        for unit in item.taken:
            owner.setdefault(unit, item)
        if occupant:
            yield Breach(
                "RACK-002",
                item_loc(room, loaded_rack.rack, item),
                f"{item.name} overlaps {occupant.name} in rack {loaded_rack.rack.name}",
                f"{item.name} takes {_span(item)}, {occupant.name} {_span(occupant)}",
                f"move one; {item.load.label} is {item.height} units high",
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
        weight_text, most = apart(kg, load.weight_kg, limit)
        sums = f"{weight_terms(loaded_rack)} = {weight_text} > {most}: {kg(load.weight_kg - limit, 1)} too much"
        loc = (*loaded_rack.rack.loc, "limit_kg")
        yield Breach("RACK-005", loc, "RACKS: too heavy", sums, "spread the nodes over more racks")
    elif load.weight_unknown:
        yield not_checked(
            "RACK-005", loaded_rack.rack.loc, f"RACKS: no published weight of {', '.join(load.weight_unknown)}"
        )


def weight_terms(loaded_rack: LoadedRack) -> str:
    """Return the terms of a rack's weight: `4 x 130.5 kg + 3 x 7.7 kg`."""
    terms = _counted([(item.load, item.load.weight_kg) for item in loaded_rack.items if item.kind != "pdu"])
    pdu_kg = loaded_rack.rack.pdu.weight_kg if loaded_rack.rack.pdu else None
    if pdu_kg and loaded_rack.rack.spec.feeds:
        terms.append((len(loaded_rack.rack.spec.feeds), pdu_kg))
    return " + ".join(f"{count} x {kg(weight_kg, 1)}" for count, weight_kg in terms) or "nothing"


def _counted(loads: Iterable[tuple[Load, float | None]]) -> list[tuple[int, float]]:
    counts: dict[tuple[str, float], int] = defaultdict(int)
    for load, amount in loads:
        if amount:
            counts[load.label, amount] += 1
    return [(count, amount) for (_, amount), count in counts.items()]


def power_terms(loaded_rack: LoadedRack) -> str:
    """Return the terms of a rack's power: `4 x 10.2 kW`."""
    terms = _counted([(item.load, item.load.least_w) for item in loaded_rack.items])
    least = "at least " if loaded_rack.load.power_unknown else ""
    sums = " + ".join(f"{count} x {kw(power_w)}" for count, power_w in sorted(terms, key=lambda t: -t[1]))
    return f"{least}{sums or 'nothing'}"


def _pdus(_: Room, loaded_rack: LoadedRack) -> Breaches:
    rack, count = loaded_rack.rack, len(loaded_rack.rack.spec.feeds)
    if rack.pdu is None or not count:
        return
    loc = (*rack.loc, "feeds")
    if rack.pdu.rack_units is None:
        yield not_checked("RACK-007", (*rack.loc, "pdu"), f"no published height of {rack.spec.pdu}")
    elif rack.pdu.rack_units:
        lying = sum(item.kind == "pdu" for item in loaded_rack.items)
        if lying < count:
            sums = f"{count} x {rack.pdu.rack_units} units, room for {lying}"
            yield Breach("RACK-007", loc, "RACKS: no room for all PDUs", sums, "keep units free for PDUs")
    elif rack.model.pdu_mounts is None:
        yield not_checked("RACK-007", rack.loc, f"no published places for upright PDUs of {rack.spec.model}")
    elif count > rack.model.pdu_mounts:
        sums = f"{count} > {rack.model.pdu_mounts} of {rack.spec.model}"
        yield Breach("RACK-007", loc, "RACKS: too few places for PDUs", sums, "fewer or larger PDUs")


def free_u(loaded_rack: LoadedRack) -> int | None:
    """Return the number of free units of a rack; None if its height is not known."""
    height = loaded_rack.rack.model.rack_units
    return (
        None if height is None else height - len({u for item in loaded_rack.items for u in item.taken if u <= height})
    )


def _spare(_: Room, loaded_rack: LoadedRack) -> Breaches:
    required, free = loaded_rack.rack.spec.spare_u, free_u(loaded_rack)
    if required is not None and free is not None and free < required:
        sums = f"{free} free of {loaded_rack.rack.model.rack_units} < {required}"
        loc = (*loaded_rack.rack.loc, "spare_u")
        yield Breach("RACK-010", loc, "RACKS: no room for switches and cables", sums, "fewer nodes in the rack")


_BY_NAME: frozenset[RackRule] = frozenset({_overlap, _height})  # they name nodes, so their results differ by rack


# Rules about one machine: memory, ports, slots, lanes, supplies, GPUs in their chassis.
#
# Each rule checks a kind of node and reports its breaches; nodes of a group with the same breach are folded.

_MIN_PORTS = 2  # one to the cluster, one outside
_GPU_SLOT_LANES, _NIC_SLOT_LANES, _NVME_LANES = 16, 8, 4


def node_breaches(room: Room) -> Breaches:
    """Yield the breaches of every kind of node."""
    names_by_breach: dict[Breach, list[str]] = defaultdict(list)
    for kind in room.kinds:
        if not kind.metal:
            label = "virtual machine" if kind.server.machine == "virtual" else "rehearsal's node"
            message = f"{kind.model} is a {label}: rules about nodes, racks, power and cooling do not apply"
            names_by_breach[not_checked("NODE-009", kind.loc(), message)] += kind.names
            continue
        for rule in _RULES:
            for breach in rule(kind, room.catalog):
                names_by_breach[breach] += kind.names
    for breach, names in names_by_breach.items():
        yield replace(breach, message=f"{hostlist.fold(names)}: {breach.message}")


def is_impossible(kind: NodeKind, catalog: Catalog) -> bool:
    """Tell whether a kind of node is impossible, so that its power and heat are meaningless."""
    rules = (_form_factor, _gpu_count)
    return kind.metal and any(breach.judged == "error" for rule in rules for breach in rule(kind, catalog))


def _memory(kind: NodeKind, _: Catalog) -> Breaches:
    memory_gib, loc = kind.server.memory_gib, kind.loc("memory_gib")
    if memory_gib is None:
        yield _unknown("NODE-001", kind, "memory", "memory_gib")
    elif memory_gib < MIN_MEMORY_GIB:
        arithmetic = f"{memory_gib} GiB < {MIN_MEMORY_GIB} GiB"
        severity: Severity = "error" if kind.worker else "warning"
        yield Breach("NODE-001", loc, "too little memory", arithmetic, "fit more memory", severity)


def _ports(kind: NodeKind, catalog: Catalog) -> Breaches:
    counts = [_nic_ports(model, catalog) for _, model in map(counted, kind.server.nics)]
    total = sum(port.count for port in kind.server.ports or ())
    total += sum(n * (c or 0) for (n, _), c in zip(map(counted, kind.server.nics), counts, strict=True))
    if total >= _MIN_PORTS:
        return
    if kind.server.ports is None or None in counts:
        yield _unknown("NODE-002", kind, "network ports", "ports")
        return
    severity: Severity = "error" if kind.worker else "warning"
    arithmetic = f"{total} < {_MIN_PORTS}: one to the cluster and one outside"
    yield Breach("NODE-002", kind.loc(), "too few network ports", arithmetic, "add an adapter with `nics`", severity)


def _nic_ports(model: str, catalog: Catalog) -> int | None:
    """Return the ports of an adapter; a plain rate, as in 2 x 200G, is one port."""
    nic = catalog.nics.get(model)
    if nic is None:
        return 1
    return None if nic.ports is None else sum(port.count for port in nic.ports)


def _slots(kind: NodeKind, catalog: Catalog) -> Breaches:
    gpu = catalog.gpus.get(kind.gpus.model) if kind.gpus else None
    if kind.gpus and gpu and gpu.form_factor is None:
        yield _unknown("NODE-003", kind, "form factor", "form_factor", kind.gpus.model)
        return
    cards = kind.gpus.count if kind.gpus and gpu and gpu.form_factor == "pcie" else 0
    adapters = sum(count for count, _ in map(counted, kind.server.nics))
    if not cards + adapters or _too_many(kind):
        return
    if kind.server.pcie_slots is None:
        yield _unknown("NODE-003", kind, "PCIe slots", "pcie_slots")
        return
    wide = sum(slot.count for slot in kind.server.pcie_slots if slot.lanes >= _GPU_SLOT_LANES)
    fit = sum(slot.count for slot in kind.server.pcie_slots if slot.lanes >= _NIC_SLOT_LANES)
    hint = "fewer cards, or a chassis with more slots"
    if cards > wide:
        yield Breach("NODE-003", kind.loc("gpus"), "too few slots for GPUs", f"{cards} GPUs > {wide} x16 slots", hint)
    elif cards + adapters > fit:
        sums = f"{cards} GPUs + {adapters} adapters = {cards + adapters} > {fit} slots of x8 or more"
        yield Breach("NODE-003", kind.loc(), "too few slots", sums, hint)


def _lanes(kind: NodeKind, catalog: Catalog) -> Breaches:
    server = kind.server
    if _too_many(kind):
        return
    gpus = [(kind.gpus.count, _gpu_lanes(kind.gpus.model, catalog), kind.gpus.model)] if kind.gpus else []
    nics = [
        (n, catalog.nics[m].pcie_lanes if m in catalog.nics else _NIC_SLOT_LANES, m)
        for n, m in _count_models(server.nics)
    ]
    drives = [(n, _NVME_LANES, model) for n, model in _count_models(server.nvme)]
    if server.pcie_switched or not gpus + nics:
        return
    cpu = catalog.cpus.get(server.cpu) if server.cpu else None
    if cpu is None or cpu.pcie_lanes is None or server.sockets is None:
        yield _unknown("NODE-004", kind, "PCIe lanes of the processors", "cpu")
        return
    unknown = [model for _, lanes, model in gpus + nics if lanes is None]
    if unknown:
        yield _unknown("NODE-004", kind, "PCIe lanes", "pcie_lanes", unknown[0])
        return
    cards = [(count, lanes or 0) for count, lanes, _ in gpus + nics + drives]
    total, available = sum(count * lanes for count, lanes in cards), server.sockets * cpu.pcie_lanes
    if total > available:
        terms = " + ".join(f"{count} x {lanes}" for count, lanes in cards)
        sums = f"{terms} = {total} lanes > {available} = {server.sockets} x {cpu.pcie_lanes} of {server.cpu}"
        yield Breach("NODE-004", kind.loc("gpus"), "too few PCIe lanes", sums, "fewer cards, or PCIe switches")


def _count_models(texts: tuple[str, ...]) -> list[tuple[int, str]]:
    return [counted(text) for text in texts]


def _gpu_lanes(model: str, catalog: Catalog) -> int | None:
    return catalog.gpus[model].pcie_lanes if model in catalog.gpus else None


def _supplies(kind: NodeKind, _: Catalog) -> Breaches:
    psu, load_w, least_w = kind.server.psu, kind.watts.node_w, kind.watts.least_w
    if psu is None or psu.needed is None or psu.rated_w is None:
        yield _unknown("NODE-005", kind, "power supplies (needed, rated_w)", "psu")
        return
    there_w = psu.needed * psu.rated_w
    if load_w is None:  # POWER-015 reports it; parts are behind the supplies
        if least_w > there_w:
            load, limit = apart(kw, least_w, there_w)
            sums = f"{load} of known parts > {limit} = {psu.needed} x {kw(psu.rated_w)}"
            yield Breach("NODE-005", kind.loc(), "supplies do not carry the full load", sums, "larger or more supplies")
        return
    output_w = load_w * (psu.efficiency or 1.0)
    if output_w <= there_w:
        return
    if psu.efficiency is None:
        yield _unknown("NODE-005", kind, "efficiency of the supplies", "psu.efficiency")
        return
    load, limit = apart(kw, output_w, there_w)
    lost = f" with {(psu.count or psu.needed) - psu.needed} lost" if psu.count else ""
    sums = f"{psu.efficiency:g} x {kw(load_w)} = {load} > {limit} = {psu.needed} x {kw(psu.rated_w)}"
    yield Breach("NODE-005", kind.loc(), f"supplies do not carry the full load{lost}", sums, "larger or more supplies")


def _form_factor(kind: NodeKind, catalog: Catalog) -> Breaches:
    if kind.gpus is None:
        return
    gpu, takes = catalog.gpus.get(kind.gpus.model), kind.server.gpu_form_factors
    if gpu is None or gpu.form_factor is None:
        yield from _unless_stock("NODE-006", kind, "form factor", "form_factor", kind.gpus.model)
    elif takes is None:
        yield from _unless_stock("NODE-006", kind, "form factors that the chassis takes", "gpu_form_factors")
    elif gpu.form_factor not in takes:
        sums = f"{gpu.form_factor} is not one of {', '.join(takes) or 'none'}"
        yield Breach("NODE-006", kind.loc("gpus"), f"{kind.gpus.model} does not fit {kind.model}", sums, _other_gpu())


def _other_gpu() -> str:
    return "choose a GPU that the chassis takes, or another chassis"


def _gpu_cooling(kind: NodeKind, catalog: Catalog) -> Breaches:
    if kind.gpus is None:
        return
    gpu, takes = catalog.gpus.get(kind.gpus.model), kind.server.gpu_cooling
    if gpu is None or gpu.cooling is None:
        yield from _unless_stock("NODE-007", kind, "cooling", "cooling", kind.gpus.model)
    elif takes is None:
        yield from _unless_stock("NODE-007", kind, "GPU cooling that the chassis allows", "gpu_cooling")
    elif gpu.cooling not in takes:
        sums = f"{gpu.cooling} is not one of {', '.join(takes) or 'none'}"
        message = f"{kind.gpus.model} cannot be cooled in {kind.model}"
        yield Breach("NODE-007", kind.loc("gpus"), message, sums, _other_gpu())


def _too_many(kind: NodeKind) -> bool:
    """Tell whether there are more GPUs than the chassis takes: rules about slots and lanes then skip them."""
    return kind.gpus is not None and kind.server.gpus_max is not None and kind.gpus.count > kind.server.gpus_max


def _gpu_count(kind: NodeKind, _: Catalog) -> Breaches:
    if kind.gpus is None:
        return
    if kind.server.gpus_max is None:
        yield from _unless_stock("NODE-008", kind, "number of GPUs that it takes", "gpus_max")
    elif kind.gpus.count > kind.server.gpus_max:
        sums = f"{kind.gpus.count} > {kind.server.gpus_max} of {kind.model}"
        own = f"`gpus_max` in an entry like {kind.model}, `hardware`"
        sold = f"the model has {kind.server.gpus.count}; " if kind.server.gpus and kind.server.gpus != kind.gpus else ""
        hint = f"{sold}fewer GPUs, or another chassis; if this one takes more: {own}"
        yield Breach("NODE-008", kind.loc("gpus"), "more GPUs than the chassis takes", sums, hint)


def _processors(kind: NodeKind, catalog: Catalog) -> Breaches:
    name, takes = kind.server.cpu, kind.server.cpu_socket
    cpu = catalog.cpus.get(name) if name else None
    if name is None or cpu is None:
        return
    if cpu.socket is None:
        yield _unknown("NODE-010", kind, "socket", "socket", name)
    elif takes is None:
        yield _unknown("NODE-010", kind, "type of processor sockets", "cpu_socket")
    elif cpu.socket != takes:
        sums = f"socket {cpu.socket} is not {takes}"
        hint = "choose a processor of that socket, or another chassis"
        yield Breach("NODE-010", kind.loc("cpu"), f"{name} does not fit {kind.model}", sums, hint)


def _unless_stock(code: str, kind: NodeKind, noun: str, fact: str, model: str | None = None) -> Breaches:
    """Report an unknown fact, unless the GPUs are those of the server model: they fit."""
    if kind.gpus != kind.server.gpus:
        yield _unknown(code, kind, noun, fact, model)


def _unknown(code: str, kind: NodeKind, noun: str, fact: str, model: str | None = None) -> Breach:
    name = model or kind.model
    place = "`parts`" if model else "`hardware`"
    return not_checked(code, kind.loc(), f"no published {noun} of {name}", f"set {fact} in an entry like it, {place}")


_RULES: tuple[Callable[[NodeKind, Catalog], Breaches], ...] = (
    _memory,
    _ports,
    _slots,
    _lanes,
    _supplies,
    _form_factor,
    _gpu_cooling,
    _gpu_count,
    _processors,
)
