"""From a fabric with its cables to its part of a design. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

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
from hpcforge.design.fabric.graph import CABLE_KINDS, Fabric
from hpcforge.design.fabric.labels import ENDS
from hpcforge.design.fabric.metrics import metrics


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
