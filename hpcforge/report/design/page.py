"""A design as one HTML page that needs nothing else: no network, no font. Prints as it reads.

Templates are in `templates/`. Every text of the design goes through autoescape, with control characters made visible;
drawings come from element trees. A content policy in the page forbids loading, and scripts but for the one that
searches tables of cables (`fabric_html`), should both ever fail.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from xml.etree import ElementTree as ET

from jinja2 import Environment
from markupsafe import Markup

from hpcforge.cluster.design import Design
from hpcforge.design.fabric.cabling import UNKNOWN, Cabled
from hpcforge.design.fabric.design import FabricDesign, Loss, SwitchPlace
from hpcforge.design.fabric.graph import PortMap, PortMaps, PortRun, SwitchPort
from hpcforge.design.facility.design import FeedLoad, RackDesign, Remark, Severity
from hpcforge.report.design import fabric_svg, rack_svg, storage_text, words
from hpcforge.report.design.rack_svg import Alike, alike, in_row_order
from hpcforge.report.design.words import CABLES, amps, group_said, names, plain, power, share
from hpcforge.report.pages import page_environment
from hpcforge.report.text import clean, plural

# What the page of a design shows of its fabrics: drawings, port maps, and a table of cables that can be searched.
#
# The search is the one script that a page has, and only a page with cables has it: its content policy names the
# script by its hash, so that no text of a blueprint could become another.
MOST_NODES = 1_024  # up to so many the page lists ports and cables; above, `--csv` does
_FACES = 64  # switches of a fabric up to which each one's face is drawn
_CELL, _STEP = 7.0, 8.0  # a port on a drawn face, and from one to the next


@dataclass(frozen=True)
class SwitchRow:
    """One switch: where it stands, and what its ports lead to."""

    place: SwitchPlace
    role: str  # "unit 1, rail 3"
    where: str
    used: str
    face: str  # inline SVG; "": not drawn
    runs: tuple[PortRun, ...]


@dataclass(frozen=True)
class CableRow:
    """One cable, in the order of pulling."""

    pull: int
    name: str
    a: str
    b: str
    length: str
    model: str


@dataclass(frozen=True)
class FabricOnPage:
    """One fabric on the page. Without `switches` and `cables` it is too large to list."""

    design: FabricDesign
    drawing: str
    switches: tuple[SwitchRow, ...]
    cables: tuple[CableRow, ...]
    losses: tuple[tuple[str, Loss], ...]  # what fails, in words


def fabrics_on_page(designs: Sequence[FabricDesign], fabrics: Sequence[Cabled]) -> list[FabricOnPage]:
    """Return what the page has of each fabric."""
    return [_shown(design, cabling) for design, cabling in zip(designs, fabrics, strict=True)]


def _shown(design: FabricDesign, cabling: Cabled) -> FabricOnPage:
    small = design.nodes <= MOST_NODES
    return FabricOnPage(
        design=design,
        drawing=fabric_svg.inline(cabling.fabric),
        switches=tuple(_switches(design, cabling)) if small else (),
        cables=tuple(_cables(cabling)) if small else (),
        losses=tuple((_what(loss), loss) for loss in design.failures),
    )


def _what(loss: Loss) -> str:
    return f"cable {CABLES[loss.what]}" if loss.what in CABLES else loss.what


def _switches(design: FabricDesign, cabling: Cabled) -> Iterator[SwitchRow]:
    ports = PortMaps(cabling.fabric)
    for place, port_map in zip(design.placed, ports, strict=True):
        where = f"{place.rack} U{place.u}" if place.rack else "not known"
        if place.rack and cabling.rooms:
            where = f"{place.room} {where}"
        face = _face(port_map) if len(design.placed) <= _FACES else ""
        used = f"{port_map.used} of {len(port_map.ports)}"
        yield SwitchRow(place, _role(design, place), where, used, face, tuple(ports.runs(port_map.ports)))


def _role(design: FabricDesign, place: SwitchPlace) -> str:
    """Return the function of a switch in its fabric."""
    parts = [group_said(design.topology, place.kind, place.unit)] if place.unit is not None else []
    return ", ".join([*parts, *([f"rail {place.rail}"] if place.rail is not None else [])])


def _face(port_map: PortMap) -> str:
    """Draw a switch's ports in two rows, odd numbers above even ones, coloured by their other ends."""
    columns = -(-len(port_map.ports) // 2)
    width, height = columns * _STEP, 2 * _STEP
    svg = ET.Element("svg", {"class": "face", "viewBox": f"0 0 {width:g} {height:g}", "aria-hidden": "true"})
    svg.set("width", f"{width:g}")
    svg.set("height", f"{height:g}")
    for number, port in enumerate(port_map.ports):
        where = {"x": f"{number // 2 * _STEP:g}", "y": f"{number % 2 * _STEP:g}"}
        ET.SubElement(svg, "rect", {"class": _use(port), "width": f"{_CELL:g}", "height": f"{_CELL:g}", **where})
    return ET.tostring(svg, encoding="unicode")


def _use(port: SwitchPort) -> str:
    return port.use.replace("_", "-") if port.use else "free"


def _cables(cabling: Cabled) -> Iterator[CableRow]:
    everything = list(cabling.fabric.cables)
    for pull, index in enumerate(cabling.order, 1):
        cable, model = everything[index], cabling.model[index]
        yield CableRow(
            pull=pull,
            name=cabling.labels.name(cable),
            a=cabling.labels.end(cable.a, cable.a_port),
            b=cabling.labels.end(cable.b, cable.b_port),
            length=f"{plain(cabling.length_m[index])} m" if model != UNKNOWN else "not checked",
            model=cabling.models[model] if model != UNKNOWN else "",
        )


@lru_cache
def script() -> str:
    """Return the page's one script."""
    return files("hpcforge.report").joinpath("templates", "fabric.js").read_text("utf-8")


@lru_cache
def script_policy() -> str:
    """Return what the page's content policy says of the script: its hash (CSP, level 2)."""
    digest = hashlib.sha256(script().encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def run_said(run: PortRun) -> str:
    """`1 to 32: gpu[001-032] rail 1`."""
    ports = run.first if run.count == 1 else f"{run.first} to {run.last}"
    return clean(f"{ports}: {names(run.names)}{run.more}" if run.use else f"{ports}: free")


# Bars of load against limit, and the heat map of the room: what is drawn, and the words that say the same.
_WIDE = 1000.0  # of a bar in its own units; the page stretches it
_STEPS = 5  # shades of the heat map, least first
_LEAST_STEP_W = 5_000.0  # so that a small room does not look hot
_NONE = "\N{EN DASH}"
_IN_A_LINE = 20  # racks of a large room in one line


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


@dataclass(frozen=True)
class FeedRows:
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
    said: str  # "40.8 kW each", "12.0 kW to 40.8 kW"


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
    return tuple(replace(feed, rows=tuple(replace(row, lost=_NONE) for row in feed.rows)) for feed in rows)


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
    say: Callable[[float | None], str],
    judged: bool,
) -> LoadBar:
    """`judged` says whether the load with one feed lost must stay below the limit too."""
    load, lost, limit = figures
    most = max(load, lost) if judged else load
    over = limit is not None and most > limit
    left = "" if limit is None else f"over by {say(most - limit)}" if over else say(limit - most)
    of = f" ({share(load, limit)})" if limit else ""
    texts = (f"{say(load)}{of}", say(lost), "not given" if limit is None else say(limit))
    return LoadBar(label, _bar(load, lost, limit, scale, judged), *texts, left, over)


def _bar(load: float, lost: float, limit: float | None, scale: float, judged: bool) -> str:
    """Load, what is added when one feed is lost, what of it is above the limit, and the limit as a line."""
    svg = ET.Element("svg", {"class": "bar", "viewBox": f"0 0 {_WIDE:.0f} 20", "preserveAspectRatio": "none"})
    svg.set("aria-hidden", "true")  # the numbers beside it say the same
    _piece(svg, 0, _WIDE, "track", 6, 8)
    _piece(svg, 0, _WIDE * load / scale, "load", 2, 16)
    _piece(svg, _WIDE * load / scale, _WIDE * max(lost, load) / scale, "lost", 2, 16)
    if limit is not None:
        x = _WIDE * limit / scale
        _piece(svg, x, _WIDE * load / scale, "over", 2, 16)
        if judged:
            _piece(svg, max(x, _WIDE * load / scale), _WIDE * lost / scale, "over-lost", 2, 16)
        ET.SubElement(svg, "line", {"class": "limit", "x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": "0", "y2": "20"})
    return ET.tostring(svg, encoding="unicode")


def _piece(svg: ET.Element, start: float, end: float, kind: str, y: int, height: int) -> None:
    if end > start:
        size = {"x": f"{start:.1f}", "width": f"{end - start:.1f}", "y": str(y), "height": str(height)}
        ET.SubElement(svg, "rect", {"class": kind, **size})


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
    said = f"{most} each" if least == most else f"{least} to {most}"
    return RoomLine(names([c.rack.name for c in cells]), tuple(cells), said + (f"; {over} over limit" if over else ""))


def _step(most_w: float) -> float:
    """Return a round number of watts, of which five cover the highest rack."""
    if most_w <= _LEAST_STEP_W * _STEPS:
        return _LEAST_STEP_W
    size = 10.0 ** math.floor(math.log10(most_w / _STEPS))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor * _STEPS >= most_w * (1 - 1e-9))


