"""The evidence of pairs' measurements about each part. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hpcforge.isolation.lines import median
from hpcforge.isolation.state import BadPart, FleetLine, Judgement, Part, State

Low = tuple[int, int]  # a measurement, by its number, and the place of a value in it
Way = str | int
_WHOLE_PARTS = ("node", "uplinks", "leaf")  # parts that are bad only if all values through them are
_GOOD_OF_WHOLE = 0.02  # the allowed share of good values through a bad part of these kinds
_FIRST_ROUNDS = 3  # in these, pairs are measured for their own sake


@dataclass
class Weight:
    """The values that were measured through a part in one direction."""

    low: dict[Low, int] = field(default_factory=dict)  # by value: the partner of a node, the other leaf of a leaf
    good: int = 0


@dataclass
class Evidence:
    """All measurements of pairs, by node, and their evidence. One step uses it."""

    state: State

    @cached_property
    def of_node(self) -> dict[int, list[int]]:
        """The measurements that a node took part in."""
        by_node: dict[int, list[int]] = defaultdict(list)
        for number, measurement in enumerate(self.state.met):
            by_node[measurement.a].append(number)
            by_node[measurement.b].append(number)
        return by_node

    @cached_property
    def of_pair(self) -> dict[tuple[int, int], list[int]]:
        """The measurements of each pair."""
        by_pair: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, measurement in enumerate(self.state.met):
            by_pair[measurement.a, measurement.b].append(number)
        return by_pair

    @cached_property
    def lows(self) -> list[Low]:
        """Every low value of a pair, but those of rails that are slow as a whole."""
        return [(number, place) for number, pair in enumerate(self.state.met) if pair.low for place in pair.low]

    def path(self, low: Low) -> Iterator[Part]:
        """Yield the parts that a value depends on."""
        measurement, wiring = self.state.met[low[0]], self.state.wiring
        rail = low[1] // 2
        source, target = (measurement.b, measurement.a) if low[1] % 2 else (measurement.a, measurement.b)
        yield Part("pair", measurement.a, measurement.b)
        for node in (source, target):
            yield Part("cable", node, rail)
            if wiring.rails > 1:
                yield Part("node", node)
        if not wiring.known:
            return
        leaves = (wiring.leaf[source][rail], wiring.leaf[target][rail])
        for leaf in dict.fromkeys(leaves):
            yield Part("leaf", leaf)
        if leaves[0] != leaves[1]:
            for leaf in leaves:
                yield Part("uplinks", leaf)
                uplink = wiring.uplink(leaf, target, rail)
                if uplink is not None:
                    yield Part("uplink", leaf, uplink)

    def through(self, part: Part) -> Iterator[tuple[Low, Way, int]]:
        """Yield each value through a part: its place, its direction, and the other node or leaf."""
        wiring, measurements = self.state.wiring, self.state.met
        if part.kind == "pair":
            for number in self.of_pair[part.of, part.at]:
                yield from (((number, place), place, part.at) for place in range(2 * wiring.rails))
        elif part.kind in ("cable", "node"):
            rails = range(wiring.rails) if part.kind == "node" else (part.at,)
            for number in self.of_node[part.of]:
                first = measurements[number].a == part.of
                partner = measurements[number].b if first else measurements[number].a
                for rail in rails:
                    out, back = (2 * rail, 2 * rail + 1) if first else (2 * rail + 1, 2 * rail)
                    yield (number, out), "out", partner
                    yield (number, back), "in", partner
        else:
            yield from self._through_leaf(part)

    def _through_leaf(self, part: Part) -> Iterator[tuple[Low, Way, int]]:
        wiring = self.state.wiring
        for node, rail in wiring.on_leaf[part.of]:
            for number in self.of_node[node]:
                measurement = self.state.met[number]
                first = measurement.a == node
                partner = measurement.b if first else measurement.a
                elsewhere = wiring.leaf[partner][rail]
                out, back = (2 * rail, 2 * rail + 1) if first else (2 * rail + 1, 2 * rail)
                if part.kind == "leaf":
                    if elsewhere != part.of or first:  # both ends on this leaf: once
                        yield from (((number, place), "", node) for place in (out, back))
                elif elsewhere != part.of:
                    for place, direction, target in ((out, "out", partner), (back, "in", node)):
                        if part.kind == "uplinks" or wiring.uplink(part.of, target, rail) == part.at:
                            yield (number, place), direction, elsewhere

    def weigh(self, part: Part) -> dict[Way, Weight]:
        """Sum up the measurements through a part, by direction."""
        if part not in self._weighed:
            weights: dict[Way, Weight] = defaultdict(Weight)
            for low, direction, partner in self.through(part):
                weight = weights[direction]
                if low[1] in self.state.met[low[0]].low:
                    weight.low[low] = partner
                else:
                    weight.good += 1
            self._weighed[part] = dict(weights)
        return self._weighed[part]

    _weighed: dict[Part, dict[Way, Weight]] = field(default_factory=dict)

    def bad_ways(self, part: Part) -> list[Weight]:
        """Return the directions without a good value through a part; for a whole node or leaf nearly without.

        A pair without an answer does not show which direction is bad: it counts only if all are.
        """
        if part in self._bad:
            return self._bad[part]
        allowed = _GOOD_OF_WHOLE if part.kind in _WHOLE_PARTS else 0.0
        ways, measurements = self.weigh(part).values(), self.state.met
        bad = [w for w in ways if w.low and w.good <= allowed * len(w.low)]
        if len(bad) < len(ways):
            bad = [Weight({low: w.low[low] for low in w.low if not measurements[low[0]].silent}, w.good) for w in bad]
        self._bad[part] = [w for w in bad if w.low]
        return self._bad[part]

    _bad: dict[Part, list[Weight]] = field(default_factory=dict)

    def runs(self, lows: Collection[Low]) -> set[int]:
        """Return the measurements of low values."""
        return {number for number, _ in lows}

    def paths(self, lows: Collection[Low]) -> set[tuple[int, int, int]]:
        """Return the paths of low values: both nodes and the place."""
        measurements = self.state.met
        return {(measurements[number].a, measurements[number].b, place) for number, place in lows}

    def rounds(self, lows: Collection[Low]) -> tuple[int, ...]:
        """Return the rounds of low values."""
        return tuple(sorted({self.state.met[number].round for number, _ in lows}))

    def measured(self, lows: Collection[Low]) -> tuple[float, FleetLine]:
        """Return the median of low values, and the line of the first."""
        measurements = self.state.met
        values = [measurements[number].values[measurements[number].low.index(place)] for number, place in lows]
        number, place = min(lows)
        unit_of, lines = self.state.wiring.unit_of, self.state.lines
        crosses = unit_of[measurements[number].a] != unit_of[measurements[number].b]
        names = [f"{kind} {place // 2}" for kind in (("across", "inside") if crosses else ("inside", "across"))]
        return median(values), next((lines[name] for name in names if name in lines), FleetLine(0.0, 0.0))

    def always(self, low: Low) -> bool:
        """Whether a path was measured twice or more and was low each time."""
        measurements = self.state.met
        same_pair = self.of_pair[measurements[low[0]].a, measurements[low[0]].b]
        return len(same_pair) > 1 and not self.once_good(low)

    def once_good(self, low: Low) -> bool:
        """Whether the same pair was good in the same direction, before or after."""
        measurements = self.state.met
        same_pair = self.of_pair[measurements[low[0]].a, measurements[low[0]].b]
        return any(low[1] not in measurements[number].low for number in same_pair)

    def passed(self, low: Low) -> bool:
        """Whether a low value needs no other measurement: the same pair was good in the same direction.

        A pair that was measured only to judge others is not judged itself: it is enough that its parts were good.
        """
        measurements = self.state.met
        same_pair = self.of_pair[measurements[low[0]].a, measurements[low[0]].b]
        if self.once_good(low):
            return True
        parts = [part for part in self.path(low) if part.kind in ("cable", "uplink")]
        judged = measurements[same_pair[0]].round <= _FIRST_ROUNDS
        return not judged and not any(low in weight.low for part in parts for weight in self.bad_ways(part))

    def finding(self, verdict: Judgement, parts: tuple[Part, ...], lows: Collection[Low], good: int = 0) -> BadPart:
        """Return the finding for low values."""
        return BadPart(verdict, parts, *self.measured(lows), len(lows), good, self.rounds(lows))
