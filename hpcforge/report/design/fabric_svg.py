"""A fabric as SVG: tiers from the top down, cables as lines. An element tree, so that no name becomes markup."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Device, DeviceKind, Fabric
from hpcforge.report.design.words import CABLES, fit, group_text, text_width
from hpcforge.report.design.words import names as folded
from hpcforge.report.html.charts import add_rect, add_text, add_title, canvas, inline, px, svg_file
from hpcforge.report.text import plural

# What a drawing of a fabric shows: boxes in rows and lines between them; up to 64 nodes every machine, above groups.
#
# Groups are what is wired alike: the nodes of a scalable unit and its leaves, the spines of a group, the cores of a
# plane. Where a row has too many of them, those in its middle are one box.
EACH = 64  # nodes; up to it every machine is drawn
_MOST = 9  # boxes in a row of groups
_KINDS: tuple[tuple[DeviceKind, ...], ...] = (("core",), ("spine",), ("leaf",), ("node", "endpoint"))
_NOUNS = {"core": "core", "spine": "spine", "leaf": "leaf", "node": "node", "endpoint": "other end"}
_PLURALS = {"core": "cores", "spine": "spines", "leaf": "leaves", "node": "nodes", "endpoint": "other ends"}


@dataclass(frozen=True)
class Box:
    """One machine, or machines that are wired alike."""

    devices: tuple[int, ...]
    kind: DeviceKind
    name: str
    more: str  # a second line
    title: str  # the whole of it, in words


@dataclass(frozen=True)
class CableLine:
    """All cables of one kind between two boxes, given by row and place."""

    a: tuple[int, int]
    b: tuple[int, int]
    kind: CableKind
    count: int


@dataclass(frozen=True)
class BoxRow:
    """Boxes of one tier; `caption` stands beside them."""

    caption: tuple[str, ...]
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Picture:
    """Rows from the top down, and what connects their boxes."""

    title: str
    each: bool  # every machine has a box of its own
    rows: tuple[BoxRow, ...]
    lines: tuple[CableLine, ...]


def picture(fabric: Fabric) -> Picture:
    """Return what is drawn of a fabric."""
    each = fabric.count("node") <= EACH
    group_of = _each if each else _groups(fabric)
    rows, at = list[BoxRow](), dict[int, tuple[int, int]]()
    for kinds in _KINDS:
        chosen = [index for index, device in enumerate(fabric.devices) if device.kind in kinds]
        if not chosen:
            continue
        boxes = _boxes(fabric, chosen, group_of, each)
        at |= {device: (len(rows), place) for place, box in enumerate(boxes) for device in box.devices}
        rows.append(BoxRow(tuple(_caption(fabric, chosen)), boxes))
    title = f"Fabric {fabric.name}: {fabric.topology}, {fabric.kind}, {fabric.rate_gbps:g} Gb/s"
    return Picture(title, each, tuple(rows), _lines(fabric, at))


def in_words(picture: Picture) -> str:
    """Describe the picture in words."""
    return "; ".join(" ".join(row.caption) for row in picture.rows)


def _each(device: int) -> object:
    return device


def _groups(fabric: Fabric) -> Callable[[int], object]:
    """Return the group with which a device is drawn."""
    columns, first_leaf = fabric.cables, dict[int, int]()
    for a, b, kind in zip(columns.a, columns.b, columns.kind, strict=True):
        if CABLE_KINDS[kind] in ("node_leaf", "leaf_spine"):
            first_leaf.setdefault(a, b)  # of a node its first leaf, of a leaf its first spine

    def leaf_group(leaf: int) -> object:
        unit = fabric.devices[leaf].unit
        if unit is not None:
            return unit
        spine = first_leaf.get(leaf)
        return ("spines", fabric.devices[spine].unit) if spine is not None else None

    def group(device: int) -> object:
        machine = fabric.devices[device]
        if machine.kind == "node":
            leaf = first_leaf.get(device)
            return leaf_group(leaf) if leaf is not None else None
        if machine.kind == "leaf":
            return leaf_group(device)
        return "all" if machine.kind == "endpoint" else machine.unit

    return group


def _boxes(fabric: Fabric, devices: Sequence[int], group_of: Callable[[int], object], each: bool) -> tuple[Box, ...]:
    groups: dict[object, list[int]] = {}
    for device in devices:
        groups.setdefault((fabric.devices[device].kind, group_of(device)), []).append(device)
    members = list(groups.values())
    if each:
        return tuple(_machine(fabric, group[0]) for group in members)
    if len(members) > _MOST:
        half = _MOST // 2
        middle = members[half:-half]
        shown = [_group(fabric, group) for group in members[:half]]
        ending = [_group(fabric, group) for group in members[-half:]]
        return (*shown, _middle(fabric, middle), *ending)
    return tuple(_group(fabric, group) for group in members)


def _machine(fabric: Fabric, device: int) -> Box:
    machine = fabric.devices[device]
    more = _role(fabric, machine)
    return Box(
        (device,), machine.kind, machine.name, more, ", ".join(filter(None, (machine.name, machine.model, more)))
    )


def _role(fabric: Fabric, device: Device) -> str:
    parts = []
    if device.unit is not None and device.kind == "leaf":
        parts.append(group_text(fabric.topology, device.kind, device.unit + 1))
    if device.rail is not None:
        parts.append(f"rail {device.rail + 1}")
    return ", ".join(parts)


def _group(fabric: Fabric, devices: Sequence[int]) -> Box:
    machine = fabric.devices[devices[0]]
    names = folded([fabric.devices[device].name for device in devices])
    count = _devices_text(len(devices), machine.kind)
    return Box(tuple(devices), machine.kind, count, names, f"{count}: {names}")


def _middle(fabric: Fabric, groups: Sequence[Sequence[int]]) -> Box:
    """Several groups in one box."""
    devices = tuple(device for group in groups for device in group)
    kind = fabric.devices[devices[0]].kind
    count = _devices_text(len(devices), kind)
    more = f"{len(groups)} groups more"
    return Box(devices, kind, count, more, f"{count} in {more}")


def _devices_text(count: int, kind: DeviceKind) -> str:
    return f"{count:,} {_NOUNS[kind] if count == 1 else _PLURALS[kind]}"


def _caption(fabric: Fabric, devices: Iterable[int]) -> list[str]:
    kinds = Counter(fabric.devices[device].kind for device in devices)
    lines = [_devices_text(count, kind) for kind, count in kinds.items()]
    models = Counter(model for device in devices if (model := fabric.devices[device].model))
    return lines + list(models)


def _lines(fabric: Fabric, at: dict[int, tuple[int, int]]) -> tuple[CableLine, ...]:
    counts: Counter[tuple[tuple[int, int], tuple[int, int], int]] = Counter()
    columns = fabric.cables
    for a, b, kind in zip(columns.a, columns.b, columns.kind, strict=True):
        counts[at[a], at[b], kind] += 1
    return tuple(CableLine(a, b, CABLE_KINDS[kind], count) for (a, b, kind), count in counts.items() if a != b)


def cable_lines(fabric: Fabric) -> list[tuple[CableKind, str]]:
    """`1,024 cables node to leaf, 400 Gb/s`, for each kind that there is."""
    return [
        (kind, f"{count:,} {'cable' if count == 1 else 'cables'} {CABLES[kind]}, {rate:g} Gb/s")
        for kind in CABLE_KINDS
        for rate, count in fabric.rates.get(kind, {}).items()
    ]


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
    return svg_file(_draw(fabric), "fabric.css")


def drawing_in_page(fabric: Fabric) -> str:
    """Return inline SVG; a page that holds it needs `fabric.css` once."""
    return inline(_draw(fabric))


def _draw(fabric: Fabric) -> ET.Element:
    shown = picture(fabric)
    sizes = [_size(row, shown) for row in shown.rows]
    widths = [len(row.boxes) * (size[0] + _GAP) - _GAP for row, size in zip(shown.rows, sizes, strict=True)]
    inner = max([*widths, _LEAST - _LEFT])
    width = _LEFT + inner + 12
    key = cable_lines(fabric)
    tops, height = _tops(shown, sizes)
    height += 14 + _KEY * len(key) + 6
    label = f"{shown.title}. {in_words(shown)}. {'; '.join(text for _, text in key)}"
    # A page may make it a little smaller, but still to be read.
    svg = canvas("fabric", width, height, label, f"min-width:{px(0.95 * width)}px")
    add_title(svg, shown.title)
    add_text(svg, fit(shown.title, width - 12, 14, bold=True), 4, 20, "name")
    places = _places(shown, sizes, widths, tops, inner)
    alike = Counter(line.kind for line in shown.lines)
    for line in sorted(shown.lines, key=lambda line: line.count):
        _line(svg, line, places, alike[line.kind])
    for line in shown.lines:
        if not shown.each and alike[line.kind] <= _COUNTED and line.a[0] != line.b[0]:
            _count(svg, line, places)
    for index, row in enumerate(shown.rows):
        for number, caption in enumerate(row.caption):
            add_text(svg, fit(caption, _LEFT - 10, _FONT), 4, tops[index] + 14 + 14 * number, "caption")
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
    places = {}
    for index, (row, size, width) in enumerate(zip(shown.rows, sizes, widths, strict=True)):
        count = len(row.boxes)
        spread = min((inner - width) / count, 1.2 * size[0])
        start = _LEFT + (inner - width - spread * (count - 1)) / 2
        for place in range(count):
            places[index, place] = (start + place * (size[0] + _GAP + spread), tops[index], *size)
    return places


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
    add_title(element, f"{plural(line.count, 'cable')} {CABLES[line.kind]}")


def _count(svg: ET.Element, line: CableLine, places: dict[tuple[int, int], _Rect]) -> None:
    """How many cables a line stands for, in its middle."""
    rect, other = sorted((places[line.a], places[line.b]), key=lambda place: -place[1])
    x = (rect[0] + rect[2] / 2 + other[0] + other[2] / 2) / 2
    add_text(svg, f"{line.count:,}", x, (rect[1] + other[1] + other[3]) / 2 + 4, "count mid")


def _box(svg: ET.Element, box: Box, x: float, y: float, width: float, height: float, *, turned: bool) -> None:
    group = ET.SubElement(svg, "g")
    add_title(group, box.title)
    add_rect(group, f"box {box.kind}", x, y, width, height, rx="3")
    if turned:
        text = add_text(group, fit(box.name, height - 8, _FONT - 1), 0, 0, "label thin")
        if text is not None:
            text.set("transform", f"translate({px(x + width / 2 + 3.4)} {px(y + height - 4)}) rotate(-90)")
        return
    bold = height > 30
    base = y + (16 if box.more else height / 2 + 4)
    name = fit(_short(box.name, width - 8), width - 8, _FONT, bold=bold)
    add_text(group, name, x + width / 2, base, "label mid" if bold else "label thin mid")
    if box.more:
        more = box.more if text_width(box.more, 9.5) <= width - 8 else box.more.rpartition(", ")[2]
        add_text(group, fit(more, width - 8, 9.5), x + width / 2, y + height - 7, "more mid")


def _short(name: str, width: float) -> str:
    """Return a switch's name, without its fabric if it would not fit: leaf-001."""
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
    add_text(svg, fit(text, width - 44, _FONT), 36, y, "caption")
