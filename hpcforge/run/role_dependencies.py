"""What the roles of nodes need of each other, while a plan is walked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcforge.plan.plan import Plan
from hpcforge.run.result import RoleOutcome
from hpcforge.run.stage import Stage, removed

Pair = tuple[str, str]  # a role of a node: (node, role)


class RoleDependencies:
    """The needs of a plan; `outcomes`, by node and role, is read as the walk writes it."""

    def __init__(self, plan: Plan, outcomes: Mapping[str, Mapping[str, RoleOutcome]]) -> None:
        self._plan, self._outcomes = plan, outcomes
        self._needs = {
            (node, step.role): [(other, need.role) for need in change.needs for other in need.nodes]
            for step in plan.steps
            for node, change in step.changes.items()
        }
        for node, removals in plan.removals.items():
            self._needs |= {
                (node, removed(removal.role)): [(node, removal.role)] for removal in removals if removal.guard
            }

    def of(self, node: str, role: str) -> list[Pair]:
        """What a role of a node needs."""
        return self._needs.get((node, role), [])

    def open(self, pair: Pair) -> bool:
        """True while a needed role is still to be done. A role without a change in the plan is done already."""
        node, role = pair
        return pair in self._needs and role not in self._outcomes[node]

    def lost(self, node: str, role: str, stage: Stage) -> str | None:
        """Why a role cannot go through a stage any more; None while it can."""
        return next((why for why in map(self._lost, self._before(node, role, stage)) if why), None)

    def _before(self, node: str, role: str, stage: Stage) -> Iterator[Pair]:
        yield from self.of(node, role)
        controller = self._plan.controller
        if role in stage.barrier and node != controller and (controller, role) in self._needs:
            yield controller, role  # a key that the controller has not got would cut everybody off

    def _lost(self, pair: Pair) -> str | None:
        node, role = pair
        if node in self._plan.unreachable:
            return f"{role} on {node}: {self._plan.unreachable[node]}"
        if node in self._plan.refused:
            return f"{role} on {node}: {self._plan.refused[node]}"
        outcome = self._outcomes.get(node, {}).get(role)
        if outcome is None or outcome.status == "done":
            return None
        return f"{role} on {node} {outcome.status}"
