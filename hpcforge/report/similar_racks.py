"""Racks that are alike but for names: drawn, and listed, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpcforge.cluster.design import Design
from hpcforge.design.facility.design import PduLoad, RackDesign


@dataclass(frozen=True)
class Alike:
    """Racks in which only the names differ; `rack` is the first of them."""

    names: tuple[str, ...]
    rack: RackDesign


def alike(racks: Sequence[RackDesign], *, phases: bool) -> tuple[Alike, ...]:
    """Group racks, in the order of the first of each group.

    With `phases`, racks whose loads are on other phases are not alike: neighbours often take turns.
    """
    groups: dict[str, list[RackDesign]] = {}
    for rack in racks:
        groups.setdefault(_without_names(rack, phases), []).append(rack)
    return tuple(Alike(tuple(rack.name for rack in group), group[0]) for group in groups.values())


def in_row_order(design: Design) -> tuple[RackDesign, ...]:
    """All racks as they stand on the floor; those that the row leaves out follow."""
    by_name = {rack.name: rack for rack in design.racks}
    order = dict.fromkeys((*(name for name in design.row if name in by_name), *by_name))
    return tuple(by_name[name] for name in order)


def _without_names(rack: RackDesign, phases: bool) -> str:
    bare = replace(
        rack,
        name="",
        power_unknown=("",) * len(rack.power_unknown),
        weight_unknown=("",) * len(rack.weight_unknown),
        elevation=tuple(replace(position, node="") for position in rack.elevation),
        pdus=tuple(_pdu_without_name(pdu, phases) for pdu in rack.pdus),
    )
    return repr(bare)


def _pdu_without_name(pdu: PduLoad, phases: bool) -> PduLoad:
    return replace(pdu, name="", phases=pdu.phases if phases else ())
