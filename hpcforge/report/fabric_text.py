"""Fabrics of a design as text for a terminal: what they are made of, what they carry, what moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcforge.fabric.design import FabricDesign
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
            one.name,
            one.topology,
            f"{one.rails} x {rate(one.rate_gbps)} {one.kind}",
            nodes_said(one),
            *(f"{count:,}" if count else "-" for count in one.switches.values()),
            ratios_said(one.oversubscription),
            rate(one.bisection_gbps),
        ]
        for one in designs
    ]
    return table(header, rows, "  ", columns) + "".join(line for one in designs for line in _details(one))


def _details(one: FabricDesign) -> Iterator[str]:
    yield f"\n  {clean(one.name)}\n"
    yield f"    cables     {cables_said(one.cables)}\n"
    yield f"    as bought  {cut_said(one.cutting)}\n"
    if racks := _racks(one):
        yield f"    switches   in {racks}\n"
    for way in one.paths:
        yield f"    ways       {ways_said(way)}\n"
    for loss in one.failures:
        yield f"    without    {clean(loss_said(loss, one))}\n"
    for note in one.notes:
        yield f"    note       {clean(note)}\n"
    for move in one.moves[:_MOST_MOVES]:
        taken, to = " - ".join(move.taken), " - ".join(move.to) if move.to else "taken out"
        yield f"    move       {clean(taken)}  ->  {clean(to)}\n"
    if len(one.moves) > _MOST_MOVES:
        yield f"    move       and {len(one.moves) - _MOST_MOVES:,} cables more; --json lists all\n"


def _racks(one: FabricDesign) -> str:
    """`i01 (9), i02 (8)`, racks that hold equally many together."""
    counts: dict[str, int] = {}
    for place in one.placed:
        if place.rack is not None:
            counts[place.rack] = counts.get(place.rack, 0) + 1
    alike: dict[int, list[str]] = {}
    for rack, count in counts.items():
        alike.setdefault(count, []).append(rack)
    without = sum(place.rack is None for place in one.placed)
    parts = [f"{names(racks)} ({count}{' each' if len(racks) > 1 else ''})" for count, racks in alike.items()]
    return ", ".join([*parts, *([f"no rack ({without})"] if without and parts else [])])
