"""The load of each feed and its UPS, with all feeds and with any other feed lost. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hpcforge.blueprint.sections.hardware import Ups
from hpcforge.design.facility import limits
from hpcforge.design.facility.loads import LoadedRack, Loads, phase_count
from hpcforge.design.facility.room import Rack, Room


@dataclass(frozen=True)
class Carried:
    """The load of one feed, at maximum, before diversity."""

    phases: tuple[float, ...]  # W, as `units.line_amps` takes them
    wiring: str
    lost: Mapping[str, tuple[float, ...]]  # by the other, lost feed

    @property
    def load_w(self) -> float:
        """The load with all feeds, W."""
        return sum(self.phases)

    @property
    def worst(self) -> tuple[float, str | None]:
        """The highest load with one other feed lost, W, and that feed."""
        return max(((sum(loads), name) for name, loads in self.lost.items()), default=(self.load_w, None))


def carried(room: Room, loaded: Iterable[LoadedRack]) -> dict[str, Carried]:
    """Add up the PDUs of every feed."""
    loaded = tuple(loaded)
    base: dict[str, list[float]] = {name: [0.0] * feed.phases for name, feed in room.feeds.items()}
    change: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    delta = {name: _delta(room, name, loaded) for name in base}
    for loaded_rack in loaded:
        _add(loaded_rack.rack, loaded_rack.load.phases, base)
        for lost, loads in loaded_rack.load.lost.items():
            extra: dict[str, list[float]] = {name: [0.0] * len(phases) for name, phases in base.items()}
            _add(loaded_rack.rack, loads, extra)
            _add(loaded_rack.rack, loaded_rack.load.phases, extra, -1.0)
            for feed in loaded_rack.load.lost:
                change[feed, lost] = [a + b for a, b in zip(change[feed, lost], [*extra[feed], 0, 0], strict=False)]
    return {
        name: Carried(
            tuple(phases),
            "delta" if delta[name] else "wye",
            {
                lost: tuple(load + extra for load, extra in zip(phases, change[name, lost], strict=False))
                for lost in base
                if lost != name
            },
        )
        for name, phases in base.items()
    }


def _delta(room: Room, feed: str, loaded: Iterable[LoadedRack]) -> bool:
    """Tell whether a feed's loads are between lines, by the first rack on it."""
    first = next((loaded_rack.rack for loaded_rack in loaded if feed in loaded_rack.rack.spec.feeds), None)
    if first is None or first.pdu is None:
        return False
    return first.pdu.wiring == "delta" or limits.hangs(first, room.feeds[feed]) == "line-line"


def _add(rack: Rack, loads: Loads, into: dict[str, list[float]], factor: float = 1.0) -> None:
    """Add PDU loads to their feeds' phases: phase to phase, else one PDU to one phase in turn, else evenly."""
    for index, (feed, phases) in enumerate(zip(rack.spec.feeds, loads, strict=True)):
        target = into[feed]
        if len(target) == len(phases):
            for phase, load in enumerate(phases):
                target[phase] += factor * load
        elif phase_count(rack) == 1 and rack.pdu and rack.pdu.phases == 1:
            target[(rack.ordinal + index) % len(target)] += factor * sum(phases)
        else:
            for phase in range(len(target)):
                target[phase] += factor * sum(phases) / len(target)


def run_time_min(ups: Ups, count: int, load_w: float) -> float | None:
    """Return how long UPSs carry a shared load, minutes; None without published figures.

    Between two points of the maker's curve in proportion; more than its heaviest point: 0; less than its lightest: that
    point's. Without a curve: usable battery energy x efficiency / load.
    """
    if load_w <= 0:
        return None
    each_w = load_w / count
    if ups.run_times:
        points = sorted((point.load_w, point.minutes) for point in ups.run_times)
        if each_w > points[-1][0]:
            return 0.0
        lighter = max((point for point in points if point[0] <= each_w), default=points[0])
        heavier = min(point for point in points if point[0] >= min(each_w, points[-1][0]))
        if each_w <= lighter[0] or heavier[0] == lighter[0]:
            return lighter[1]
        return lighter[1] + (heavier[1] - lighter[1]) * (each_w - lighter[0]) / (heavier[0] - lighter[0])
    if ups.battery_wh is not None and ups.efficiency is not None:
        return ups.battery_wh * ups.efficiency / each_w * 60
    return None
