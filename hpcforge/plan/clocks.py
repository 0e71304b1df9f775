"""Nodes with a wrong clock, and the work that waits until it is right. Pure.

Slurm's daemons use credentials that are invalid if clocks differ by minutes. munge then reports an authentication
error, which does not lead to the clock. So hpcforge checks clocks first (decision 14).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

NOTED_S = 1.0  # chrony is a thousand times better in a cluster
REFUSED_S = 60.0  # munge fails from 300 s on; submitted jobs fail long before
# Beyond these limits a clock must be set before packages are fetched: apt rejects a Release file from the future
# (apt.conf(5), Acquire::Max-FutureTime), and sources get one every few hours. Ahead, lists and certificates expire.
BEHIND_S, AHEAD_S = 3600.0, 86_400.0
THIS_HOST = "this host"


class Span(NamedTuple):
    """The seconds that a clock is ahead of another: between `low` and `high`.

    Between a node and this host, `low` is the closer bound: only the network delays the node's answer, but its program
    has to start before it reads the time for `high`.
    """

    low: float
    high: float

    def against(self, reference: Span) -> Span:
        """Return the span ahead of another clock that was compared with the same one."""
        return Span(self.low - reference.high, self.high - reference.low)

    @property
    def certain_s(self) -> float:
        """The smallest error, s; 0 where the clock may be right."""
        return self.low if self.low > 0 else self.high if self.high < 0 else 0.0


SAME = Span(0.0, 0.0)


@dataclass(frozen=True)
class ClockOff:
    """A node with a wrong clock. `sets_it`: a planned change sets the clock."""

    node: str
    off_s: float  # ahead of `of`; negative: behind
    of: str  # a node, or THIS_HOST
    far: bool  # from REFUSED_S
    sets_it: bool
    fetches: bool = False  # it fetches packages before

    @property
    def stops_fetching(self) -> bool:
        """Whether the node cannot fetch packages, among them the one that sets the clock."""
        return self.fetches and not -BEHIND_S < self.off_s < AHEAD_S

    @property
    def refused(self) -> bool:
        """Whether hpcforge changes nothing on the node."""
        return self.far and (self.stops_fetching or not self.sets_it)

    @property
    def command(self) -> str:
        """The command that sets the clock at any time; for root on the node."""
        return f"date -s '{abs(self.off_s):.0f} seconds{' ago' if self.off_s > 0 else ''}'"

    @property
    def said(self) -> str:
        """The error in words."""
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
            judged = name != head or reference == THIS_HOST  # with two clocks, the right one is unknown
            far = judged and abs(certain_s) >= REFUSED_S
            wrong.append(ClockOff(name, off_s, theirs, far, name in setting, name in fetching))
    return tuple(wrong)


def _reference(clocks: Mapping[str, Span], head: str) -> str:
    """Return the reference: the head, whose clock the others follow, unless most agree with this host against it."""
    if head not in clocks:
        return THIS_HOST
    if abs(clocks[head].certain_s) < REFUSED_S:
        return head
    others = [span for name, span in clocks.items() if name != head]
    with_us = sum(abs(span.certain_s) < REFUSED_S for span in others)
    with_head = sum(abs(span.against(clocks[head]).certain_s) < REFUSED_S for span in others)
    return THIS_HOST if with_us > with_head else head
