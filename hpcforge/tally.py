"""Progress of work with many parts: the number of ended parts, the longest active one, and the remaining time.

The tally estimates the time left after a third of the work, by weight (1 for each part, unless a caller has a better
one, such as the seconds of an earlier run). The estimate is the mean time of the ended parts for each unit of weight,
times the remaining weight, less the time that parts have been at work, divided by the number of parallel parts. Between
two parts it only falls. At zero the parts take longer than those before, and there is no number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Lock

Parts = Collection[str] | Mapping[str, float] | int  # names, names with weights, or a number of nameless parts
Report = Callable[[str, str], None]
_FIRST = 3  # no estimate before 1/3 of the work
_REPORT_S = 1.0  # between two reports of nameless parts
_SHORTEST_S = 1.0  # a shorter estimate counts as zero


@dataclass(frozen=True)
class Standing:
    """The state of a tally. `left_s`: None before the first third, 0 if parts take longer than earlier ones."""

    phase: str
    done: int
    total: int
    longest: str | None = None
    longest_s: float | None = None
    left_s: float | None = None


class Tally:
    """Counts the parts of one phase; threads may share it."""

    def __init__(self, name: str, parts: Parts, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._clock, self._lock = name, clock, Lock()
        self._reports: list[Report] = []
        self._weights = dict(parts) if isinstance(parts, Mapping) else {}
        if isinstance(parts, int):
            self._nameless = parts
        else:
            self._nameless, self._weights = 0, self._weights or dict.fromkeys(parts, 1.0)
        self._began_s = self._reached_s = self._reported_s = clock()
        self._reached = self._width = 0
        self._at_work: dict[str, float] = {}
        self._ended: dict[str, float | None] = {}  # seconds; None for a part that did not start

    @property
    def names(self) -> Collection[str]:
        """The named parts."""
        with self._lock:
            return tuple(self._weights)

    def watch(self, report: Report) -> None:
        """Call `report` after each change, with the part and `added`, `begun`, `done` or `failed`.

        Both are "" for nameless parts.
        """
        self._reports.append(report)

    def add(self, part: str) -> None:
        """Add a part; nothing changes if it exists."""
        with self._lock:
            if part in self._weights:
                return
            self._weights[part] = 1.0
        self._changed(part, "added")

    def begin(self, part: str) -> None:
        """Note that a part is at work, also a repeated one; nothing changes if it is at work already."""
        self.add(part)
        with self._lock:
            if part in self._at_work:
                return
            self._ended.pop(part, None)
            self._at_work[part] = self._clock()
            self._width = max(self._width, len(self._at_work))
        self._changed(part, "begun")

    def end(self, part: str, *, failed: bool = False) -> None:
        """Note that a part has ended; nothing changes if it had ended before."""
        with self._lock:
            if part in self._ended:
                return
            began_s = self._at_work.pop(part, None)
            self._ended[part] = None if began_s is None else self._clock() - began_s
        self._changed(part, "failed" if failed else "done")

    def reach(self, ended: int) -> None:
        """Note how many nameless parts have ended; reports once a second."""
        with self._lock:
            now_s = self._clock()
            if ended > self._reached:
                self._reached, self._reached_s = min(ended, self._nameless), now_s
            if now_s - self._reported_s < _REPORT_S:
                return
            self._reported_s = now_s
        self._changed("", "")

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the work inside the context as this part."""
        self.begin(name)
        try:
            yield
        except BaseException:
            self.end(name, failed=True)
            raise
        self.end(name)

    def standing(self) -> Standing:
        """Return the state at this moment."""
        with self._lock:
            now_s = self._clock()
            ended, total = len(self._ended) + self._reached, len(self._weights) + self._nameless
            longest = min(self._at_work, key=self._at_work.__getitem__, default=None)
            longest_s = None if longest is None else round(now_s - self._at_work[longest], 1)
            left_s = self._nameless_left_s(now_s) if self._nameless else self._named_left_s(now_s)
        return Standing(self.name, ended, total, longest, longest_s, left_s)

    def _changed(self, part: str, state: str) -> None:
        for report in self._reports:  # without the lock: a report may read the tally
            report(part, state)

    def _nameless_left_s(self, now_s: float) -> float | None:
        if self._reached * _FIRST < self._nameless or self._reached == self._nameless:
            return None
        each_s = (self._reached_s - self._began_s) / self._reached
        return _shown(each_s * (self._nameless - self._reached) - (now_s - self._reached_s))

    def _named_left_s(self, now_s: float) -> float | None:
        ended = sum(self._weights[part] for part in self._ended)
        timed = {part: seconds for part, seconds in self._ended.items() if seconds is not None}
        weight = sum(self._weights[part] for part in timed)
        if not weight or ended * _FIRST < sum(self._weights.values()) or len(self._ended) == len(self._weights):
            return None
        each_s = sum(timed.values()) / weight
        running = [max(0.0, each_s * self._weights[part] - (now_s - began)) for part, began in self._at_work.items()]
        waiting = sum(
            weight for part, weight in self._weights.items() if part not in self._ended and part not in self._at_work
        )
        return _shown(max([*running, (sum(running) + each_s * waiting) / max(1, self._width)]))


Tallies = Callable[[str, Parts], AbstractContextManager[Tally]]


@contextmanager
def silent(name: str, parts: Parts) -> Iterator[Tally]:
    """Yield a tally without reports."""
    yield Tally(name, parts)


def left_text(left_s: float | None) -> str:
    """Return an estimate in words: "" for None."""
    if left_s is None:
        return ""
    if not left_s:
        return "longer than expected"
    return "less than a minute left" if left_s < 60 else f"about {-(-left_s // 60):.0f} min left"


def _shown(seconds: float) -> float:
    return round(seconds, 1) if seconds >= _SHORTEST_S else 0.0
