"""Rules about fabrics that can be built. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.node_sets import KnownNames, sure
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections import fabrics as f
from hpcforge.blueprint.sections.hardware import Ports
from hpcforge.blueprint.values import counted
from hpcforge.catalog import Catalog
from hpcforge.design.fabric.graph import TO_ENDS, Fabric
from hpcforge.design.fabric.rules import breach
from hpcforge.design.facility.rules import Breach

Breaches = Iterator[Breach]
_BMC_GBPS = 1.0  # the rate of management controllers' ports, as of every server in the catalog


def judge(fabric: Fabric, spec: f.FabricSection, catalog: Catalog) -> Breaches:
    """Yield the breaches of one fabric."""
    loc = ("fabrics", fabric.name)
    if fabric.designed:
        node_count = sum(device.kind == "node" for device in fabric.devices)
        sums = f"{node_count} nodes > {fabric.designed}; {len(fabric.moves)} cables of the old wiring move"
        yield breach("FABRIC-004", (*loc, "designed_for"), f"{fabric.name}: more nodes than designed for", sums)
    if spec.kind in ("infiniband", "omni-path") and spec.subnet_manager is None:
        message = f"{fabric.name}: `subnet_manager` is missing"
        yield breach("FABRIC-006", loc, message, hint="subnet_manager: on-switch, external or a node", key=True)
    managed = catalog.switches[spec.switch].managed
    if spec.subnet_manager == "on-switch" and managed is False:
        key_loc = (*loc, "subnet_manager")
        yield breach("FABRIC-007", key_loc, f"{fabric.name}: {spec.switch} has no management processor")
    elif spec.subnet_manager == "on-switch" and managed is None:
        key_loc = (*loc, "subnet_manager")
        message = f"{fabric.name}: not published whether {spec.switch} is managed"
        yield breach("FABRIC-007", key_loc, message, severity="not-checked")
    if spec.subnet_manager not in (None, "on-switch", "external", *fabric.index):
        key_loc = (*loc, "subnet_manager")
        hint = f"name it under `endpoints`: {{sm: {{nodes: {spec.subnet_manager}}}}}"
        yield breach("FABRIC-007", key_loc, f"{spec.subnet_manager} is not on {fabric.name}", hint=hint)
    yield from _split_bonds(fabric, spec)
    if fabric.count("spine") == 1 and fabric.count("leaf") > 1:
        sums = f"1 spine for {fabric.count('leaf')} leaves"
        yield breach(
            "FABRIC-010", (*loc, "topology"), f"{fabric.name}: the loss of one switch separates all leaves", sums
        )


def _split_bonds(fabric: Fabric, spec: f.FabricSection) -> Breaches:
    """Yield ends whose bond leads to switches that do not form one together."""
    leaves: dict[int, set[int]] = defaultdict(set)
    for cable in fabric.cables if fabric.topology != "leaf-pair" else ():
        if cable.kind in TO_ENDS:
            leaves[cable.a].add(cable.b)
    for group in (None, *spec.endpoints):
        bond = (spec.endpoints[group].bond if group else None) or spec.bond
        split = [fabric.devices[end] for end, on in leaves.items() if len(on) > 1 and bond == "802.3ad"]
        names = [device.name for device in split if device.group == group]
        if names:
            keys = ("endpoints", group, "bond") if group and spec.endpoints[group].bond else ("bond",)
            message = f"{fabric.name}: a bond of {hostlist.fold(names)} leads to several switches"
            yield breach("FABRIC-011", ("fabrics", fabric.name, *keys), message)


def unique_names(blueprint: Blueprint, built: Sequence[Fabric], known_names: KnownNames) -> Breaches:
    """Yield switches and other ends that have the name of a node, or the same name."""
    nodes = {name for key in blueprint.nodes for name in hostlist.expand(key)}
    for fabric in built:
        attached = nodes_at(blueprint.fabrics[fabric.name], known_names)
        names = Counter(
            device.name for device in fabric.devices if device.kind != "node" and device.name not in attached
        )
        clash = [name for name, count in names.items() if name in nodes or count > 1]
        if clash:
            message = f"{fabric.name}: {hostlist.fold(clash)} would be a second one of that name"
            yield breach("FABRIC-008", ("fabrics", fabric.name), message, key=True)


def nodes_at(spec: f.FabricSection, known_names: KnownNames) -> set[str]:
    """Return the nodes of the blueprint among a fabric's other ends."""
    return {name for ends in spec.endpoints.values() if ends.nodes for name in sure(ends.nodes, known_names)}


def ports_of_nodes(
    blueprint: Blueprint, catalog: Catalog, built: Sequence[Fabric], known_names: KnownNames
) -> Breaches:
    """Yield fabrics that take more ports of a node than its server model and adapters have.

    Check each fabric alone, as several fabrics may share a port: links against ports that are fast enough.
    """
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    for fabric in built:
        short: dict[tuple[str, int, int, float], list[str]] = defaultdict(list)
        attached = nodes_at(blueprint.fabrics[fabric.name], known_names)
        for device in fabric.devices:
            key = group_of.get(device.name)
            if key is None or (device.kind == "endpoint" and device.name not in attached):
                continue
            rate_gbps = device.rate_gbps or fabric.rate_gbps
            available = _fast_ports(blueprint.nodes[key].hardware, catalog, fabric, rate_gbps)
            if available is not None and available < device.ports:
                short[blueprint.nodes[key].hardware, device.ports, available, rate_gbps].append(device.name)
        for (hardware, links, available, rate_gbps), names in short.items():
            sums = f"{links} links > {available} ports of {rate_gbps:g} Gb/s or more of {hardware}"
            message = f"{fabric.name}: {hostlist.fold(names)} too few ports"
            yield breach("FABRIC-005", ("fabrics", fabric.name, "nodes"), message, sums, "fewer links, or add `nics`")


def _fast_ports(hardware: str, catalog: Catalog, fabric: Fabric, rate_gbps: float) -> int | None:
    """Count a server's ports that run at a rate; None if some ports are unknown, or it is not metal."""
    ports = ports_of(hardware, catalog, fabric)
    if ports is None:
        return None
    management = (catalog.servers[hardware].bmc_ports or 0) if rate_gbps <= _BMC_GBPS else 0
    return management + sum(port.count for port in ports if port.rate_gbps >= rate_gbps)


def ports_of(hardware: str, catalog: Catalog, fabric: Fabric) -> list[Ports] | None:
    """Return the ports of a server and its adapters that speak the fabric's protocol; None if some are unknown."""
    server = catalog.servers[hardware]
    if server.machine != "metal" or server.ports is None or fabric.kind == "omni-path":
        return None  # the catalog has no ports that speak Omni-Path
    speaks = "infiniband" if fabric.kind == "infiniband" else "ethernet"
    ports = list(server.ports)
    for number, model in map(counted, server.nics):
        nic = catalog.nics.get(model)
        if nic is None:  # a rate, as in 2 x 200G, is a port that speaks either
            ports.append(
                Ports.model_construct(count=number, rate_gbps=float(model.removesuffix("G")), kind=None, connector=None)
            )
        elif nic.ports is None:
            return None
        else:
            ports += nic.ports * number
    return [port for port in ports if port.kind in (speaks, "either", None)]
