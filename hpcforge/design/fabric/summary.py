"""From a fabric with its cables to its part of a design. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from hpcforge.blueprint.hardware import CableModel
from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.design import (
    SWITCH_KINDS,
    CableLot,
    CableMove,
    Cutting,
    FabricDesign,
    Loss,
    SwitchPlace,
    Ways,
)
from hpcforge.design.fabric.fitting import LinkKind
from hpcforge.design.fabric.graph import CABLE_KINDS, ENDS, Fabric
from hpcforge.design.fabric.metrics import metrics
from hpcforge.design.facility.design import BomLine


def fabric_design(cabling: Cabled) -> FabricDesign:
    """Sum a fabric up."""
    fabric = cabling.fabric
    carried = metrics(fabric)
    return FabricDesign(
        name=fabric.name,
        kind=fabric.kind,
        topology=fabric.topology,
        tiers=fabric.tiers,
        rate_gbps=fabric.rate_gbps,
        uplink_rate_gbps=fabric.uplink_rate_gbps,
        breakout=fabric.breakout,
        rails=fabric.rails,
        nodes=fabric.count("node"),
        endpoints=fabric.count("endpoint"),
        designed_for=fabric.designed_for,
        switches={kind: fabric.count(kind) for kind in SWITCH_KINDS},
        cables=fabric.cable_counts,
        capacity_gbps={
            kind: sum((rate * count for rate, count in fabric.rates.get(kind, {}).items()), 0.0) for kind in CABLE_KINDS
        },
        oversubscription=carried.oversubscription,
        bisection_gbps=carried.bisection_gbps,
        paths=tuple(Ways(way.between, way.switches, way.ways, way.disjoint) for way in carried.paths),
        failures=tuple(
            Loss(
                failure.what,
                failure.name,
                failure.alike,
                failure.links_lost,
                failure.nodes_cut_off,
                failure.bisection_gbps,
            )
            for failure in carried.failures
        ),
        cutting=_cutting(cabling),
        placed=tuple(_placed(cabling)),
        notes=fabric.notes,
        moves=tuple(_moves(fabric)),
    )


def _cutting(cabling: Cabled) -> Cutting:
    lots = [CableLot(model, length_m, count, ends) for (model, length_m, ends), count in sorted(cabling.bought.items())]
    return Cutting(
        total_m=sum(lot.length_m * lot.count for lot in lots),
        longest_m=max((lot.length_m for lot in lots), default=None),
        not_checked=cabling.model.count(UNKNOWN),
        lots=tuple(lots),
    )


def _placed(cabling: Cabled) -> Iterator[SwitchPlace]:
    used = Counter(cabling.fabric.cables.a)
    used.update(cabling.fabric.cables.b)
    for index, (device, spot) in enumerate(zip(cabling.fabric.devices, cabling.spots, strict=True)):
        if device.kind not in ENDS:
            yield SwitchPlace(
                name=device.name,
                kind=device.kind,  # type: ignore[arg-type]  # what is no end is a switch
                model=device.model or "",
                unit=None if device.unit is None else device.unit + 1,
                rail=None if device.rail is None else device.rail + 1,
                ports_used=used[index],
                room=spot.room if spot else None,
                rack=spot.rack if spot else None,
                u=spot.u if spot else None,
            )


def _moves(fabric: Fabric) -> Iterator[CableMove]:
    for move in fabric.moves:
        yield CableMove(move.kind, _ends(fabric, move.taken), _ends(fabric, move.to) if move.to else None)


def _ends(fabric: Fabric, ends: tuple[str, int, str, int]) -> tuple[str, str]:
    a, a_port, b, b_port = ends
    return _end(fabric, a, a_port), _end(fabric, b, b_port)


def _end(fabric: Fabric, name: str, port: int) -> str:
    """Device and port; a device that is there no more has its number for a label."""
    device = fabric.index.get(name)
    if device is None:
        return f"{name} port {port}"
    label = fabric.port_label(device, port)
    return f"{name} {label}" if fabric.devices[device].kind in ENDS else f"{name} port {label}"


# Cables and transceivers in the bill of materials. Pure.


def bom(fabrics: Sequence[Cabled], cables: Mapping[str, CableModel]) -> Iterator[BomLine]:
    """Yield a line for each model and length of cable, and one for the transceivers of each model."""
    lots: Counter[tuple[str, float, int]] = Counter()
    for cabling in fabrics:
        lots.update(cabling.bought)
    for (model, length_m, ends), count in sorted(lots.items()):
        split = f", one port to {ends} ends" if ends > 1 else ""
        fibre = "fibre, " if cables[model].fibre else ""
        said = f"{fibre}{length_m:g} m{split}: {cables[model].description or ''}".removesuffix(": ")
        yield BomLine("cable", model, said, count, False, None, None)
    adapters = sum((cabling.adapters for cabling in fabrics), Counter[str]())
    for model, count in sorted(adapters.items()):
        yield BomLine("adapter", model, (cables[model].description or "").removesuffix("."), count, False, None, None)
    plugs: Counter[str] = Counter()
    for cabling in fabrics:
        plugs.update(transceivers(cabling, cables))
    for model, count in sorted(plugs.items()):
        said = "transceivers: one a link at a machine, one a cage at a switch, twin-port where the cage is"
        yield BomLine("transceiver", model, said, count, False, cables[model].end_w, None)


def transceivers(cabling: Cabled, cables: Mapping[str, CableModel]) -> Counter[str]:
    """How many transceivers of a model: those of a switch by cage, of a broken-out port by port, at its whole rate."""
    fabric, columns, counts = cabling.fabric, cabling.fabric.cables, Counter[str]()
    optics = [cables[model].kind == "optics" for model in cabling.models]
    cages: set[tuple[int, int, str]] = set()
    for cable, model in enumerate(cabling.model):
        if model == UNKNOWN or not optics[model]:
            continue
        for device, port in ((columns.a[cable], columns.a_port[cable]), (columns.b[cable], columns.b_port[cable])):
            machine = fabric.devices[device]
            if machine.kind in ENDS:
                counts[cabling.models[model]] += 1
            else:
                number, _ = fabric.physical_port(device, port)
                plug = _whole(cabling.models[model], cabling.links[cabling.link[cable]], cables)
                cages.add((device, (number - 1) // machine.per_cage, plug))
    counts.update(plug for _, _, plug in cages)
    return counts


def _whole(model: str, link: LinkKind, cables: Mapping[str, CableModel]) -> str:
    """Return the transceiver at a switch: of a broken-out port the one of the whole port, for the same fibre."""
    rate_gbps, fibre = link.rate_gbps * link.breakout, cables[model].fibre
    whole = (name for name, cable in cables.items() if (cable.rate_gbps, cable.fibre) == (rate_gbps, fibre))
    return next(whole, model) if link.breakout > 1 else model
