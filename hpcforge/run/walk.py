"""Walk the plan: each node at its own pace, and a node that fails stops only what needs it."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcforge.engines.tasks import Engine, Event, Program
from hpcforge.plan.plan import Plan
from hpcforge.run.stages import Stage, stages

Status = Literal["done", "failed", "skipped", "unreachable", "interrupted"]
_WAIT_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """How one role ended on one node."""

    status: Status
    detail: str = ""


@dataclass
class Result:
    """How a run ended: per node and role, which nodes were lost, and the facts they gave last."""

    outcomes: dict[str, dict[str, Outcome]]
    lost: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    def failed(self) -> dict[str, list[tuple[str, str]]]:
        """Role and reason by node, of what failed of itself (not of what was skipped for it)."""
        found: dict[str, list[tuple[str, str]]] = {}
        for node, roles in self.outcomes.items():
            for role, outcome in roles.items():
                if outcome.status == "failed":
                    found.setdefault(node, []).append((role, outcome.detail))
        return found


@dataclass
class _Node:
    name: str
    queue: deque[Stage]
    running: Stage | None = None
    errors: dict[str, str] = field(default_factory=dict)  # by role, of the running stage


def walk(
    plan: Plan,
    secrets: Mapping[str, bytes],
    engine: Engine,
    listen: Callable[[Event], None],
    stop: Callable[[], bool],
) -> Result:
    """Do everything in the plan. `stop()` turning true lets running stages finish and starts no more.

    `listen` gets every event of the engines, and one of kind "settled" (role, status, detail) when a role has ended.
    """
    walker = _Walker(plan, secrets, engine, listen)
    walker.start_what_can()
    while walker.busy():
        if not walker.runs():  # roles come in one order on all nodes, so this is a fault of ours: never spin on it
            raise RuntimeError(f"stages wait for each other: {walker.waiting()}")
        event = engine.next(_WAIT_S)
        if event is not None:
            listen(event)
            walker.take(event)
        if stop():
            walker.interrupt()
        walker.start_what_can()
    return walker.result


class _Walker:
    """The state of a walk: what waits, what runs, how each role ended."""

    def __init__(
        self, plan: Plan, secrets: Mapping[str, bytes], engine: Engine, listen: Callable[[Event], None]
    ) -> None:
        self.plan, self.engine, self.listen = plan, engine, listen
        self.needs = {
            (node, role): [(other, need.role) for need in change.needs for other in need.nodes]
            for step in plan.steps
            for role in [step.role]
            for node, change in step.changes.items()
        }
        self.nodes = {name: _Node(name, deque(stages(plan, name, secrets))) for name in plan.touched}
        self.result = Result({name: {} for name in plan.touched}, lost=dict(plan.unreachable))

    def busy(self) -> bool:
        return any(node.running or node.queue for node in self.nodes.values())

    def runs(self) -> bool:
        return any(node.running for node in self.nodes.values())

    def waiting(self) -> list[str]:
        return [f"{node.name}: {node.queue[0].roles}" for node in self.nodes.values() if node.queue]

    def interrupt(self) -> None:
        self.result.interrupted = True
        for node in self.nodes.values():
            for stage in node.queue:
                for role in stage.roles:
                    self._settle(node.name, role, Outcome("interrupted"))
            node.queue.clear()

    def start_what_can(self) -> None:
        """Start the next stage of every idle node whose needs are met; settle roles whose needs have failed."""
        settled = True
        while settled:  # a role that is skipped on one node may let another node see that it must skip too
            settled = False
            for node in self.nodes.values():
                while node.running is None and node.queue:
                    stage = self._without_lost_roles(node)
                    if stage is None:
                        node.queue.popleft()
                        settled = True
                    elif any(self._open(pair) for pair in stage.after):
                        break
                    else:
                        node.queue.popleft()
                        node.running, node.errors = stage, {}
                        self.engine.start(stage.task)

    def _without_lost_roles(self, node: _Node) -> Stage | None:
        """The node's next stage less the roles that cannot be done; None if none is left."""
        stage = node.queue[0]
        for role in stage.roles:
            if role not in self.result.outcomes[node.name]:
                cause = next((why for why in map(self._lost, self.needs[node.name, role]) if why), None)
                if cause:
                    self._settle(node.name, role, Outcome("skipped", cause))
        left = tuple(role for role in stage.roles if role not in self.result.outcomes[node.name])
        if stage.roles and not left:
            return None
        return stage if left == stage.roles else _narrowed(stage, left)

    def _open(self, pair: tuple[str, str]) -> bool:
        """True while a needed role is still to be done. A role without a change in the plan is done already."""
        node, role = pair
        return pair in self.needs and role not in self.result.outcomes[node]

    def _lost(self, pair: tuple[str, str]) -> str | None:
        node, role = pair
        if node in self.plan.unreachable:
            return f"{role} on {node}: {self.plan.unreachable[node]}"
        outcome = self.result.outcomes.get(node, {}).get(role)
        if outcome is None or outcome.status == "done":
            return None
        return f"{role} on {node} {outcome.status}"

    def take(self, event: Event) -> None:
        """Account for one event."""
        node = self.nodes.get(event.node)
        if node is None or node.running is None or event.task != node.running.task.id:
            return
        if event.kind == "failed":
            named = event.data.get("name") or ""
            node.errors[str(event.data.get("role"))] = f"{named}: {event.data.get('error')}".removeprefix(": ")
        elif event.kind == "changed":
            self.result.changed[node.name] = self.result.changed.get(node.name, 0) + 1
        elif event.kind == "role_done" and event.data.get("role") in node.running.completes:
            self._settle(node.name, str(event.data["role"]), Outcome("done"))
        elif event.kind == "done" and "facts" in event.data:
            self.result.facts[node.name] = event.data["facts"]
        elif event.kind == "result":
            self._end_stage(node, event.data)

    def _end_stage(self, node: _Node, data: Mapping[str, Any]) -> None:
        stage, node.running = node.running, None
        assert stage is not None
        error = str(data.get("error") or "")
        if data.get("unreachable"):
            self.result.lost[node.name] = error
            for role in [role for queued in (stage, *node.queue) for role in queued.roles]:
                self._settle(node.name, role, Outcome("unreachable", error))
            node.queue.clear()
            return
        stray = not data.get("ok") and not any(role in node.errors for role in stage.roles)
        for role in stage.roles:
            if role in node.errors:
                self._settle(node.name, role, Outcome("failed", node.errors[role]))
            elif stray:
                self._settle(node.name, role, Outcome("failed", error or "; ".join(node.errors.values())))
            elif role in stage.completes:
                skipped = [r for r in node.errors if (node.name, r) in self.needs[node.name, role]]
                done = Outcome("skipped", f"{skipped[0]} on {node.name} failed") if skipped else Outcome("done")
                self._settle(node.name, role, done)

    def _settle(self, node: str, role: str, outcome: Outcome) -> None:
        """The first word on a role stands, but for a failure that shows after it was done."""
        known = self.result.outcomes[node].get(role)
        if known is None or (known.status == "done" and outcome.status == "failed"):
            self.result.outcomes[node][role] = outcome
            self.listen(Event(node, "", "settled", {"role": role, **dataclasses.asdict(outcome)}))


def _narrowed(stage: Stage, roles: tuple[str, ...]) -> Stage:
    """The stage for fewer roles."""
    task = stage.task
    if isinstance(task, Program) and "work" in task.request:
        request = {**task.request, "work": [one for one in task.request["work"] if one["role"] in roles]}
        task = dataclasses.replace(task, request=request)
    return dataclasses.replace(
        stage, roles=roles, task=task, completes=tuple(role for role in stage.completes if role in roles)
    )
