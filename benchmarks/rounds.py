"""Compare programs on a machine whose speed changes: they take turns, and each is divided by its neighbours.

A round runs a base, a program, the base again, the next program, and so on. A ratio is the median of a program's
rounds, each divided by the mean of the base before and after it. Where these two differ by more than a tenth, in the
field that is compared, the round says nothing and is repeated, up to a bound. Decisive is that the same commit against
itself gives 1.00.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

STEADY = 1.1  # the most by which the base before and after a program may differ, as a ratio
_REPEATS = 1  # of each round at most


@dataclass(frozen=True)
class Cost:
    """What one run took: wall and CPU seconds, the memory of all its processes at its highest, MiB.

    `nodes_cpu_s` is what nodes spent on it, all together: unlike wall, it hardly depends on what else this machine
    does. `processes` is how many of them there were at most.
    """

    wall_s: float
    cpu_s: float
    memory_mib: float
    nodes_cpu_s: float = 0.0
    processes: int = 0


@dataclass(frozen=True)
class Spread:
    """A median with its lowest and highest, and how many values there were."""

    median: float
    lowest: float
    highest: float
    values: int

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f} to {self.highest:.2f})"


@dataclass
class Compared:
    """The runs of one program, each with the base beside it; `unsteady` counts runs whose bases differed."""

    runs: list[Cost] = field(default_factory=list)
    bases: list[Cost] = field(default_factory=list)
    unsteady: int = 0

    def ratio(self, name: str) -> Spread:
        """Return how many times a cost's field is that of the base."""
        pairs = zip(self.runs, self.bases, strict=True)
        return spread([getattr(run, name) / (getattr(base, name) or 1e-9) for run, base in pairs])

    def spread(self, name: str) -> Spread:
        """Return a cost's field as it is."""
        return spread([getattr(run, name) for run in self.runs])

    def median(self) -> Cost:
        return median(self.runs)

    def base(self) -> Cost:
        return median(self.bases)


def spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values), len(values))


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each field."""
    return Cost(**{one.name: statistics.median(getattr(cost, one.name) for cost in costs) for one in fields(Cost)})


def compare(
    base: Callable[[], Cost], programs: Mapping[str, Callable[[], Cost]], rounds: int, by: str = "wall_s"
) -> dict[str, Compared]:
    """Run the programs in turn with the base, `rounds` steady times each, at most twice as often.

    `by` is the field in which the base before and after a program must agree. Where a program had no steady round at
    all, its unsteady ones count: a machine that is never quiet has a wide ratio rather than none.
    """
    compared = {name: Compared() for name in programs}
    shaken = {name: Compared() for name in programs}
    before = base()
    for _ in range(rounds * (1 + _REPEATS)):
        for name, program in programs.items():
            if len(compared[name].runs) == rounds:
                continue
            run, after = program(), base()
            low, high = sorted((getattr(before, by), getattr(after, by)))
            kept = compared[name] if high <= STEADY * low else shaken[name]
            kept.runs.append(run)
            kept.bases.append(_mean(before, after))
            before = after
    for name, one in compared.items():
        one.unsteady = len(shaken[name].runs)
        if not one.runs:
            one.runs, one.bases = shaken[name].runs, shaken[name].bases
    return compared


def _mean(one: Cost, other: Cost) -> Cost:
    return median([one, other])
