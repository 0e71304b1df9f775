"""What a drawing of a fabric shows: boxes in rows and lines between them; up to 64 nodes every machine, above groups.

Groups are what is wired alike: the nodes of a scalable unit and its leaves, the spines of a group, the cores of a
plane. Where a row has too many of them, those in its middle are one box.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hpcforge.design.fabric.graph import CABLE_KINDS, CableKind, Device, DeviceKind, Fabric
from hpcforge.report.design_words import names as folded
from hpcforge.report.fabric_words import CABLES, group_said

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


def said(picture: Picture) -> str:
    """The same in words."""
    return "; ".join(" ".join(row.caption) for row in picture.rows)


def _each(device: int) -> object:
    return device


def _groups(fabric: Fabric) -> Callable[[int], object]:
    """What a device is drawn together with."""
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
        parts.append(group_said(fabric.topology, device.kind, device.unit + 1))
    if device.rail is not None:
        parts.append(f"rail {device.rail + 1}")
    return ", ".join(parts)


def _group(fabric: Fabric, devices: Sequence[int]) -> Box:
    machine = fabric.devices[devices[0]]
    names = folded([fabric.devices[device].name for device in devices])
    count = _count(len(devices), machine.kind)
    return Box(tuple(devices), machine.kind, count, names, f"{count}: {names}")


def _middle(fabric: Fabric, groups: Sequence[Sequence[int]]) -> Box:
    """Several groups in one box."""
    devices = tuple(device for group in groups for device in group)
    kind = fabric.devices[devices[0]].kind
    count = _count(len(devices), kind)
    more = f"{len(groups)} groups more"
    return Box(devices, kind, count, more, f"{count} in {more}")


def _count(count: int, kind: DeviceKind) -> str:
    return f"{count:,} {_NOUNS[kind] if count == 1 else _PLURALS[kind]}"


def _caption(fabric: Fabric, devices: Iterable[int]) -> list[str]:
    kinds = Counter(fabric.devices[device].kind for device in devices)
    lines = [_count(count, kind) for kind, count in kinds.items()]
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
