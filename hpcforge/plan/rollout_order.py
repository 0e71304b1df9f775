"""The order of nodes: waiting nodes, canaries, and nodes that must be empty. Pure.

Only nodes in service wait: the others have no jobs yet. A node that others need starts at once, as do nodes with a
change that must happen everywhere together: a delay would block all nodes.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcforge.plan.plan import Plan


@dataclass(frozen=True)
class Order:
    """The order of a plan's nodes."""

    plan: Plan

    @cached_property
    def held(self) -> frozenset[str]:
        """Nodes that have to wait for their turn."""
        if not self._in_service:
            return frozenset()
        needed = {
            name
            for step in self.plan.changes.steps
            for node, change in step.changes.items()
            for need in change.needs
            for name in need.nodes
            if name != node
        }
        at_once = needed | self.plan.changes.together
        return frozenset(node for node in self.plan.touched if node in self._in_service and node not in at_once)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Group -> its held nodes. Nodes without jobs come first, since they need not wait."""
        groups: dict[str, list[str]] = {}
        for node in sorted((n for n in self.plan.touched if n in self.held), key=lambda n: n in self.plan.state.jobs):
            groups.setdefault(self.plan.policy.groups.get(node, node), []).append(node)
        return {group: tuple(nodes) for group, nodes in groups.items()}

    def canaries(self, group: str, deferred: Container[str] = ()) -> tuple[str, ...]:
        """Return the first nodes to change; none in a group with no further nodes. A deferred node is not a canary."""
        nodes = [node for node in self.groups.get(group, ()) if node not in deferred]
        count = self.plan.policy.rollout.canary
        return tuple(nodes[:count]) if len(nodes) > count else ()

    @cached_property
    def _in_service(self) -> frozenset[str]:
        return frozenset(self.plan.state.in_service)

    @cached_property
    def _workers(self) -> frozenset[str]:
        return frozenset(worker.node for worker in self.plan.policy.declared)

    @cached_property
    def limited(self) -> frozenset[str]:
        """Held workers. `rollout.at_most` limits their number out of service."""
        return self.held & self._workers

    def has_to_be_empty(self, node: str) -> bool:
        """Return whether the change disturbs jobs: running jobs must end before, and no others may start."""
        has_jobs = self.plan.policy.scheduler is not None and node in self._workers
        at_stake = node in self._in_service or node in self.plan.state.jobs
        return has_jobs and at_stake and self.plan.changes.disruption(node) in ("drain", "reboot")