_DRAWN_EACH = 64  # racks; above it those that are alike are drawn once, and tables of more kinds are folded
_MOST_DRAWN = 64  # drawings of a large site
_MOST_REMARKS = 200  # of each severity


@dataclass(frozen=True)
class DesignVerdict:
    """Whether the design holds, and how many remarks there are of each severity."""

    sentence: str
    kind: str  # "good", "warn", "bad"
    errors: int
    warnings: int
    not_checked: int


@dataclass(frozen=True)
class Remarks:
    """Remarks of one severity; `more` were left out."""

    severity: Severity
    shown: tuple[Remark, ...]
    more: int


def page(design: Design, cabled: Sequence[Cabled] = ()) -> str:
    """Return the HTML page; `cabled` has the fabrics of the design with their cables."""
    racks = in_row_order(design)
    groups = alike(racks, phases=False)
    large = len(design.racks) > _DRAWN_EACH
    drawn = groups[:_MOST_DRAWN] if large else tuple(Alike((rack.name,), rack) for rack in racks)
    return environment().get_template("design.html.j2").render(
        design=design,
        verdict=_verdict(design),
        remarks=_remarks(design.diagnostics),
        feeds=(feeds := feed_rows(design)),
        feeds_over=sum(bool(feed.over) for feed in feeds),
        room=room(design, large=large),
        groups=groups,
        pdu_groups=[group for group in alike(racks, phases=True) if group.rack.pdus],
        large=large,
        drawings=[(group, Markup(svg)) for group, svg in zip(drawn, rack_svg.elevations(drawn), strict=True)],  # noqa: S704
        undrawn=[name for group in groups[_MOST_DRAWN:] for name in group.names] if large else [],
        most_open=_DRAWN_EACH,
        one_lost=words.one_lost(design),
        used_feeds=sum(bool(feed.racks) for feed in design.feeds),
        racks_used_u=sum(rack.used_u for rack in design.racks),
        racks_free_u=_sum_known([rack.free_u for rack in design.racks]),
        weight_kg=sum(rack.weight_kg for rack in design.racks),
        weight_unknown=sum(len(rack.weight_unknown) for rack in design.racks),
        proposed=any(position.placed == "proposed" for rack in design.racks for position in rack.elevation),
        rack_css=Markup(rack_svg.css()),  # noqa: S704 - our own file
        fabrics=(fabrics := fabrics_on_page(design.fabrics, cabled)),
        fabric_css=Markup(fabric_svg.css()),  # noqa: S704
        cable_kinds=CABLES,
        most_nodes=MOST_NODES,
        script=Markup(script()) if any(fabric.cables for fabric in fabrics) else "",  # noqa: S704
        script_policy=Markup(script_policy()),  # noqa: S704
    )  # fmt: skip


