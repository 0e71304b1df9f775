"""Which node may begin: canary first, so many at a time, an end after so many failures. Pure.

Only nodes in service are held back: nobody works on the others yet. A node that others need goes at once, as do nodes
with a change that has to happen everywhere together: holding those back would hold everybody.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hpcforge.plan.plan import Plan

Ended = Literal["done", "failed", "other"]


@dataclass(frozen=True)
class Begin:
    """What a node may do now: begin, wait, or not begin at all, for this reason."""

    now: bool
    never: str = ""


@dataclass(frozen=True)
class Order:
    """The order of a plan's nodes."""

    plan: Plan

    @cached_property
    def held(self) -> frozenset[str]:
        """Nodes that have to wait for their turn."""
        needed = {
            other
            for step in self.plan.steps
            for node, change in step.changes.items()
            for need in change.needs
            for other in need.nodes
            if other != node
        }
        service = set(self.plan.in_service)
        return frozenset(n for n in self.plan.touched if n in service and n not in needed | self.plan.together)

    @cached_property
    def canaries(self) -> Mapping[str, tuple[str, ...]]:
        """Group -> the nodes that go first; none where a group has no others to be spared."""
        groups: dict[str, list[str]] = {}
        for node in self.plan.touched:
            if node in self.held:
                groups.setdefault(self.plan.groups.get(node, node), []).append(node)
        count = self.plan.rollout.canary
        return {group: tuple(nodes[:count]) for group, nodes in groups.items() if count and len(nodes) > count}

    @cached_property
    def _workers(self) -> frozenset[str]:
        return frozenset(worker.node for worker in self.plan.declared)

    def may_begin(self, node: str, begun: Set[str], ended: Mapping[str, Ended]) -> Begin:
        """Whether a node that has not begun may do so, given which have begun and how nodes ended."""
        if node not in self.held:
            return Begin(True)
        rollout = self.plan.rollout
        failed = [name for name, how in ended.items() if how == "failed"]
        if rollout.stop_after_failures is not None and len(failed) >= rollout.stop_after_failures:
            return Begin(False, f"stopped after {len(failed)} failed: {', '.join(failed)}")
        first = self.canaries.get(self.plan.groups.get(node, node), ())
        for canary in first if node not in first else ():
            if canary not in ended:
                return Begin(False)
            if ended[canary] != "done":
                said = "failed" if ended[canary] == "failed" else "was not done"
                return Begin(False, f"its canary {canary} {said}")
        if rollout.at_most is not None and node in self._workers:
            away = sum(1 for name in begun if name in self._workers and name in self.held and name not in ended)
            if away >= rollout.at_most:
                return Begin(False)
        return Begin(True)
