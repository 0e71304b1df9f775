"""The load of a rack on its PDUs and their phases, with all feeds and with each one lost. Pure.

A machine's supplies share its load equally. Supply j of a machine is plugged into PDU (j + k) mod P of the rack's P,
where k is the machine's place counted in its own heights from the bottom: machines with fewer supplies than PDUs take
turns. On a PDU of three phases, plugs take phases in turn in the same way, turned by one from PDU to PDU and from
rack to rack, so that the phases of a feed are even, too. All of it follows from where a machine stands, so that
adding another one moves no plug.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from hpcforge.design.facility.layout import Item, Layout
from hpcforge.design.facility.room import Load, Rack, Room

Loads = tuple[tuple[float, ...], ...]  # PDU by PDU the load of each phase, W


@dataclass(frozen=True, eq=False)
class Stranded:
    """A machine with too few supplies left when a feed is lost."""

    index: int  # in the rack's items
    feed: str
    left: int
    needed: int
    count: int


@dataclass(frozen=True, eq=False)
class RackLoad:
    """The loads of one rack; racks with equal loads share the object."""

    phases: Loads
    lost: Mapping[str, Loads]  # by the feed that is lost
    inlets: tuple[Mapping[str, int], ...]  # PDU by PDU, supplies by kind of inlet
    inlets_unknown: tuple[str, ...]  # labels of loads whose inlets are not known
    stranded: tuple[Stranded, ...]
    supplies_unknown: tuple[str, ...]  # labels of loads with an unknown number of present or required supplies
    power_w: float
    weight_kg: float
    power_unknown: tuple[str, ...]
    weight_unknown: tuple[str, ...]

    @cached_property
    def pdu_w(self) -> tuple[float, ...]:
        """The load of each PDU, W."""
        return tuple(sum(phases) for phases in self.phases)

    def without_another(self, pdu: int, feed: str) -> list[tuple[float, ...]]:
        """Return the loads of a PDU's phases with each other feed lost, W; with every feed if there is no other."""
        return [loads[pdu] for lost, loads in self.lost.items() if lost != feed] or [self.phases[pdu]]


@dataclass(frozen=True, eq=False)
class LoadedRack:
    """A rack with its items and loads."""

    rack: Rack
    items: tuple[Item, ...]
    load: RackLoad


def load_racks(room: Room, layout: Layout) -> tuple[LoadedRack, ...]:
    """Return every rack with its loads."""
    loads: dict[object, RackLoad] = {}
    loaded = []
    for name, rack in room.racks.items():
        items = layout.racks[name]
        key = alike_as(rack, items)
        if key not in loads:
            loads[key] = rack_load(rack, items)
        loaded.append(LoadedRack(rack, items, loads[key]))
    return tuple(loaded)


def alike_as(rack: Rack, items: Iterable[Item]) -> object:
    """Return the same key for racks with equal loads."""
    return (rack.key, rack.ordinal % 3, tuple((_load_key(item), item.u) for item in items))


def _load_key(item: Item) -> object:
    """Return the part of an item that its loads depend on: for machines their kind or model, not their name."""
    return id(item.node or item.load) if item.kind in ("node", "switch") else item.name


def rack_load(rack: Rack, items: tuple[Item, ...]) -> RackLoad:
    """Return the loads of a rack with these items."""
    feeds = rack.spec.feeds
    unplugged = [item for item in items if item.kind == "pdu"]
    plugged = [(index, item) for index, item in enumerate(items) if item not in unplugged]
    lines = [list(_plugs(rack, item)) for _, item in plugged]
    loads = [item.load for _, item in plugged]
    pdu_kg = rack.pdu.weight_kg if rack.pdu else 0.0
    known_kg = sum(load.weight_kg or 0.0 for load in loads) + (pdu_kg or 0.0) * len(feeds)
    weightless = [load.label for load in loads if load.weight_kg is None]
    return RackLoad(
        phases=_sum(rack, loads, lines, None),
        lost={feed: _sum(rack, loads, lines, feed) for feed in dict.fromkeys(feeds)},
        inlets=_inlets(rack, loads, lines),
        inlets_unknown=_unique(load.label for load in loads if load.power_w != 0 and not _inlets_known(load)),
        stranded=tuple(_stranded(rack, plugged, lines)),
        supplies_unknown=_unique(load.label for load in loads if load.power_w != 0 and not _supplies_known(load)),
        power_w=sum(load.least_w for load in loads),
        weight_kg=known_kg,
        power_unknown=_unique(load.label for load in loads if load.power_w is None),
        weight_unknown=_unique([*weightless, *([rack.spec.pdu or ""] if feeds and pdu_kg is None else [])]),
    )


def _unique(labels: Iterator[str] | list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(labels))


def _inlets_known(load: Load) -> bool:
    return load.psu is not None and load.psu.inlet is not None and load.psu.count is not None


def _supplies_known(load: Load) -> bool:
    return load.psu is not None and load.psu.count is not None and load.psu.needed is not None


def phase_count(rack: Rack) -> int:
    """Return the number of loads to distinguish on a PDU: three where its phases and wiring are known, else one."""
    return 3 if rack.pdu and rack.pdu.phases == 3 and rack.pdu.wiring else 1


def _plugs(rack: Rack, item: Item) -> Iterator[tuple[int, int]]:
    """Yield PDU and phase of each supply of a machine; all PDUs and phases if its supplies are unknown."""
    pdus, phases = len(rack.spec.feeds), phase_count(rack)
    count = item.load.psu.count if item.load.psu else None
    if count is None:
        yield from ((pdu, phase) for pdu in range(pdus) for phase in range(phases))
        return
    if not pdus:
        return
    turn, per_pdu = (item.u - 1) // max(1, item.height), ceil(count / pdus)
    for supply in range(count):
        pdu = (supply + turn) % pdus
        yield pdu, (turn * per_pdu + supply // pdus + pdu + rack.ordinal) % phases


def _sum(rack: Rack, loads: list[Load], lines: list[list[tuple[int, int]]], lost: str | None) -> Loads:
    """Sum up the load of each phase; a machine without a remaining supply loads none."""
    feeds = rack.spec.feeds
    sums = [[0.0] * phase_count(rack) for _ in feeds]
    for load, plugs in zip(loads, lines, strict=True):
        alive = [(pdu, phase) for pdu, phase in plugs if feeds[pdu] != lost]
        for pdu, phase in alive:
            sums[pdu][phase] += load.least_w / len(alive)
    return tuple(map(tuple, sums))


def _inlets(rack: Rack, loads: list[Load], lines: list[list[tuple[int, int]]]) -> tuple[Mapping[str, int], ...]:
    counts: list[Counter[str]] = [Counter() for _ in rack.spec.feeds]
    for load, plugs in zip(loads, lines, strict=True):
        if load.psu and load.psu.inlet and load.psu.count is not None:
            for pdu, _ in plugs:
                counts[pdu][load.psu.inlet] += 1
    return tuple(counts)


def _stranded(rack: Rack, plugged: list[tuple[int, Item]], lines: list[list[tuple[int, int]]]) -> Iterator[Stranded]:
    feeds = rack.spec.feeds
    for (index, item), plugs in zip(plugged, lines, strict=True):
        psu = item.load.psu
        if psu is None or psu.count is None or psu.needed is None:
            continue
        remaining = {feed: sum(feeds[pdu] != feed for pdu, _ in plugs) for feed in dict.fromkeys(feeds)}
        worst = min(remaining, key=lambda feed: remaining[feed], default=None)
        if worst is not None and remaining[worst] < psu.needed:
            yield Stranded(index, worst, remaining[worst], psu.needed, psu.count)
