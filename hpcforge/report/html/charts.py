"""Drawings as SVG: their pieces, and the charts of all pages.

They are element trees, so that no text becomes markup. Colours are classes of a style sheet, and no colour is the only
sign of anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from xml.etree import ElementTree as ET

from hpcforge.report.text import clean

MOST_IN_MATRIX = 64  # nodes
_WIDE = 330.0  # as a telephone shows it
_LABEL, _BAR, _ROW = 80.0, 170.0, 18.0  # of a bar: its beginning, its greatest length, and the height of its row
_CELL_NUMBERS = 16  # nodes of a matrix whose squares have numbers
_MOST_DOTS = 200
_LOAD = 1000.0  # width of a load's bar in its own units; the page stretches it
_PORT, _STEP = 7.0, 8.0  # a port on a drawn face, and the distance from one to the next


def px(value: float) -> str:
    """Format a number for SVG, to a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def canvas(kind: str, width: float, height: float, label: str = "", style: str = "") -> ET.Element:
    """Return an empty drawing. Without a `label`, text beside it says the same."""
    attributes = {
        "class": kind,
        "viewBox": f"0 0 {px(width)} {px(height)}",
        "width": px(width),
        "height": px(height),
        **({"style": style} if style else {}),
        **({"role": "img", "aria-label": clean(label)} if label else {"aria-hidden": "true"}),
    }
    return ET.Element("svg", attributes)


def add_rect(parent: ET.Element, kind: str, x: float, y: float, width: float, height: float, **more: str) -> ET.Element:
    """Add a rectangle of a class."""
    size = {"x": px(x), "y": px(y), "width": px(width), "height": px(max(height, 0))}
    return ET.SubElement(parent, "rect", {"class": kind, **more, **size})


