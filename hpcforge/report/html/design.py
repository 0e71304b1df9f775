"""The page of a design: totals, diagnostics, bars of feeds, a heat map, racks, fabrics, a bill of materials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from jinja2 import Environment
from markupsafe import Markup

from hpcforge.cluster.design import Design
from hpcforge.design.fabric.cabling import Cabled
from hpcforge.design.facility.design import FeedLoad, RackDesign, Remark, Severity
from hpcforge.report.design import rack_svg, words
from hpcforge.report.design.rack_svg import Alike, alike, in_row_order
from hpcforge.report.design.words import amps, names, power, share
from hpcforge.report.html import page_environment
from hpcforge.report.html.charts import load_bar
from hpcforge.report.html.fabrics import MOST_NODES, fabrics_on_page, run_text, script, script_policy

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "not-checked")
_DRAWN_EACH = 64  # racks; above it those that are alike are drawn once, and tables of more kinds are folded
_MOST_DRAWN = 64  # drawings of a large site
_MOST_REMARKS = 200  # of each severity
_STEPS = 5  # shades of the heat map, least first
_LEAST_STEP_W = 5_000.0  # so that a small room does not look hot
_NONE = "\N{EN DASH}"
_IN_A_LINE = 20  # racks of a large room in one line


def design_page(design: Design, cabled: Sequence[Cabled] = ()) -> str:
    """Return the page; `cabled` has the fabrics of the design with their cables."""
    racks = in_row_order(design)
    groups = alike(racks, phases=False)
    large = len(design.racks) > _DRAWN_EACH
    drawn = groups[:_MOST_DRAWN] if large else tuple(Alike((rack.name,), rack) for rack in racks)
    fabrics, feeds = fabrics_on_page(design.fabrics, cabled), feed_rows(design)
    counts = {severity: sum(remark.severity == severity for remark in design.diagnostics) for severity in _SEVERITIES}
    sentence, kind = _judgement(design, counts)
    return _environment().get_template("design.html.j2").render(
        eyebrow="Facility design",
        name=design.name,
        title="facility design",
        kind=kind,
        sentence=sentence,
        sections=_sections(design),
        design=design,
        counts=counts,
        remarks=[*_remarks(design.diagnostics)],
        feeds=feeds,
        feeds_over=sum(bool(feed.over) for feed in feeds),
        room=room(design, large=large),
        groups=groups,
        pdu_groups=[group for group in alike(racks, phases=True) if group.rack.pdus],
        large=large,
        drawings=rack_svg.elevations(drawn),
        undrawn=[name for group in groups[_MOST_DRAWN:] for name in group.names] if large else [],
        most_open=_DRAWN_EACH,
        proposed=any(position.placed == "proposed" for rack in design.racks for position in rack.elevation),
        fabrics=fabrics,
        cable_kinds=words.CABLES,
        most_nodes=MOST_NODES,
        script=Markup(script()) if any(fabric.cables for fabric in fabrics) else "",  # noqa: S704 - our own file
        script_policy=Markup(script_policy()),  # noqa: S704
        **_totals(design),
    )  # fmt: skip


def _totals(design: Design) -> Mapping[str, object]:
    return {
        "one_lost": words.one_lost(design),
        "used_feeds": sum(bool(feed.racks) for feed in design.feeds),
        "racks_used_u": sum(rack.used_u for rack in design.racks),
        "racks_free_u": _sum_known([rack.free_u for rack in design.racks]),
        "weight_kg": sum(rack.weight_kg for rack in design.racks),
        "weight_unknown": sum(len(rack.weight_unknown) for rack in design.racks),
    }


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "power": words.power,
        "power_or": lambda watts, text: text if watts is None else words.power(watts),
        "amps": words.amps,
        "whole": words.rounded,
        "plain": words.plain,
        "weight": words.weight,
        "tons": words.tons,
        "share": words.share,
        "names": words.names,
        "rate": words.rate,
        "nodes_text": words.nodes_text,
        "cables_text": words.cables_text,
        "cut_text": words.cut_text,
        "ratios_text": words.ratios_text,
        "ways_text": words.ways_text,
        "run_text": run_text,
        "made_of": words.made_of,
        "holds": words.holds,
        "carries": words.carries,
        "gb_per_s": words.throughput,
    })  # fmt: skip


def _sections(design: Design) -> list[tuple[str, str]]:
    sections = (
        ("diagnostics", "Diagnostics", design.diagnostics),
        ("feeds", "Power by feed", design.feeds),
        ("room", "Room", design.racks),
        ("racks", "Racks", design.racks),
        ("fabrics", "Fabrics", design.fabrics),
        ("storage", "Storage", design.storage),
        ("hardware", "Where the watts come from", design.hardware),
        ("bom", "Bill of materials", design.bom),
    )
    return [(name, title) for name, title, content in sections if content]


def _sum_known(figures: Sequence[int | None]) -> int | None:
    """Return the sum, None as soon as one is not known."""
    present = [figure for figure in figures if figure is not None]
    return sum(present) if len(present) == len(figures) else None


def _judgement(design: Design, counts: Mapping[Severity, int]) -> tuple[str, str]:
    """Return whether the design holds, as a sentence and as its class."""
    if counts["error"]:
        return "This design does not hold", "bad"
    if not design.has_site:
        return "No site is described, so no room was designed", "warn"
    kind = "warn" if counts["warning"] else "good"
    if counts["not-checked"]:
        return "This design passes every check", kind
    return "This design holds, with warnings" if counts["warning"] else "This design holds", kind


def _remarks(remarks: Sequence[Remark]) -> Iterator[tuple[Severity, Sequence[Remark], int]]:
    """Yield the first remarks of each severity, and how many more there are."""
    for severity in _SEVERITIES:
        chosen = [remark for remark in remarks if remark.severity == severity]
        if chosen:
            yield severity, chosen[:_MOST_REMARKS], max(0, len(chosen) - _MOST_REMARKS)


@dataclass(frozen=True)
class LoadBar:
    """A load against its limit. `over` says that it is above; texts carry units."""

    label: str
    bar: str  # inline SVG
    load: str
    lost: str
    limit: str
    left: str
    over: bool


class FeedRows(NamedTuple):
    """A feed: its own row, then one for each phase. `over` says that one is above its limit, and when; else ""."""

    feed: FeedLoad
    rows: tuple[LoadBar, ...]
    over: str


@dataclass(frozen=True)
class Cell:
    """One rack in the heat map. `shade` is from 0 (no load) to 5."""

    rack: RackDesign
    place: int  # from 1, in row order
    shade: int
    over: bool


@dataclass(frozen=True)
class RoomLine:
    """Some neighbours of a large room, in one line."""

    names: str
    cells: tuple[Cell, ...]
    loads: str  # "40.8 kW each", "12.0 kW to 40.8 kW"


@dataclass(frozen=True)
class HeatMap:
    """The heat map. `legend` gives for each shade the range it stands for."""

    cells: tuple[Cell, ...]
    lines: tuple[RoomLine, ...]
    legend: tuple[str, ...]


def feed_rows(design: Design) -> tuple[FeedRows, ...]:
    """All feeds, watts to one scale, amperes to another."""
    watts = _scale((f.load_w, f.load_w_one_lost, f.limit_w) for f in design.feeds)
    amperes = _scale((p.load_a, p.load_a_one_lost, p.limit_a) for f in design.feeds for p in f.phases)
    judged = design.power.survive != "none"
    rows = (_feed(feed, watts, amperes, judged) for feed in design.feeds)
    if len(design.feeds) > 1:
        return tuple(rows)
    return tuple(feed._replace(rows=tuple(replace(row, lost=_NONE) for row in feed.rows)) for feed in rows)


def _feed(feed: FeedLoad, watts: float, amperes: float, judged: bool) -> FeedRows:
    whole = _row("Feed", (feed.load_w, feed.load_w_one_lost, feed.limit_w), watts, power, judged)
    phases = (_row(p.name, (p.load_a, p.load_a_one_lost, p.limit_a), amperes, amps, judged) for p in feed.phases)
    return FeedRows(feed, (whole, *phases), _over(feed, judged))


def _over(feed: FeedLoad, judged: bool) -> str:
    loads = [(feed.load_w, feed.load_w_one_lost, feed.limit_w)]
    loads += [(phase.load_a, phase.load_a_one_lost, phase.limit_a) for phase in feed.phases]
    limited = [(load, lost, limit) for load, lost, limit in loads if limit is not None]
    if any(load > limit for load, _, limit in limited):
        return "over its limit"
    return "over its limit with one feed lost" if judged and any(lost > limit for _, lost, limit in limited) else ""


def _row(
    label: str,
    figures: tuple[float, float, float | None],
    scale: float,
    quantity: Callable[[float | None], str],
    judged: bool,
) -> LoadBar:
    """`judged` says whether the load with one feed lost must stay below the limit too."""
    load, lost, limit = figures
    most = max(load, lost) if judged else load
    over = limit is not None and most > limit
    margin = "" if limit is None else f"over by {quantity(most - limit)}" if over else quantity(limit - most)
    part = f" ({share(load, limit)})" if limit else ""
    texts = (f"{quantity(load)}{part}", quantity(lost), "not given" if limit is None else quantity(limit))
    bar = load_bar(load, lost, limit, scale, judged=judged)
    return LoadBar(label, bar, *texts, margin, over)


def _scale(figures: Iterable[tuple[float | None, ...]]) -> float:
    """Return the value of a bar's full width: a little more than the largest figure, so that a limit shows."""
    return 1.02 * max((value for group in figures for value in group if value is not None), default=0) or 1.0


