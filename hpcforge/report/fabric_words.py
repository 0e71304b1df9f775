"""Totals of a fabric in words, for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Mapping

from hpcforge.design.fabric.design import Cutting, FabricDesign, Loss, Ways
from hpcforge.design.fabric.graph import CableKind
from hpcforge.report.design_words import plain
from hpcforge.report.text import plural

CABLES: dict[str, str] = {
    "node_leaf": "node to leaf",
    "other_leaf": "other end to leaf",
    "leaf_spine": "leaf to spine",
    "spine_core": "spine to core",
    "peer": "leaf to peer",
    "local": "within a group",
    "global": "between groups",
}


def group_said(topology: str, kind: str, number: int) -> str:
    """`unit 3` of a leaf, `group 3` of a spine or a dragonfly's leaf, `plane 3` of a core."""
    word = "group" if topology.startswith("dragonfly") else _GROUPS[kind]
    return f"{word} {number}"


_GROUPS = {"leaf": "unit", "spine": "group", "core": "plane"}


def rate(gbps: float) -> str:
    """`400 Gb/s`, `25.6 Tb/s`."""
    return f"{plain(gbps)} Gb/s" if gbps < 10_000 else f"{plain(gbps / 1_000)} Tb/s"


def nodes_said(fabric: FabricDesign) -> str:
    """`127 of 128`: nodes there are, and nodes that the wiring has room for."""
    of = f" of {fabric.designed_for:,}" if fabric.designed_for > fabric.nodes else ""
    return f"{fabric.nodes:,}{of}" + (f" + {fabric.endpoints:,} other" if fabric.endpoints else "")


def cables_said(counts: Mapping[CableKind, int]) -> str:
    """`1,016 node to leaf, 4 other end to leaf, 1,024 leaf to spine`."""
    return ", ".join(f"{count:,} {CABLES[kind]}" for kind, count in counts.items() if count) or "none"


def ratios_said(ratios: Mapping[str, float]) -> str:
    """`no`, `leaf 3 : 1`."""
    over = [f"{tier} {plain(ratio)} : 1" for tier, ratio in ratios.items() if ratio > 1 + 1e-9]
    return ", ".join(over) or "no"


def cut_said(cutting: Cutting) -> str:
    """`5,230 m, the longest 30 m`."""
    if cutting.longest_m is None:
        return "not checked: no places, so no lengths"
    left = f"; {cutting.not_checked:,} not checked" if cutting.not_checked else ""
    kinds: dict[str, int] = {}
    for lot in cutting.lots:
        kinds[lot.model] = kinds.get(lot.model, 0) + lot.count
    bought = ", ".join(f"{count:,} {model}" for model, count in kinds.items())
    return f"{bought}; {cutting.total_m:,.0f} m, the longest {plain(cutting.longest_m)} m{left}"


def ways_said(way: Ways) -> str:
    """`between leaves of one group: 4 ways over 2 switches, 4 of them disjoint`."""
    over = f" over {way.switches} switches" if way.switches > 1 else " over one switch" if way.switches else ""
    return f"{way.between}: {plural(way.ways, 'way')}{over}, {way.disjoint:,} of them disjoint"


def loss_said(loss: Loss, fabric: FabricDesign) -> str:
    """`one leaf of 32 (compute-leaf-001): 32 links of nodes lost, no node cut off, 97 % of the bisection left`."""
    noun = f"cable {CABLES[loss.what]}" if loss.what in CABLES else loss.what
    links = f"{plural(loss.links_lost, 'link')} of nodes lost" if loss.links_lost else "no link of a node lost"
    cut = f"{plural(loss.nodes_cut_off, 'node')} cut off" if loss.nodes_cut_off else "no node cut off"
    left = ""
    if fabric.bisection_gbps:
        left = f", {plain(round(100 * loss.bisection_gbps / fabric.bisection_gbps, 1))} % of the bisection left"
    return f"one {noun} of {loss.alike:,} ({loss.name}): {links}, {cut}{left}"