def add_line(parent: ET.Element, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
    """Add a straight line of a class."""
    ET.SubElement(parent, "line", {"class": kind, "x1": px(x1), "y1": px(y1), "x2": px(x2), "y2": px(y2)})


def add_text(parent: ET.Element, text: str, x: float, y: float, kind: str) -> ET.Element | None:
    """Add text of a class; nothing for none."""
    if not text:
        return None
    element = ET.SubElement(parent, "text", {"class": kind, "x": px(x), "y": px(y)})
    element.text = clean(text)
    return element


def add_title(parent: ET.Element, text: str) -> None:
    """Add the title of a drawing, or of a part of it."""
    ET.SubElement(parent, "title").text = clean(text)


def _stroke(parent: ET.Element, kind: str, points: Sequence[tuple[float, float]]) -> None:
    path = " ".join(f"{px(x)},{px(y)}" for x, y in points)
    ET.SubElement(parent, "polyline", {"class": kind, "points": path})


def inline(svg: ET.Element) -> str:
    """Return a drawing as a part of a page."""
    return ET.tostring(svg, encoding="unicode")


def svg_file(svg: ET.Element, style_sheet: str) -> str:
    """Return a drawing, which has a title, as the text of a file."""
    svg.set("xmlns", "http://www.w3.org/2000/svg")
    style = ET.Element("style")
    style.text = template_text(style_sheet)
    svg.insert(1, style)  # after the title
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{inline(svg)}\n'


@cache
def template_text(name: str) -> str:
    """Return the text of a style sheet, or of a script."""
    return files("hpcforge.report.html").joinpath("templates", name).read_text("utf-8")


@dataclass(frozen=True)
class Bar:
    """A number with its label. `word` stands beside it, and is its class, too."""

    label: str
    value: float
    word: str = ""


def bar_chart(title: str, bars: Sequence[Bar], limits: Mapping[float, bool]) -> str:
    """Draw bars, with a stroke for each limit and whether it refuses."""
    most = max([bar.value for bar in bars] + [*limits] + [1e-12])
    bottom = _ROW * len(bars) + 4
    svg = canvas("chart bars", _WIDE, bottom + 18, title)
    for row, bar in enumerate(bars):
        y, width = _ROW * row + 4, max(1.0, _BAR * bar.value / most)
        add_text(svg, bar.label, 0, y + 11, "label")
        add_rect(svg, f"bar {bar.word}".rstrip(), _LABEL, y, width, 13)
        add_text(svg, f"{bar.value:.4g} {bar.word}".rstrip(), _LABEL + 4 + width, y + 11, "number")
    for limit, refuses in limits.items():
        x = _LABEL + _BAR * limit / most
        _stroke(svg, "line" if refuses else "line shown", [(x, 0), (x, bottom)])
        add_text(svg, f"{limit:.4g}", x - 10, bottom + 13, "tick")
    return inline(svg)


@dataclass(frozen=True)
class Series:
    """Points of a line, by x."""

    name: str
    kind: str  # class: value, reference, bound
    points: tuple[tuple[float, float], ...]


def line_chart(series: Sequence[Series], *, log: bool = False, x_size: bool = False) -> str:
    """Draw lines over x; `log`: both axes by powers, `x_size`: x is in bytes."""
    points = [point for line in series for point in line.points]
    scale = math.log10 if log else float
    xs, ys = [scale(x) for x, _ in points], [scale(y) for _, y in points]
    x0, y0, wide, high = 48.0, 10.0, 270.0, 140.0
    svg = canvas("chart lines", _WIDE, y0 + high + 40 + 15 * len(series), "; ".join(line.name for line in series))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (scale(x) - min(xs)) / ((max(xs) - min(xs)) or 1.0)
        up = (scale(y) - min(ys)) / ((max(ys) - min(ys)) or 1.0)
        return x0 + wide * across, y0 + high * (1 - up)

    _stroke(svg, "axis", [(x0, y0), (x0, y0 + high), (x0 + wide, y0 + high)])
    highest, lowest = max(y for _, y in points), min(y for _, y in points)
    add_text(svg, f"{highest:.3g}", 0, y0 + 10, "tick")
    add_text(svg, f"{lowest:.3g}", 0, y0 + high, "tick")
    for x in (min(x for x, _ in points), max(x for x, _ in points)):
        add_text(svg, _bytes(x) if x_size else f"{x:g}", at(x, lowest)[0] - 16, y0 + high + 15, "tick")
    for row, line in enumerate(series):
        _stroke(svg, f"curve {line.kind}", [at(x, y) for x, y in line.points])
        for x, y in line.points[:_MOST_DOTS] if line.kind == "value" else ():
            place = at(x, y)
            ET.SubElement(svg, "circle", {"class": "dot", "cx": px(place[0]), "cy": px(place[1]), "r": "2.5"})
        y = y0 + high + 34 + 15 * row
        _stroke(svg, f"curve {line.kind}", [(0, y - 4), (22, y - 4)])
        add_text(svg, line.name, 28, y, "label")
    return inline(svg)


def _bytes(size: float) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power:
            return f"{size / (1 << power):g} {unit}"
    return f"{size:g} B"


def matrix(nodes: Sequence[str], values: Mapping[tuple[str, str], float], *, lower: bool = False) -> str:
    """Draw a square for each pair, from the row's node to the column's: its part of the median. Blank: not measured."""
    numbered = len(nodes) <= _CELL_NUMBERS
    cell, x0, y0 = (34.0 if numbered else 10.0), 80.0, 18.0
    size = cell * len(nodes) + 4
    svg = canvas("chart matrix", x0 + size, y0 + size, "numbers from node to node")
    median = sorted(values.values())[len(values) // 2] if values else 1.0
    for row, node in enumerate(nodes):
        y = y0 + cell * row
        if numbered or row % 4 == 0:
            add_text(svg, node, 0, y + cell / 2 + 4, "label")
        if numbered:
            add_text(svg, node[-5:], x0 + cell * row + 1, 12, "tick")
        for column, peer in enumerate(nodes):
            x, value = x0 + cell * column, values.get((node, peer))
            if value is None:
                add_rect(svg, "cell none", x, y, cell - 1, cell - 1)
                continue
            ratio = (median / value if value else 0.0) if lower else (value / median if median else 1.0)
            _square(svg, x, y, cell - 1, ratio, f"{node} to {peer}: {value:.4g}, {ratio:.0%} of the median")
            if numbered:
                add_text(svg, f"{value:.3g}", x + 2, y + cell / 2 + 4, "tiny")
    return inline(svg)


def _square(svg: ET.Element, x: float, y: float, size: float, ratio: float, title: str) -> None:
    """Draw a square of a matrix: with a stroke, or a cross, where its part of the median is low."""
    shade = 0 if ratio >= 0.95 else 1 if ratio >= 0.8 else 2 if ratio >= 0.5 else 3
    add_title(add_rect(svg, f"cell shade{shade}", x, y, size, size), title)
    if shade >= 2:
        _stroke(svg, "mark", [(x, y + size), (x + size, y)])
    if shade == 3:
        _stroke(svg, "mark", [(x, y), (x + size, y + size)])


def load_bar(load: float, lost: float, limit: float | None, scale: float, *, judged: bool) -> str:
    """Draw a load, what is added when one feed is lost, what of it is above the limit, and the limit as a line.

    `judged`: the load with one feed lost must stay below the limit, too.
    """
    svg = canvas("bar", _LOAD, 20)
    svg.set("preserveAspectRatio", "none")

    def piece(kind: str, start: float, end: float, y: int = 2, height: int = 16) -> None:
        if end > start:
            add_rect(svg, kind, _LOAD * start / scale, y, _LOAD * (end - start) / scale, height)

    piece("track", 0, scale, 6, 8)
    piece("load", 0, load)
    piece("lost", load, lost)
    if limit is not None:
        piece("over", limit, load)
        if judged:
            piece("over-lost", max(limit, load), lost)
        add_line(svg, "limit", _LOAD * limit / scale, 0, _LOAD * limit / scale, 20)
    return inline(svg)


def face(uses: Sequence[str]) -> str:
    """Draw a switch's ports in two rows, odd numbers above even ones; `uses` has the class of each."""
    svg = canvas("face", -(-len(uses) // 2) * _STEP, 2 * _STEP)
    for number, use in enumerate(uses):
        add_rect(svg, use, number // 2 * _STEP, number % 2 * _STEP, _PORT, _PORT)
    return inline(svg)
