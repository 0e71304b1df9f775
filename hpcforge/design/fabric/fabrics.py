"""The fabrics of a blueprint, and the breaches of their rules. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcforge.blueprint import node_sets
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.membership import node_set_names
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections import fabrics as f
from hpcforge.blueprint.sections.hardware import Switch, SwitchPorts
from hpcforge.catalog import Catalog
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.cages import unfit
from hpcforge.design.fabric.graph import CableKind, Fabric, GrowthMove
from hpcforge.design.fabric.rule_checks import judge, nodes_at, ports_of_nodes, unique_names
from hpcforge.design.fabric.rules import breach
from hpcforge.design.fabric.spec import Ask, CannotBuildError, Model, OtherEnd, OwnPorts
from hpcforge.design.facility.rules import Breach

# Growth beyond `designed_for` moves existing cables.
Ends = tuple[str, int, str, int]


def moves(before: Fabric, after: Fabric) -> tuple[GrowthMove, ...]:
    """Pair the cables of `before` that `after` lacks with cables of `after` that they can become.

    A cable that keeps one end is moved at the other. Those that keep the port nearer to the nodes are matched first,
    then all others that keep an end. The remaining cables have no place in `after` and are taken out.
    """
    old, new = _cables(before), _cables(after)
    kinds = {**old, **new}
    removed = [ends for ends in old if ends not in new]
    free = [ends for ends in new if ends not in old]
    matched: dict[Ends, Ends] = {}
    for kept_end in (_nearer, _farther):
        waiting: dict[tuple[str, int], list[Ends]] = defaultdict(list)
        for ends in reversed(free):
            waiting[kept_end(ends)].append(ends)
        for ends in removed:
            if ends not in matched and waiting[kept_end(ends)]:
                matched[ends] = waiting[kept_end(ends)].pop()
        used = set(matched.values())
        free = [ends for ends in free if ends not in used]
    return tuple(GrowthMove(ends, matched.get(ends), kinds[ends]) for ends in removed)


def _nearer(ends: Ends) -> tuple[str, int]:
    return ends[:2]


def _farther(ends: Ends) -> tuple[str, int]:
    return ends[2:]


def _cables(fabric: Fabric) -> dict[Ends, CableKind]:
    names = [device.name for device in fabric.devices]
    return {(names[c.a], c.a_port, names[c.b], c.b_port): c.kind for c in fabric.cables}


@dataclass(frozen=True)
class Fabrics:
    """The fabrics that can be built, in the blueprint's order, and the breaches of all."""

    built: tuple[Fabric, ...]
    breaches: tuple[Breach, ...]


def fabrics(blueprint: Blueprint, catalog: Catalog, inventory: Inventory | None = None) -> Fabrics:
    """Build and judge the fabrics of a blueprint whose references hold."""
    built, breaches = [], list[Breach]()
    known_names = node_set_names(blueprint, inventory)
    for name, spec in blueprint.fabrics.items():
        ask = _ask(name, spec, known_names, catalog)
        if not isinstance(ask, Ask):
            breaches += ask
            continue
        try:
            fabric = _grown(ask)
        except CannotBuildError as error:
            breaches.append(
                breach(error.code, (*_loc(name), "topology"), f"{name}: {error}", error.arithmetic, error.hint or None)
            )
            continue
        built.append(fabric)
        breaches += [*judge(fabric, spec, catalog), *unfit(fabric, blueprint, catalog)]
    breaches += [*ports_of_nodes(blueprint, catalog, built, known_names), *unique_names(blueprint, built, known_names)]
    return Fabrics(tuple(built), tuple(breaches))


def _loc(name: str) -> Loc:
    return ("fabrics", name)


def _grown(ask: Ask) -> Fabric:
    """Build the fabric, with the moves of cables if it has more nodes than it was designed for."""
    fabric = build(ask)
    if not 0 < ask.designed_for < len(ask.nodes):
        return fabric
    before = build(replace(ask, nodes=ask.nodes[: ask.designed_for]))
    return replace(fabric, designed=ask.designed_for, moves=moves(before, fabric))


