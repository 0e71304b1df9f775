"""Quantities and names of a design as people read them, and how wide a text is when drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.design import Design
from hpcforge.design.fabric.design import Cutting, FabricDesign, Loss, Ways
from hpcforge.design.fabric.graph import CableKind
from hpcforge.design.storage.capacity import FileSystemDesign, Throughput, write_rate, write_tib
from hpcforge.report.text import clean, plural

UNKNOWN = "not known"

_SCHEMA_NAME = re.compile(r"[a-z0-9.-]+")
_NARROW = frozenset("iIjlftr.,:;'|!()[]- ")


def power(watts: float | None) -> str:
    """`650 W`, `10.2 kW`, `118.42 MW`."""
    if watts is None:
        return UNKNOWN
    if abs(watts) < 999.5:
        return f"{watts:,.0f} W"
    return f"{watts / 1e3:,.1f} kW" if abs(watts) < 9_999_950 else f"{watts / 1e6:,.2f} MW"


def amps(amperes: float | None) -> str:
    """`18.9 A`."""
    return UNKNOWN if amperes is None else f"{amperes:,.1f} A"


def rounded(value: float | None, unit: str) -> str:
    """`1,045 kg`."""
    return UNKNOWN if value is None else f"{value:,.0f} {unit}"


def weight(kilograms: float) -> str:
    """`4,906 kg`, `1,326 t`."""
    return f"{kilograms:,.0f} kg" if kilograms < 99_999.5 else f"{kilograms / 1e3:,.0f} t"


def tons(value: float) -> str:
    """Of refrigeration: `84.1 tons of cooling`, `26,251 tons of cooling`."""
    return f"{value:,.{1 if value < 999.95 else 0}f} tons of cooling"


def plain(value: float) -> str:
    """As many digits as it needs, at most three after the point: `1.35`, `415`."""
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def share(part: float, limit: float | None) -> str:
    """`62 %` of a limit, "" without one."""
    return f"{100 * part / limit:,.0f} %" if limit else ""


def one_lost(design: Design) -> str:
    """Return the required and checked loss of feeds: `any one may be lost` only if every loss was checked."""
    if design.power.survive == "none":
        return "no loss of a feed has to be survived"
    racks = [rack.survives_one_lost for rack in design.racks if rack.power_w or rack.power_unknown]
    feeds = [
        None if feed.limit_w is None else feed.load_w_one_lost <= feed.limit_w * (1 + 1e-9)
        for feed in design.feeds
        if feed.racks
    ]
    parts = [("rack", racks), ("feed", feeds)]
    if not racks:
        return "any one to be lost: not checked, as no rack has a load"
    if all(survives for _, verdicts in parts for survives in verdicts):
        return f"any one may be lost: checked on {plural(len(racks), 'rack')} and {plural(len(feeds), 'feed')}"
    failures = [
        f"{verdict} {sum(survives is value for survives in verdicts)} of {plural(len(verdicts), noun)}"
        for verdict, value in (("not carried by", False), ("not checked on", None))
        for noun, verdicts in parts
        if value in verdicts
    ]
    return f"any one to be lost: {', '.join(failures)}"


def names(texts: Sequence[str]) -> str:
    """Names as a hostlist; as they are where one could not stand in a hostlist."""
    if all(_SCHEMA_NAME.fullmatch(name) for name in texts):
        return fold(texts)
    return ", ".join(texts)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """At most how wide a text is at a font size, in the same unit; by the widest of the usual sans-serif fonts."""
    return size * sum(_em(character) for character in text) * (1.12 if bold else 1)


def _em(character: str) -> float:
    """Widths of DejaVu Sans, rounded up."""
    if character in _NARROW:
        return 0.42
    if character in "mwMW@%\N{HORIZONTAL ELLIPSIS}" or not character.isascii():
        return 1.0
    return 0.78 if character.isupper() or character in "+<>=~#_" else 0.64


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return the text, on one line and cut with an ellipsis where it is wider than `width`; "" if nothing fits."""
    text = clean(" ".join(text.split()))
    if text_width(text, size, bold=bold) <= width:
        return text
    while text and text_width(text + "\N{HORIZONTAL ELLIPSIS}", size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + "\N{HORIZONTAL ELLIPSIS}" if text else ""


# Totals of a fabric in words, for the terminal and for the page.


CABLES: dict[str, str] = {
    "node_leaf": "node to leaf",
    "other_leaf": "other end to leaf",
    "leaf_spine": "leaf to spine",
    "spine_core": "spine to core",
    "peer": "leaf to peer",
    "local": "within a group",
    "global": "between groups",
}


def group_text(topology: str, kind: str, number: int) -> str:
    """Return `unit 3` for a leaf, `group 3` for a spine or a dragonfly's leaf, `plane 3` for a core."""
    word = "group" if topology.startswith("dragonfly") else _GROUPS[kind]
    return f"{word} {number}"


_GROUPS = {"leaf": "unit", "spine": "group", "core": "plane"}


def rate(gbps: float) -> str:
    """`400 Gb/s`, `25.6 Tb/s`."""
    return f"{plain(gbps)} Gb/s" if gbps < 10_000 else f"{plain(gbps / 1_000)} Tb/s"


def nodes_text(fabric: FabricDesign) -> str:
    """`127 of 128`: nodes there are, and nodes that the wiring has room for."""
    room = f" of {fabric.designed_for:,}" if fabric.designed_for > fabric.nodes else ""
    return f"{fabric.nodes:,}{room}" + (f" + {fabric.endpoints:,} other" if fabric.endpoints else "")


def cables_text(counts: Mapping[CableKind, int]) -> str:
    """`1,016 node to leaf, 4 other end to leaf, 1,024 leaf to spine`."""
    return ", ".join(f"{count:,} {CABLES[kind]}" for kind, count in counts.items() if count) or "none"


def ratios_text(ratios: Mapping[str, float]) -> str:
    """`no`, `leaf 3 : 1`."""
    over = [f"{tier} {plain(ratio)} : 1" for tier, ratio in ratios.items() if ratio > 1 + 1e-9]
    return ", ".join(over) or "no"


def cut_text(cutting: Cutting) -> str:
    """`5,230 m, the longest 30 m`."""
    if cutting.longest_m is None:
        return "not checked: no places, so no lengths"
    unchecked = f"; {cutting.not_checked:,} not checked" if cutting.not_checked else ""
    kinds: dict[str, int] = {}
    for lot in cutting.lots:
        kinds[lot.model] = kinds.get(lot.model, 0) + lot.count
    bought = ", ".join(f"{count:,} {model}" for model, count in kinds.items())
    return f"{bought}; {cutting.total_m:,.0f} m, the longest {plain(cutting.longest_m)} m{unchecked}"


def ways_text(ways: Ways) -> str:
    """`between leaves of one group: 4 ways over 2 switches, 4 of them disjoint`."""
    over = f" over {ways.switches} switches" if ways.switches > 1 else " over one switch" if ways.switches else ""
    return f"{ways.between}: {plural(ways.ways, 'way')}{over}, {ways.disjoint:,} of them disjoint"


def loss_text(loss: Loss, fabric: FabricDesign) -> str:
    """`one leaf of 32 (compute-leaf-001): 32 links of nodes lost, no node cut off, 97 % of the bisection left`."""
    noun = f"cable {CABLES[loss.what]}" if loss.what in CABLES else loss.what
    links = f"{plural(loss.links_lost, 'link')} of nodes lost" if loss.links_lost else "no link of a node lost"
    cut = f"{plural(loss.nodes_cut_off, 'node')} cut off" if loss.nodes_cut_off else "no node cut off"
    bisection = ""
    if fabric.bisection_gbps:
        bisection = f", {plain(round(100 * loss.bisection_gbps / fabric.bisection_gbps, 1))} % of the bisection left"
    return f"one {noun} of {loss.alike:,} ({loss.name}): {links}, {cut}{bisection}"


# File systems that nodes serve, in words.


def holds(file_system: FileSystemDesign) -> str:
    """Return `279.4 TiB of 400.0 TiB needed`; the size of all drives if no groups are set."""
    needed = f", {write_tib(file_system.needed_tib)} needed" if file_system.needed_tib is not None else ""
    if file_system.capacity_tib is not None:
        return write_tib(file_system.capacity_tib) + needed
    return (f"at most {write_tib(file_system.raw_tib)}" if file_system.raw_tib is not None else UNKNOWN) + needed


def carries(through: Throughput) -> str:
    """`49.5 GB/s (links)`; `at most 49.5 GB/s (links)` where only one of drives and links is known."""
    needed = f", {write_rate(through.needed_gb_per_s)} needed" if through.needed_gb_per_s is not None else ""
    if through.gb_per_s is not None:
        return f"{write_rate(through.gb_per_s)} ({through.bound}){needed}"
    most = through.drives_gb_per_s if through.bound == "drives" else through.links_gb_per_s
    return (f"at most {write_rate(most)} ({through.bound})" if most is not None else UNKNOWN) + needed


def throughput(gb_per_s: float | None) -> str:
    """`728 MB/s`."""
    return UNKNOWN if gb_per_s is None else write_rate(gb_per_s)


def made_of(file_system: FileSystemDesign) -> str:
    """`24 x 15.36TB of 15,360 GB in 2 groups of 10 + 2`."""
    if not file_system.drives:
        return f"`nvme` of {file_system.hardware} is not said"
    lots = [
        f"{lot.count} x {lot.model}" + (f" of {plain(lot.capacity_gb)} GB" if lot.capacity_gb is not None else "")
        for lot in file_system.drives
    ]
    if file_system.group is None:
        return f"{', '.join(lots)}; `raid` is not set"
    groups = plural(sum(lot.groups for lot in file_system.drives), "group")
    spare = f", {file_system.left_over} left over" if file_system.left_over else ""
    return f"{', '.join(lots)} in {groups} of {file_system.group}{spare}"
