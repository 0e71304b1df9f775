"""Fabrics of a design as text for a terminal: what they are made of, what they carry, what moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcforge.design.fabric.design import FabricDesign
from hpcforge.report.design_words import names
from hpcforge.report.fabric_words import (
    cables_said,
    cut_said,
    loss_said,
    nodes_said,
    rate,
    ratios_said,
    ways_said,
)
from hpcforge.report.text import clean, table

_MOST_MOVES = 12


def fabrics(designs: Sequence[FabricDesign], columns: int | None = None) -> str:
    """Return all fabrics; "" where there are none."""
    if not designs:
        return ""
    header = ("fabric", "topology", "links of nodes", "nodes", "leaf", "spine", "core", "oversubscribed", "bisection")
    rows = [
        [
            design.name,
            design.topology,
            f"{design.rails} x {rate(design.rate_gbps)} {design.kind}",
            nodes_said(design),
            *(f"{count:,}" if count else "-" for count in design.switches.values()),
            ratios_said(design.oversubscription),
            rate(design.bisection_gbps),
        ]
        for design in designs
    ]
    return table(header, rows, "  ", columns) + "".join(line for design in designs for line in _details(design))


def _details(fabric: FabricDesign) -> Iterator[str]:
    yield f"\n  {clean(fabric.name)}\n"
    yield f"    cables     {cables_said(fabric.cables)}\n"
    yield f"    as bought  {cut_said(fabric.cutting)}\n"
    if racks := _racks(fabric):
        yield f"    switches   in {racks}\n"
    for way in fabric.paths:
        yield f"    ways       {ways_said(way)}\n"
    for loss in fabric.failures:
        yield f"    without    {clean(loss_said(loss, fabric))}\n"
    for note in fabric.notes:
        yield f"    note       {clean(note)}\n"
    for move in fabric.moves[:_MOST_MOVES]:
        taken, to = " - ".join(move.taken), " - ".join(move.to) if move.to else "taken out"
        yield f"    move       {clean(taken)}  ->  {clean(to)}\n"
    if len(fabric.moves) > _MOST_MOVES:
        yield f"    move       and {len(fabric.moves) - _MOST_MOVES:,} cables more; --json lists all\n"


def _racks(fabric: FabricDesign) -> str:
    """`i01 (9), i02 (8)`, racks that hold equally many together."""
    counts: dict[str, int] = {}
    for place in fabric.placed:
        if place.rack is not None:
            counts[place.rack] = counts.get(place.rack, 0) + 1
    alike: dict[int, list[str]] = {}
    for rack, count in counts.items():
        alike.setdefault(count, []).append(rack)
    without = sum(place.rack is None for place in fabric.placed)
    parts = [f"{names(racks)} ({count}{' each' if len(racks) > 1 else ''})" for count, racks in alike.items()]
    return ", ".join([*parts, *([f"no rack ({without})"] if without and parts else [])])