def _ends(spec: f.FabricSection, known_names: node_sets.KnownNames, own: Mapping[str, OwnPorts]) -> Iterator[OtherEnd]:
    for name, ends in spec.endpoints.items():
        names = node_sets.sure(ends.nodes, known_names) if ends.nodes else numbered(name, ends.count or 0)
        yield from (OtherEnd(end, ends.links, own.get(name), name) for end in names)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Return the names of machines outside the blueprint: `ufm-1` to `ufm-4`."""
    width = len(str(count))
    return tuple(f"{name}-{number:0{width}}" for number in range(1, count + 1))


def _own_ports(name: str, spec: f.FabricSection, catalog: Catalog) -> Iterator[tuple[str, OwnPorts] | Breach]:
    """Yield the ports for ends with a rate or breakout of their own, or the reason why the switches lack them."""
    for group, ends in spec.endpoints.items():
        rate_gbps = ends.rate_gbps or spec.rate_gbps
        breakout = ends.breakout or (spec.breakout if rate_gbps == spec.rate_gbps else 1)
        if (rate_gbps, breakout) == (spec.rate_gbps, spec.breakout):
            continue
        path = ("endpoints", group, "rate_gbps" if ends.rate_gbps else "breakout")
        fast = _fast_ports(catalog.switches[spec.switch].ports or (), rate_gbps * breakout)
        if fast is None:
            yield _too_slow(name, path, spec.switch, rate_gbps * breakout, catalog)
        elif breakout > 1 and fast[1].breakouts is not None and breakout not in fast[1].breakouts:
            yield _no_split(name, ("endpoints", group, "breakout"), spec.switch, breakout, fast[1])
        else:
            yield group, OwnPorts(rate_gbps, breakout, fast[0], fast[1].count)


def _ask(name: str, spec: f.FabricSection, known_names: node_sets.KnownNames, catalog: Catalog) -> Ask | list[Breach]:
    """Translate the blueprint's request to numbers, or return why its switches cannot meet it."""
    port_rate_gbps = spec.rate_gbps * spec.breakout
    leaf = _model(name, "switch", spec.switch, spec, catalog, port_rate_gbps)
    if not isinstance(leaf, Model):
        return leaf
    uplink = spec.uplink_rate_gbps or _uplink_rate(leaf, catalog.switches[spec.switch].ports or (), port_rate_gbps)
    above = spec.spine_switch or spec.switch
    spine = _model(name, "spine_switch" if spec.spine_switch else "switch", above, spec, catalog, uplink, ends=False)
    if not isinstance(spine, Model):
        return spine
    fast = _fast_ports(catalog.switches[spec.switch].ports or (), uplink)
    if spec.topology != "single-switch" and fast is None:
        key = "uplink_rate_gbps" if spec.uplink_rate_gbps else "rate_gbps"
        return [_too_slow(name, (key,), spec.switch, uplink, catalog)]
    attached = nodes_at(spec, known_names)
    own = list(_own_ports(name, spec, catalog))
    if wrong := [entry for entry in own if isinstance(entry, Breach)]:
        return wrong
    return Ask(
        name=name,
        kind=spec.kind,
        topology=spec.topology,
        rate_gbps=spec.rate_gbps,
        uplink_rate_gbps=uplink,
        nodes=tuple(node for node in node_sets.sure(spec.nodes, known_names) if node not in attached),
        leaf=leaf,
        spine=spine,
        rails=spec.rails or spec.links or (2 if spec.topology == "leaf-pair" else 1),
        designed_for=spec.designed_for or 0,
        endpoints=tuple(_ends(spec, known_names, dict(entry for entry in own if not isinstance(entry, Breach)))),
        breakout=spec.breakout,
        leaf_oversubscription=spec.oversubscription.leaf,
        spine_oversubscription=spec.oversubscription.spine,
        uplinks=spec.uplinks,
        peer_links=spec.peer_links or 2,
        groups=spec.groups,
    )


