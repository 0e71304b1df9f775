"""A rack elevation as SVG: units counted from 1 at the bottom, what stands in them, PDUs beside them.

Built as an element tree, so that no name of a blueprint can become markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

from hpcforge.cluster.design import Design
from hpcforge.design.facility.design import PduLoad, Position, RackDesign
from hpcforge.report.design.words import fit, names, plain, power, rounded, text_width
from hpcforge.report.html.charts import add_line, add_rect, add_text, add_title, canvas, inline, px, svg_file

# Racks that are alike but for names: drawn, and listed, once.


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


_UNIT = 15.0  # drawn height of a rack unit
_LEFT = 24.0  # room for unit numbers
_BODY = 196.0  # drawn width of what is mounted
_HEAD = 60.0  # room for the rack's name and figures
_STRIP = 15.0  # drawn width of a vertical PDU
_GAP = 4.0
_MOST_STRIPS = 6
_FAILS = "fails with a feed lost"
_NAMED = ("node", "switch")  # what has a name of its own in each of several racks that are alike
_LOWEST = 42  # units drawn where neither the rack's height nor anything in it is known


def rack(design: Design, name: str) -> str:
    """Return one rack as the text of an SVG file. Raises KeyError for a name that is no rack."""
    chosen = next((rack for rack in design.racks if rack.name == name), None)
    if chosen is None:
        raise KeyError(name)
    return svg_file(_elevation(Alike((chosen.name,), chosen), len(_strips(chosen))), "rack.css")


def elevations(groups: Sequence[Alike]) -> list[str]:
    """Return the inline SVG of each, all to one scale; a page that holds them needs `rack.css` once."""
    strips = max((len(_strips(group.rack)) for group in groups), default=0)
    return [inline(_elevation(group, strips)) for group in groups]


def contents(group: Alike) -> str:
    """Say in words what is drawn, from the top down."""
    parts = [_in_words(position, len(group.names) > 1) for position in group.rack.elevation]
    return "; ".join(parts) or "empty"


def _elevation(group: Alike, strips: int) -> ET.Element:
    rack = group.rack
    units = max([rack.height_u or _top(rack.elevation) or _LOWEST, _top(rack.elevation)])
    width = _LEFT + _BODY + strips * (_STRIP + _GAP) + 6
    height = _HEAD + units * _UNIT + 8
    title = f"Rack {names(group.names)}"
    svg = canvas("rack", width, height, f"{title}, from the top down: {contents(group)}")
    add_title(svg, title)
    _heading(svg, group, width - _LEFT - 6)
    _frame(svg, rack, units)
    clashing = _lanes(rack.elevation)
    for position, (lane, lanes) in zip(rack.elevation, clashing, strict=True):
        _position(svg, position, _y(units, position), lane, lanes, folded=len(group.names) > 1, rack_u=rack.height_u)
    for first, count in _gaps(rack, units):
        text = f"{count} U free"
        add_text(svg, text, _LEFT + _BODY / 2, _HEAD + (units - first + 1 - count / 2) * _UNIT + 3.5, "free mid")
    for index, pdu in enumerate(_strips(rack)[:_MOST_STRIPS]):
        judged = rack.survives_one_lost is False
        _strip(svg, pdu, _LEFT + _BODY + _GAP + index * (_STRIP + _GAP), units * _UNIT, judged)
    return svg


def _heading(svg: ET.Element, group: Alike, width: float) -> None:
    rack = group.rack
    count = f" \N{MULTIPLICATION SIGN} {len(group.names)}" if len(group.names) > 1 else ""
    name = fit(names(group.names), width - text_width(count, 15, bold=True), 15, bold=True)
    add_text(svg, name + count, _LEFT, 16, "name")
    free = width - text_width(name + count, 15, bold=True) - 8
    if rack.survives_one_lost is False and text_width(_FAILS, 10.5, bold=True) <= free:
        add_text(svg, _FAILS, _LEFT + width, 16, "line bad end")
    limit = f" of {power(rack.limit_w)}" if rack.limit_w is not None else ""
    unknown = f" + {len(rack.power_unknown)} not known" if rack.power_unknown else ""
    _judged(svg, f"{power(rack.power_w)}{unknown}{limit}", 33, width, (rack.power_w, rack.limit_w))
    used = f"{rack.used_u} U" if rack.height_u is None else f"{rack.used_u} of {rack.height_u} U"
    limit = f" of {rounded(rack.limit_kg, 'kg')}" if rack.limit_kg is not None else ""
    _judged(svg, f"{used}, {rack.weight_kg:,.0f}{limit or ' kg'}", 48, width, (rack.weight_kg, rack.limit_kg))


def _judged(svg: ET.Element, text: str, y: float, width: float, against: tuple[float, float | None]) -> None:
    """Draw a figure and its limit, with words: marked if it is above."""
    size, (figure, limit) = 10.5, against
    over = limit is not None and figure > limit
    add_text(svg, fit(f"{text} (over)" if over else text, width, size), _LEFT, y, "line bad" if over else "line")


def _frame(svg: ET.Element, rack: RackDesign, units: int) -> None:
    inside = rack.height_u or units
    add_rect(svg, "frame", _LEFT, _HEAD + (units - inside) * _UNIT, _BODY, inside * _UNIT)
    for unit in range(1, units + 1):
        y = _HEAD + (units - unit) * _UNIT
        if 1 <= unit < inside:
            add_line(svg, "unit", _LEFT + 1, y, _LEFT + _BODY - 1, y)
        add_text(svg, str(unit), _LEFT - 5, y + 11, "u")
    if inside < units:
        add_line(svg, "top", 0, _HEAD + (units - inside) * _UNIT, _LEFT + _BODY, _HEAD + (units - inside) * _UNIT)


def _position(
    svg: ET.Element, position: Position, y: float, lane: int, lanes: int, *, folded: bool, rack_u: int | None
) -> None:
    """One thing in the rack. Things that claim the same units are drawn side by side, marked."""
    width = (_BODY - 4) / lanes
    x = _LEFT + 2 + lane * width
    height = max(position.u_height, 1) * _UNIT - 2
    above = rack_u is not None and position.u_bottom + position.u_height - 1 > rack_u
    marks = f"{' proposed' * (position.placed == 'proposed')}{' clash' * (lanes > 1 or above)}"
    box = ET.SubElement(svg, "g")
    add_title(box, _in_words(position, folded))
    add_rect(box, f"box {position.kind}{marks}", x, y + 1, width - 1 * (lanes > 1), height)
    left, room = x + 6, width - 13
    figure = power(position.power_w) if position.power_w is not None else "? W"
    figure_width = text_width(figure, 10.5, bold=True)
    if room - figure_width < 40:
        figure, figure_width = "", 0
    label = position.model if folded and position.kind in _NAMED else position.node
    label = fit(label, room - figure_width - 6, 10.5, bold=True)
    tall = position.u_height > 1
    base = y + (13 if position.u_height == 2 else 11.5 if not tall else 17)
    add_text(box, label, left, base, "label")
    add_text(box, figure, x + width - 7, base, "label end")
    model = "" if position.model in (label, position.node) else position.model
    if tall:
        second = base + (11 if position.u_height == 2 else 13)
        weight = f"{position.weight_kg:,.0f} kg" if position.weight_kg is not None and figure else ""
        add_text(box, fit(model, room - text_width(weight, 9.5) - 6, 9.5), left, second, "model")
        add_text(box, weight, x + width - 7, second, "model end")
        return
    used = text_width(label, 10.5, bold=True) + 8
    if (rest := room - figure_width - 6 - used) >= 30:
        add_text(box, fit(model, rest, 9.5), left + used, base, "model")


def _strip(svg: ET.Element, pdu: PduLoad, x: float, height: float, judged: bool) -> None:
    """Draw a vertical PDU: filled from below by its load, paler by the load that it takes over when another feed is
    lost.

    `judged`: the rack fails with a feed lost, so that a load above the limit then is shown.
    """
    most = max(pdu.load_w, pdu.load_w_one_lost)
    box = ET.SubElement(svg, "g")
    lost = f", {power(pdu.load_w_one_lost)} with a feed lost" if pdu.load_w_one_lost > pdu.load_w else ""
    limit = f" of {power(pdu.limit_w)}" if pdu.limit_w is not None else ""
    words = f"{pdu.feed}: {power(pdu.load_w)}{limit}{lost}"
    add_title(box, f"PDU {pdu.name} ({pdu.model}) on feed {words}")
    add_rect(box, "track", x, _HEAD, _STRIP, height)
    over_now = pdu.limit_w is not None and pdu.load_w > pdu.limit_w
    over = over_now or (judged and pdu.limit_w is not None and most > pdu.limit_w)
    for load, kind in ((most, "over" if over else "lost"), (pdu.load_w, "over" if over_now else "load")):
        if pdu.limit_w:
            part = min(load / pdu.limit_w, 1.0) * (height - 2)
            add_rect(box, kind, x + 1, _HEAD + height - 1 - part, _STRIP - 2, part)
    shown = fit(words, height - 12, 9.5)
    text = add_text(box, shown, 0, 0, "strip bad" if over else "strip")
    if text is not None:
        turned = f"translate({px(x + _STRIP / 2 + 3.4)} {px(_HEAD + height - 6)}) rotate(-90)"
        text.set("transform", turned)


def _strips(rack: RackDesign) -> list[PduLoad]:
    """PDUs that take no rack units."""
    lying = {position.node for position in rack.elevation if position.kind == "pdu"}
    return [pdu for pdu in rack.pdus if pdu.name not in lying][:_MOST_STRIPS]


def _lanes(positions: Sequence[Position]) -> list[tuple[int, int]]:
    """For each position its place among those that claim some of the same units: (place, how many places)."""
    order = sorted(range(len(positions)), key=lambda index: (positions[index].u_bottom, index))
    placed: dict[int, tuple[int, int]] = {}
    for cluster in _clusters(positions, order):
        ends: list[int] = []  # first unit above what stands in each lane
        lane_of: dict[int, int] = {}
        for index in cluster:
            bottom = positions[index].u_bottom
            lane = next((lane for lane, end in enumerate(ends) if end <= bottom), len(ends))
            ends[lane:lane + 1] = [bottom + max(positions[index].u_height, 1)]  # fmt: skip
            lane_of[index] = lane
        placed |= {index: (lane, len(ends)) for index, lane in lane_of.items()}
    return [placed[index] for index in range(len(positions))]


def _clusters(positions: Sequence[Position], order: Sequence[int]) -> Iterator[list[int]]:
    """Yield runs of positions, from the bottom up, that are connected by units that two of them claim."""
    cluster: list[int] = []
    end = 0
    for index in order:
        if cluster and positions[index].u_bottom >= end:
            yield cluster
            cluster = []
        cluster.append(index)
        end = max(end, positions[index].u_bottom + max(positions[index].u_height, 1))
    if cluster:
        yield cluster


def _gaps(rack: RackDesign, units: int) -> Iterator[tuple[int, int]]:
    """Yield runs of free units: (lowest, number)."""
    taken = {u for p in rack.elevation for u in range(p.u_bottom, p.u_bottom + max(p.u_height, 1))}
    first: int | None = None
    for unit in range(1, (rack.height_u or units) + 2):
        free = unit not in taken and unit <= (rack.height_u or units)
        if free and first is None:
            first = unit
        elif not free and first is not None:
            yield first, unit - first
            first = None


def _in_words(position: Position, folded: bool) -> str:
    last = position.u_bottom + position.u_height - 1
    units = f"U{position.u_bottom}" if last <= position.u_bottom else f"U{position.u_bottom} to U{last}"
    name = "" if folded and position.kind in _NAMED else f"{position.node} "
    proposed = ", proposed place" if position.placed == "proposed" else ""
    weight = f", {plain(position.weight_kg)} kg" if position.weight_kg is not None else ""
    return f"{units} {name}{position.model}, {power(position.power_w)}{weight}{proposed}"


def _top(positions: Sequence[Position]) -> int:
    return max((p.u_bottom + max(p.u_height, 1) - 1 for p in positions), default=0)


def _y(units: int, position: Position) -> float:
    return _HEAD + (units - position.u_bottom - max(position.u_height, 1) + 1) * _UNIT
