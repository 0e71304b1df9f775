"""Rules about one machine: memory, ports, slots, lanes, supplies, GPUs in their chassis. Pure.

Each rule looks at a kind of node and says what is wrong of one; nodes of a group of which the same is said are folded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.design.facility.design import Severity
from hpcforge.design.facility.room import NodeKind, Room
from hpcforge.design.facility.rules import MIN_MEMORY_GIB, Breach, not_checked
from hpcforge.design.facility.units import apart, kw

_MIN_PORTS = 2  # one to the cluster, one outside
_GPU_SLOT_LANES, _NIC_SLOT_LANES, _NVME_LANES = 16, 8, 4

Breaches = Iterator[Breach]


def node_breaches(room: Room) -> Breaches:
    """Yield what rules say of every kind of node."""
    said: dict[Breach, list[str]] = defaultdict(list)
    for kind in room.kinds:
        if not kind.metal:
            what = "virtual machine" if kind.server.machine == "virtual" else "rehearsal's node"
            message = f"{kind.model} is a {what}: no rule about nodes, racks, power and cooling applies to it"
            said[not_checked("NODE-009", kind.loc(), message)] += kind.names
            continue
        for rule in _RULES:
            for breach in rule(kind, room.catalog):
                said[breach] += kind.names
    for breach, names in said.items():
        yield replace(breach, message=f"{hostlist.fold(names)}: {breach.message}")


def is_impossible(kind: NodeKind, catalog: Catalog) -> bool:
    """Tell whether there can be no such node, so that its power and heat are those of a mistake."""
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
    known = sum(port.count for port in kind.server.ports or ())
    known += sum(n * (c or 0) for (n, _), c in zip(map(counted, kind.server.nics), counts, strict=True))
    if known >= _MIN_PORTS:
        return
    if kind.server.ports is None or None in counts:
        yield _unknown("NODE-002", kind, "network ports", "ports")
        return
    severity: Severity = "error" if kind.worker else "warning"
    arithmetic = f"{known} < {_MIN_PORTS}: one to the cluster and one outside"
    yield Breach("NODE-002", kind.loc(), "too few network ports", arithmetic, "add an adapter with `nics`", severity)


def _nic_ports(model: str, catalog: Catalog) -> int | None:
    """Ports of an adapter; one that is only a rate, as in 2 x 200G, is a port."""
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
    nics = [(n, catalog.nics[m].pcie_lanes if m in catalog.nics else _NIC_SLOT_LANES, m) for n, m in _each(server.nics)]
    drives = [(n, _NVME_LANES, model) for n, model in _each(server.nvme)]
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
    wanted = [(count, lanes or 0) for count, lanes, _ in gpus + nics + drives]
    total, there = sum(count * lanes for count, lanes in wanted), server.sockets * cpu.pcie_lanes
    if total > there:
        terms = " + ".join(f"{count} x {lanes}" for count, lanes in wanted)
        sums = f"{terms} = {total} lanes > {there} = {server.sockets} x {cpu.pcie_lanes} of {server.cpu}"
        yield Breach("NODE-004", kind.loc("gpus"), "too few PCIe lanes", sums, "fewer cards, or PCIe switches")


def _each(texts: tuple[str, ...]) -> list[tuple[int, str]]:
    return [counted(text) for text in texts]


def _gpu_lanes(model: str, catalog: Catalog) -> int | None:
    return catalog.gpus[model].pcie_lanes if model in catalog.gpus else None


def _supplies(kind: NodeKind, _: Catalog) -> Breaches:
    psu, load_w, least_w = kind.server.psu, kind.watts.node_w, kind.watts.least_w
    if psu is None or psu.needed is None or psu.rated_w is None:
        yield _unknown("NODE-005", kind, "power supplies (needed, rated_w)", "psu")
        return
    there_w = psu.needed * psu.rated_w
    if load_w is None:  # POWER-015 says so; parts are behind the supplies
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
    """Tell whether there are more GPUs than the chassis takes: of their slots and lanes is then nothing to say."""
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


def _unless_stock(code: str, kind: NodeKind, what: str, fact: str, model: str | None = None) -> Breaches:
    """Say that a fact is not known, unless the GPUs are those the server model comes with: they fit."""
    if kind.gpus != kind.server.gpus:
        yield _unknown(code, kind, what, fact, model)


def _unknown(code: str, kind: NodeKind, what: str, fact: str, model: str | None = None) -> Breach:
    name = model or kind.model
    where = "`parts`" if model else "`hardware`"
    return not_checked(code, kind.loc(), f"no published {what} of {name}", f"say {fact} in an entry like it, {where}")


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
