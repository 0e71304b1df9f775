"""A fabric as SVG: tiers from the top down, cables as lines. An element tree, so that no name becomes markup."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from importlib.resources import files
from xml.etree import ElementTree as ET

from hpcforge.design.fabric.graph import CableKind, Fabric
from hpcforge.report.design_words import fit, text_width
from hpcforge.report.fabric_picture import Box, BoxRow, CableLine, Picture, cable_lines, picture, said
from hpcforge.report.fabric_words import CABLES
from hpcforge.report.pages import put_text, px
from hpcforge.report.text import clean, plural

_LEFT = 118.0  # room for captions
_HEAD = 46.0  # room for the title
_GAP = 6.0  # between boxes
_WIDE = 9  # switches in a row up to which they are drawn wide
_TIER = 118.0  # from the bottom of a row to the top of the next
_ARC = 46.0  # room above a row whose boxes are connected with each other
_SWITCH, _NARROW, _GROUP = (112.0, 36.0), (62.0, 36.0), (150.0, 44.0)  # boxes, width and height
_END, _SLIM = (86.0, 22.0), (18.0, 92.0)
_FEW = 12  # ends in a row up to which their names stand level
_COUNTED = 10  # lines of a kind up to which each says how many cables it stands for
_LEAST, _KEY = 560.0, 18.0
_FONT = 10.5


def drawing(fabric: Fabric) -> str:
    """Return the text of an SVG file."""
    svg = _draw(fabric)
    svg.set("xmlns", "http://www.w3.org/2000/svg")
    style = ET.Element("style")
    style.text = css()
    svg.insert(1, style)  # after the title
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(svg, encoding="unicode") + "\n"


def inline(fabric: Fabric) -> str:
    """Return inline SVG; a page that holds it needs `css()` once."""
    return ET.tostring(_draw(fabric), encoding="unicode")


@lru_cache
def css() -> str:
    """Return the styles of a drawn fabric."""
    return files("hpcforge.report").joinpath("templates", "fabric.css").read_text("utf-8")


def _draw(fabric: Fabric) -> ET.Element:
    shown = picture(fabric)
    sizes = [_size(row, shown) for row in shown.rows]
    widths = [len(row.boxes) * (size[0] + _GAP) - _GAP for row, size in zip(shown.rows, sizes, strict=True)]
    inner = max([*widths, _LEAST - _LEFT])
    width = _LEFT + inner + 12
    key = cable_lines(fabric)
    tops, height = _tops(shown, sizes)
    height += 14 + _KEY * len(key) + 6
    svg = ET.Element(
        "svg",
        {
            "class": "fabric",
            "viewBox": f"0 0 {px(width)} {px(height)}",
            "width": px(width),
            "height": px(height),
            "style": f"min-width:{px(0.95 * width)}px",  # a page may make it a little smaller, but still to be read
            "role": "img",
            "aria-label": clean(f"{shown.title}. {said(shown)}. {'; '.join(text for _, text in key)}"),
        },
    )
    ET.SubElement(svg, "title").text = clean(shown.title)
    put_text(svg, fit(shown.title, width - 12, 14, bold=True), 4, 20, "name")
    places = _places(shown, sizes, widths, tops, inner)
    alike = Counter(line.kind for line in shown.lines)
    for line in sorted(shown.lines, key=lambda line: line.count):
        _line(svg, line, places, alike[line.kind])
    for line in shown.lines:
        if not shown.each and alike[line.kind] <= _COUNTED and line.a[0] != line.b[0]:
            _count(svg, line, places)
    for index, row in enumerate(shown.rows):
        for number, caption in enumerate(row.caption):
            put_text(svg, fit(caption, _LEFT - 10, _FONT), 4, tops[index] + 14 + 14 * number, "caption")
        for place, box in enumerate(row.boxes):
            _box(svg, box, *places[index, place], turned=sizes[index] == _SLIM)
    for number, (kind, text) in enumerate(key):
        _key(svg, kind, text, height - 6 - _KEY * (len(key) - number) + 12, width)
    return svg


def _size(row: BoxRow, shown: Picture) -> tuple[float, float]:
    if not shown.each:
        return _GROUP
    if row.boxes[0].kind not in ("node", "endpoint"):
        return _SWITCH if len(row.boxes) <= _WIDE else _NARROW
    return _END if len(row.boxes) <= _FEW else _SLIM


def _tops(shown: Picture, sizes: list[tuple[float, float]]) -> tuple[list[float], float]:
    """Where each row begins, and where the last one ends."""
    level = {line.a[0] for line in shown.lines if line.a[0] == line.b[0]}
    tops, y = [], _HEAD
    for index, (_, height) in enumerate(sizes):
        y += _ARC if index in level else 0
        tops.append(y)
        y += height + _TIER
    return tops, y - _TIER


_Rect = tuple[float, float, float, float]  # x, y, width, height


def _places(
    shown: Picture, sizes: list[tuple[float, float]], widths: list[float], tops: list[float], inner: float
) -> dict[tuple[int, int], _Rect]:
    """Where each box stands: each row in the middle, spread where there is room."""
    found = {}
    for index, (row, size, width) in enumerate(zip(shown.rows, sizes, widths, strict=True)):
        count = len(row.boxes)
        spread = min((inner - width) / count, 1.2 * size[0])
        start = _LEFT + (inner - width - spread * (count - 1)) / 2
        for place in range(count):
            found[index, place] = (start + place * (size[0] + _GAP + spread), tops[index], *size)
    return found


def _line(svg: ET.Element, line: CableLine, places: dict[tuple[int, int], _Rect], count: int) -> None:
    """Cables from the top of one box to the bottom of the one above; within a row an arc above it."""
    rect, other = sorted((places[line.a], places[line.b]), key=lambda place: -place[1])
    x1, x2 = rect[0] + rect[2] / 2, other[0] + other[2] / 2
    if line.a[0] == line.b[0]:
        high = rect[1] - min(_ARC - 6, 12 + abs(x1 - x2) / 14)
        path = f"M{px(x1)} {px(rect[1])} C{px(x1)} {px(high)} {px(x2)} {px(high)} {px(x2)} {px(other[1])}"
    else:
        path = f"M{px(x1)} {px(rect[1])} L{px(x2)} {px(other[1] + other[3])}"
    faint = " faint" if count > 96 else ""
    element = ET.SubElement(svg, "path", {"class": f"cable {line.kind.replace('_', '-')}{faint}", "d": path})
    element.set("stroke-width", px(min(5.0, 0.8 + 0.6 * math.log2(line.count))))
    ET.SubElement(element, "title").text = f"{plural(line.count, 'cable')} {CABLES[line.kind]}"


def _count(svg: ET.Element, line: CableLine, places: dict[tuple[int, int], _Rect]) -> None:
    """How many cables a line stands for, in its middle."""
    rect, other = sorted((places[line.a], places[line.b]), key=lambda place: -place[1])
    x = (rect[0] + rect[2] / 2 + other[0] + other[2] / 2) / 2
    put_text(svg, f"{line.count:,}", x, (rect[1] + other[1] + other[3]) / 2 + 4, "count mid")


def _box(svg: ET.Element, box: Box, x: float, y: float, width: float, height: float, *, turned: bool) -> None:
    group = ET.SubElement(svg, "g")
    ET.SubElement(group, "title").text = clean(box.title)
    where = {"x": px(x), "y": px(y), "width": px(width), "height": px(height)}
    ET.SubElement(group, "rect", {"class": f"box {box.kind}", "rx": "3", **where})
    if turned:
        text = put_text(group, fit(box.name, height - 8, _FONT - 1), 0, 0, "label thin")
        if text is not None:
            text.set("transform", f"translate({px(x + width / 2 + 3.4)} {px(y + height - 4)}) rotate(-90)")
        return
    bold = height > 30
    base = y + (16 if box.more else height / 2 + 4)
    name = fit(_short(box.name, width - 8), width - 8, _FONT, bold=bold)
    put_text(group, name, x + width / 2, base, "label mid" if bold else "label thin mid")
    if box.more:
        more = box.more if text_width(box.more, 9.5) <= width - 8 else box.more.rpartition(", ")[2]
        put_text(group, fit(more, width - 8, 9.5), x + width / 2, y + height - 7, "more mid")


def _short(name: str, width: float) -> str:
    """A switch's name without its fabric where it would not fit: leaf-001."""
    if text_width(name, _FONT, bold=True) <= width or name.count("-") < 2:
        return name
    return "-".join(name.split("-")[-2:])


def _key(svg: ET.Element, kind: CableKind, text: str, y: float, width: float) -> None:
    mark = {
        "class": f"cable {kind.replace('_', '-')}",
        "d": f"M4 {px(y - 4)} L28 {px(y - 4)}",
        "stroke-width": "3",
    }
    ET.SubElement(svg, "path", mark)
    put_text(svg, fit(text, width - 44, _FONT), 36, y, "caption")
