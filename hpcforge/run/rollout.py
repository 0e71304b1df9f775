"""The rollout policy: canary first, a limit of nodes at a time, a stop after a number of failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hpcforge.plan.rollout_order import Order

TurnEnd = Literal["done", "failed", "deferred", "other"]


@dataclass(frozen=True)
class Begin:
    """What a node may do now: begin, wait, or not begin at all, for this reason."""

    now: bool
    never: str = ""


class Rollout:
    """It gets every start and end, and answers in constant time."""

    def __init__(self, order: Order) -> None:
        self._plan, self._order = order.plan, order
        self._away: set[str] = set()
        self._ended: dict[str, TurnEnd] = {}
        self._failed: list[str] = []
        self._first: dict[str, tuple[str, ...]] = {}  # group -> its canaries, until one of its nodes is deferred

    def begin(self, node: str) -> None:
        """It has begun, or is being emptied. May be said again."""
        if node in self._order.limited and node not in self._ended:
            self._away.add(node)

    def end(self, node: str, how: TurnEnd) -> None:
        """It has no more to do."""
        self._away.discard(node)
        self._ended[node] = how
        if how == "failed":
            self._failed.append(node)
        if how == "deferred":
            self._first.pop(self._group(node), None)

    def may_begin(self, node: str) -> Begin:
        """Whether a node that has not begun may do so."""
        if node not in self._order.held:
            return Begin(True)
        rollout = self._plan.rollout
        if rollout.stop_after_failures is not None and len(self._failed) >= rollout.stop_after_failures:
            return Begin(False, f"stopped after {len(self._failed)} failed: {', '.join(self._failed)}")
        first = self._canaries(self._group(node))
        for canary in first if node not in first else ():
            if canary not in self._ended:
                return Begin(False)
            if self._ended[canary] != "done":
                said = "failed" if self._ended[canary] == "failed" else "was not done"
                return Begin(False, f"its canary {canary} {said}")
        full = rollout.at_most is not None and len(self._away) >= rollout.at_most
        return Begin(not (full and node in self._order.limited))

    def _group(self, node: str) -> str:
        return self._plan.groups.get(node, node)

    def _canaries(self, group: str) -> tuple[str, ...]:
        if group not in self._first:
            deferred = {node for node, how in self._ended.items() if how == "deferred"}
            self._first[group] = self._order.canaries(group, deferred)
        return self._first[group]
