"""Nodes with a wrong clock, and the work that waits until it is right. Pure.

Slurm's daemons use credentials that are invalid if clocks differ by minutes. munge then reports an authentication
error, which does not lead to the clock. So hpcforge checks clocks first (decision 14).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NOTED_S = 1.0  # what chrony keeps in a cluster is a thousand times better
REFUSED_S = 60.0  # munge gives up at 300 s; by then a job that was submitted has long begun to fail
# With packages to fetch, a clock further off has to be set first: apt takes no Release file from the future
# (apt.conf(5), Acquire::Max-FutureTime), and sources get one every few hours. Ahead, lists and certificates expire.
BEHIND_S, AHEAD_S = 3600.0, 86_400.0
THIS_HOST = "this host"


class Span(NamedTuple):
    """How far a clock is ahead of another, s: not less than `low`, not more than `high`.

    Of a node against this host, `low` is the closer bound: between its answer and our hearing it lies only the network,
    but its program has to start before it can tell the time that belongs to `high`.
    """

    low: float
    high: float

    def against(self, reference: Span) -> Span:
        """How far it is ahead of another clock that was compared with the same one."""
        return Span(self.low - reference.high, self.high - reference.low)

    @property
    def certain_s(self) -> float:
        """By how much it is wrong at least; 0 where it may be right."""
        return self.low if self.low > 0 else self.high if self.high < 0 else 0.0


SAME = Span(0.0, 0.0)


@dataclass(frozen=True)
class ClockOff:
    """A node whose clock is not that of the others. `sets_it`: what is to be done there sets the clock, so it is."""

    node: str
    off_s: float  # ahead of `of`; negative: behind
    of: str  # a node, or THIS_HOST
    far: bool  # from REFUSED_S
    sets_it: bool
    fetches: bool = False  # packages are to be fetched there before

    @property
    def stops_fetching(self) -> bool:
        """Packages cannot be fetched there, among them those that would set the clock."""
        return self.fetches and not -BEHIND_S < self.off_s < AHEAD_S

    @property
    def refused(self) -> bool:
        """Nothing is done there."""
        return self.far and (self.stops_fetching or not self.sets_it)

    @property
    def command(self) -> str:
        """Set the clock, whenever it is run; as root on the node."""
        return f"date -s '{abs(self.off_s):.0f} seconds{' ago' if self.off_s > 0 else ''}'"

    @property
    def said(self) -> str:
        """What is wrong, in words."""
        amount = f"{abs(self.off_s):.1f}" if abs(self.off_s) < 10 else f"{abs(self.off_s):,.0f}"
        return f"its clock is {amount} s {'ahead of' if self.off_s > 0 else 'behind'} that of {self.of}"


def clocks_off(
    clocks: Mapping[str, Span], head: str, setting: Container[str], fetching: Container[str] = ()
) -> tuple[ClockOff, ...]:
    """Return the nodes with wrong clocks, the `head` first. `clocks`: by node, against this host's.

    `setting`: nodes with a change that sets the clock, as the first apply does; `fetching`: nodes that fetch packages.
    """
    reference = _reference(clocks, head)
    wrong = []
    for name in sorted(clocks, key=lambda name: name != head):
        mine, theirs = clocks[name], THIS_HOST if name == head else reference
        base = SAME if theirs == THIS_HOST else clocks[theirs]
        certain_s, off_s = mine.against(base).certain_s, mine.low - base.low
        if certain_s and abs(off_s) > NOTED_S:
            judged = name != head or reference == THIS_HOST  # nobody can tell which of just two clocks is right
            far = judged and abs(certain_s) >= REFUSED_S
            wrong.append(ClockOff(name, off_s, theirs, far, name in setting, name in fetching))
    return tuple(wrong)


def _reference(clocks: Mapping[str, Span], head: str) -> str:
    """Whose clock counts: the head's, which the others follow, unless most of them agree with this host against it."""
    if head not in clocks:
        return THIS_HOST
    if abs(clocks[head].certain_s) < REFUSED_S:
        return head
    others = [span for name, span in clocks.items() if name != head]
    with_us = sum(abs(span.certain_s) < REFUSED_S for span in others)
    with_head = sum(abs(span.against(clocks[head]).certain_s) < REFUSED_S for span in others)
    return THIS_HOST if with_us > with_head else head
