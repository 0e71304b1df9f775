"""Lines between low and healthy values: parts of the fleet's own median. Pure.

A line is 0.95 of the median for a node and 0.90 for one GPU or one rail alone. Where the fleet spreads wider than that
it is three standard deviations below the median, by the median absolute deviation. A value below 0.3 of the median is
always low.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, comb, log
from statistics import median_low

from hpcforge.isolation.state import Counts, FleetLine

PART_OF_MEDIAN = {"node": 0.95, "gpu": 0.90, "adapter": 0.90, "pair": 0.90}
_FLOOR = 0.3
_DEVIATIONS = (
    3 * 1.4826
)  # the median absolute deviation of a normal distribution is 1 / 1.4826 of its standard deviation
_REACHING = 4  # nodes: one may report false values, and so affect two partners
_GAP, _BETWEEN = 0.8, 0.05  # at most this share of values is between this part of the higher level and its line
_SURE = 1e-6  # the allowed chance that a whole run names a healthy part
_LOWEST_RATE = 1e-3  # the lowest assumed rate of passing low values
_BELIEVED = 100  # assumed earlier values without a passing low one
AGREEING = 3  # measurements that must be low before a part is named


def median(values: Iterable[float]) -> float:
    """Return the middle value, or the mean of the two in the middle. Raise ValueError if there is none."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def line_of(kind: str, by_node: Iterable[Sequence[float]]) -> FleetLine:
    """Return the line for values of a kind, by all reports of nodes. Raise ValueError if there is none.

    The median is that of the nodes' own medians, of two in the middle the lower one: however many and however high the
    values of one node are, they do not make the others low.
    """
    reports = [values for values in by_node if values]
    if not reports:
        raise ValueError("no values")
    middle = median_low(median_low(values) for values in reports)
    values = [value for report in reports for value in report]
    spread = median([abs(value - middle) for value in values]) * _DEVIATIONS
    return FleetLine(max(_FLOOR * middle, min(PART_OF_MEDIAN[kind] * middle, middle - spread)), middle)


def higher_line(line: FleetLine, levels: Sequence[float], values: Sequence[float]) -> FleetLine:
    """Return the line at the level that a quarter of the nodes, at least four, reach, if no value is slightly below it.

    Low values are then a distinct class, even if they are the majority, as with many pairs that share a bad part.
    """
    count = max(_REACHING, ceil(len(levels) / 4))
    level = sorted(levels)[-count] if len(levels) >= count else 0.0
    near = PART_OF_MEDIAN["pair"] * level
    between = sum(_GAP * level <= value < near for value in values)
    if not level or between > _BETWEEN * len(values):
        return line
    middle = line.median if line.median >= near else level
    spread = median([abs(value - middle) for value in values if value >= near]) * _DEVIATIONS
    return FleetLine(max(_FLOOR * middle, line.at_least, min(PART_OF_MEDIAN["pair"] * middle, middle - spread)), middle)


def passing_rate(counts: Counts) -> float:
    """Return the share of values that are low once and not again."""
    return max(_LOWEST_RATE, (counts.passing + 0.5) / (counts.values + _BELIEVED))


def needed(counts: Counts) -> int:
    """Return how many values must be low before a part is named: the more, the more low values have passed."""
    return max(AGREEING, -int(log(_SURE / max(1, counts.values)) // -log(passing_rate(counts))))


def surprise(counts: Counts, low: int, good: int, neighbour_rate: float = 0.0) -> float:
    """Return how many parts of the fleet would be as low if low values only passed, on average.

    `neighbour_rate` is how often values beside the part are low, where that is more often than in the fleet.
    """
    return tail(max(passing_rate(counts), neighbour_rate), low, good) * max(1, counts.values)


def tail(rate: float, low: int, good: int) -> float:
    """Return the chance of `low` or more low values, if each is low at a rate, which is at least 0.001."""
    rate, total = min(1.0, max(_LOWEST_RATE, rate)), low + good
    return sum(comb(total, number) * rate**number * (1 - rate) ** (total - number) for number in range(low, total + 1))