def _model(
    name: str, key: str, model: str, spec: f.FabricSection, catalog: Catalog, rate_gbps: float, *, ends: bool = True
) -> Model | list[Breach]:
    """Return a switch model as this fabric uses it, or why it cannot."""
    switch, loc = catalog.switches[model], (*_loc(name), key)
    speaks = "ethernet" if spec.kind == "roce" else spec.kind
    if switch.protocols is not None and speaks not in switch.protocols:
        sums = f"{speaks} is not one of {', '.join(switch.protocols) or 'none'}"
        return [breach("FABRIC-002", loc, f"{name}: {model} does not speak {spec.kind}", sums)]
    if not switch.ports:
        hint = "set ports in an entry like it, `parts: {switches: ...}`"
        return [breach("FABRIC-009", loc, f"{name}: no published ports of {model}", None, hint)]
    slow = _fast_ports(switch.ports, rate_gbps)
    if slow is None:
        return [_too_slow(name, ("rate_gbps",), model, rate_gbps, catalog)]
    first, ports = slow
    if ends and spec.breakout > 1 and ports.breakouts is not None and spec.breakout not in ports.breakouts:
        return [_no_split(name, ("breakout",), model, spec.breakout, ports)]
    up_first, up = _up_ports(switch.ports, (first, ports), spec, rate_gbps) if ends else (first, ports)
    return Model(model, ports.count, up.count, first, up_first, ports.per_cage)


def _fast_ports(ports: Sequence[SwitchPorts], rate_gbps: float) -> tuple[int, SwitchPorts] | None:
    """Return the slowest ports that run at a rate, and the number of their first."""
    first, blocks = 1, list[tuple[int, SwitchPorts]]()
    for block in ports:
        if block.rate_gbps >= rate_gbps:
            blocks.append((first, block))
        first += block.count
    return min(blocks, key=lambda entry: entry[1].rate_gbps, default=None)


def _up_ports(
    ports: Sequence[SwitchPorts], ends: tuple[int, SwitchPorts], spec: f.FabricSection, rate_gbps: float
) -> tuple[int, SwitchPorts]:
    """Return the ports for uplinks: the fastest, if a model has faster ones than those for ends; else the same."""
    fastest = max(block.rate_gbps for block in ports)
    fast = _fast_ports(ports, max(spec.uplink_rate_gbps or fastest, rate_gbps))
    return fast or ends


def _uplink_rate(leaf: Model, ports: Sequence[SwitchPorts], port_rate_gbps: float) -> float:
    """Return the rate of uplinks: that of the ports for ends, or of a model's ports for uplinks."""
    return port_rate_gbps if leaf.shared else max(block.rate_gbps for block in ports)


def _no_split(name: str, path: Loc, model: str, breakout: int, ports: SwitchPorts) -> Breach:
    sums = f"{breakout} is not one of {', '.join(map(str, ports.breakouts or ())) or 'none'}"
    return breach("FABRIC-003", (*_loc(name), *path), f"{name}: a port of {model} cannot be split so", sums)


def _too_slow(name: str, path: Loc, model: str, rate_gbps: float, catalog: Catalog) -> Breach:
    fastest = max((ports.rate_gbps for ports in catalog.switches[model].ports or ()), default=0)
    sums = f"{rate_gbps:g} Gb/s > {fastest:g} Gb/s of {model}"
    return breach("FABRIC-003", (*_loc(name), *path), f"{name}: no port of {model} is fast enough", sums)


def switch_of(fabric: Fabric, catalog: Catalog, device: int) -> Switch | None:
    """Return the catalog's entry of a switch; None for an end."""
    model = fabric.devices[device].model
    return catalog.switches[model] if model else None
