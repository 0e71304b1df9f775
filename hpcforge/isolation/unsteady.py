"""Parts that are low at times, more often than by chance. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from hpcforge.isolation.evidence import Evidence, Low, Weight
from hpcforge.isolation.lines import AGREEING, surprise, tail
from hpcforge.isolation.state import Counts, Part

UNSTEADY = 1e-5  # a part is unsteady if it is as low by chance in fewer runs than this
SUSPECT = 0.05  # below this it is measured again
_WITH_OWN = 1e-3  # the same with the part's own low values among the passing ones: with few nodes they are most
PATIENCE = 16  # values of a part after which it is not measured again
_SUSPECT_LEAF = 0.2  # the same of a leaf, whose values across are many
_ORDER = ("pair", "cable", "uplink")


@dataclass(frozen=True)
class Sometimes:
    """A part that is low in several measurements and not in all; several parts if they share these values."""

    parts: tuple[Part, ...]
    low: AbstractSet[Low]
    good: int
    chance: float  # the expected number of parts of a fleet that are as low by chance
    agrees: bool  # whether enough runs, rounds and partners show it
    suspect: float = SUSPECT
    patience: int = PATIENCE

    @property
    def values(self) -> int:
        """The number of values through it."""
        return len(self.low) + self.good


def unsteady_parts(evidence: Evidence, unexplained: AbstractSet[Low]) -> Iterator[Sometimes]:
    """Yield cables, uplinks and paths, those that explain most first; each low value once.

    A path that is always low is not evidence for parts that are low at times.
    """
    every, unexplained = unexplained, {low for low in unexplained if not evidence.always(low)}
    counts = Counter(part for low in unexplained for part in evidence.path(low) if part.kind in _ORDER)
    fleet = evidence.state.counts.get("pair", Counts())
    used: set[Low] = set()
    for part in sorted((p for p in counts if counts[p] > 1), key=lambda p: (-counts[p], _ORDER.index(p.kind), p)):
        ways = [w for w in evidence.weigh(part).values() if w.low and w.good and not used.intersection(w.low)]
        low = {low: partner for w in ways for low, partner in w.low.items() if low in unexplained}
        if len(evidence.runs(low)) < 2:
            continue
        used.update(low)
        good = sum(w.good for w in ways)
        neighbour_rate = _rate_beside(evidence, part, low.keys(), good)
        others = replace(fleet, passing=min(fleet.passing, len(every - low.keys())))  # without its own low values
        chance = surprise(others, len(low), good, neighbour_rate)
        agrees = _agrees(evidence, low) and (part.kind == "pair" or len({*low.values()}) > 1)
        agrees = agrees and 2 * sum(map(evidence.once_good, low)) >= len(low)
        agrees = agrees and surprise(fleet, len(low), good, neighbour_rate) < _WITH_OWN
        yield Sometimes((part,), low.keys(), good, chance, agrees)


def loose_uplinks(evidence: Evidence, unexplained: AbstractSet[Low]) -> Iterator[Sometimes]:
    """Yield leaves with more low values across than others, as with adaptive routes.

    Each value may take any uplink then: one that is slow makes some values of every path low.
    """
    wiring, measurements = evidence.state.wiring, evidence.state.met
    lows: dict[int, set[Low]] = defaultdict(set)
    for low in unexplained:
        if not evidence.always(low):
            for leaf in {part.of for part in evidence.path(low) if part.kind == "uplinks"}:
                lows[leaf].add(low)
    across = 0
    if lows:
        crossed = sum(wiring.unit_of[pair.a] != wiring.unit_of[pair.b] for pair in measurements)
        across = 2 * wiring.rails * crossed
    every = len(set[Low]().union(*lows.values()))
    for leaves in _with_same(lows):
        crossing = lows[leaves[0]]
        good = sum(weight.good for weight in evidence.weigh(Part("uplinks", leaves[0])).values())
        rest = max(0, across - len(crossing) - good)
        chance = len(wiring.on_leaf) * tail((every - len(crossing) + 1) / (rest + 1), len(crossing), good)
        no_end = not set.intersection(*({*measurements[number][1:3]} for number, _ in crossing))
        agrees = no_end and _agrees(evidence, crossing)
        patience = PATIENCE * len(wiring.on_leaf[leaves[0]])
        parts = tuple(Part("uplinks", leaf) for leaf in leaves)
        yield Sometimes(parts, crossing, good, chance, agrees, _SUSPECT_LEAF, patience)


def _with_same(lows: dict[int, set[Low]]) -> Iterator[list[int]]:
    """Yield leaves with two low values or more, most first; leaves with the same values together, each value once."""
    used: set[Low] = set()
    leaves = sorted(lows, key=lambda leaf: (-len(lows[leaf]), leaf))
    for leaf in leaves:
        if len(lows[leaf]) > 1 and used.isdisjoint(lows[leaf]):
            used |= lows[leaf]
            yield [twin for twin in leaves if lows[twin] == lows[leaf]]


def _agrees(evidence: Evidence, low: Collection[Low]) -> bool:
    """Whether enough measurements were low, and in two rounds."""
    return len(evidence.runs(low)) >= AGREEING and len(evidence.rounds(low)) > 1


def _rate_beside(evidence: Evidence, part: Part, low: AbstractSet[Low], good: int) -> float:
    """Return the rate of low values over the same leaf without a part, which the part must exceed."""
    wiring = evidence.state.wiring
    if not wiring.known:
        return 0.0
    rail = next(iter(low))[1] // 2
    leaves = {part.of} if part.kind == "uplink" else {wiring.leaf[part.of][rail]}
    leaves |= {wiring.leaf[part.at][rail]} if part.kind == "pair" else set()
    return _low_beside(evidence, leaves, low, good)


def _low_beside(evidence: Evidence, leaves: Collection[int], low: AbstractSet[Low], good: int) -> float:
    """Return the rate of low values across some leaves, without those of a part."""
    weights: list[Weight] = [w for leaf in leaves for w in evidence.weigh(Part("uplinks", leaf)).values()]
    others = len({value for w in weights for value in w.low} - low)
    count = sum(len(w.low) + w.good for w in weights) - len(low) - good
    return (others + 1) / (count + 1) if count > 0 else 0.0