@lru_cache
def environment() -> Environment:
    """Return the environment for the templates of the design and of acceptance reports."""
    return page_environment({
        "power": words.power,
        "amps": words.amps,
        "whole": words.whole,
        "plain": words.plain,
        "weight": words.weight,
        "tons": words.tons,
        "thousands": "{:,}".format,
        "share": words.share,
        "names": words.names,
        "counted": plural,
        "marked": _marked,
        "contents": rack_svg.contents,
        "group_name": rack_svg.summary,
        "rate": words.rate,
        "nodes_said": words.nodes_said,
        "cables_said": words.cables_said,
        "cut_said": words.cut_said,
        "ratios_said": words.ratios_said,
        "ways_said": words.ways_said,
        "run_said": run_said,
        "made_of": storage_text.made_of,
        "holds": storage_text.holds,
        "carries": storage_text.carries,
        "gb_per_s": storage_text.rate,
    })  # fmt: skip


def _marked(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    pieces = clean(text).split("`")
    if len(pieces) % 2 == 0:  # one is left over
        return Markup("{}").format(clean(text))
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if index % 2 else piece for index, piece in enumerate(pieces))


def _sum_known(figures: Sequence[int | None]) -> int | None:
    """Return the sum, None as soon as one is not known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None


def _verdict(design: Design) -> DesignVerdict:
    counts = dict.fromkeys(("error", "warning", "not-checked"), 0)
    for remark in design.diagnostics:
        counts[remark.severity] += 1
    errors, warnings, unchecked = counts["error"], counts["warning"], counts["not-checked"]
    if errors:
        return DesignVerdict("This design does not hold", "bad", errors, warnings, unchecked)
    if not design.has_site:
        return DesignVerdict("No site is described, so no room was designed", "warn", errors, warnings, unchecked)
    if warnings or unchecked:
        said = "This design holds in all that was checked" if unchecked else "This design holds, with warnings"
        return DesignVerdict(said, "warn" if warnings else "good", errors, warnings, unchecked)
    return DesignVerdict("This design holds", "good", errors, warnings, unchecked)


def _remarks(remarks: Sequence[Remark]) -> list[Remarks]:
    severities: tuple[Severity, ...] = ("error", "warning", "not-checked")
    by_severity = ((severity, [r for r in remarks if r.severity == severity]) for severity in severities)
    return [
        Remarks(severity, tuple(found[:_MOST_REMARKS]), max(0, len(found) - _MOST_REMARKS))
        for severity, found in by_severity
        if found
    ]