def room(design: Design, *, large: bool) -> HeatMap:
    """Return the heat map of all racks in row order; of a large room also in lines of neighbours."""
    racks = in_row_order(design)
    step = _step(max((rack.power_w for rack in racks), default=0))
    cells = tuple(_cell(rack, place, step) for place, rack in enumerate(racks, 1))
    starts = range(0, len(cells), _IN_A_LINE) if large else ()
    lines = tuple(_line(cells[start : start + _IN_A_LINE]) for start in starts)
    legend = ("none", *(f"to {power(step * (shade + 1))}" for shade in range(_STEPS)))
    return HeatMap(cells, lines, legend)


def _cell(rack: RackDesign, place: int, step: float) -> Cell:
    limits = [limit for limit in (rack.limit_w, rack.cooling_limit_w) if limit is not None]
    shade = min(math.ceil(rack.power_w / step - 1e-9), _STEPS)
    return Cell(rack, place, max(shade, 0), any(rack.power_w > limit for limit in limits))


def _line(cells: Sequence[Cell]) -> RoomLine:
    loads = [cell.rack.power_w for cell in cells]
    least, most = power(min(loads)), power(max(loads))
    over = sum(cell.over for cell in cells)
    spread = f"{most} each" if least == most else f"{least} to {most}"
    return RoomLine(
        names([c.rack.name for c in cells]), tuple(cells), spread + (f"; {over} over limit" if over else "")
    )


def _step(most_w: float) -> float:
    """Return a round number of watts, of which five cover the highest rack."""
    if most_w <= _LEAST_STEP_W * _STEPS:
        return _LEAST_STEP_W
    size = 10.0 ** math.floor(math.log10(most_w / _STEPS))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * _STEPS >= most_w * (1 - 1e-9))
