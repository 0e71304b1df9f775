"""Walk the plan: each node at its own pace; a failed node stops only the nodes that need it."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpcforge.engines.tasks import Ansible, Engine, Event, NodeProgram
from hpcforge.plan.admission import has_to_be_asked_again, shortfalls
from hpcforge.plan.plan import Kept, Plan
from hpcforge.plan.rollout_order import Order
from hpcforge.run.reboot import Reboot
from hpcforge.run.result import RoleOutcome, Run, RunResult
from hpcforge.run.rollout import Drain, Resume, Rollout, TurnEnd
from hpcforge.run.stage import FinalCheckStage, FirstContactStage, Stage, removed
from hpcforge.run.stages import Arrive, NodeState, last_look, leaving_stages, stages
from hpcforge.slurm.jobs import asked_for

# Dependencies between roles of nodes, during a run.
Pair = tuple[str, str]  # a role of a node: (node, role)


class RoleDependencies:
    """The needs of a plan. The executor writes `outcomes` (by node and role) meanwhile."""

    def __init__(self, plan: Plan, outcomes: Mapping[str, Mapping[str, RoleOutcome]]) -> None:
        self._plan, self._outcomes = plan, outcomes
        self._needs = {
            (node, step.role): [(provider, need.role) for need in change.needs for provider in need.providers(node)]
            for step in plan.changes.steps
            for node, change in step.changes.items()
        }
        for node, removals in plan.changes.removals.items():
            self._needs |= {
                (node, removed(removal.role)): [(node, removal.role)] for removal in removals if removal.guard
            }

    def of(self, node: str, role: str) -> list[Pair]:
        """Return the needs of a role of a node."""
        return self._needs.get((node, role), [])

    def open(self, pair: Pair) -> bool:
        """Return True while a needed role is unfinished. A role without a change in the plan is finished already."""
        node, role = pair
        return pair in self._needs and role not in self._outcomes[node]

    def lost(self, node: str, role: str, stage: Stage) -> str | None:
        """Return the reason for which a role cannot pass a stage any more; None while it can."""
        return next((reason for reason in map(self._lost, self._before(node, role, stage)) if reason), None)

    def _before(self, node: str, role: str, stage: Stage) -> Iterator[Pair]:
        yield from self.of(node, role)
        controller = self._plan.policy.controller
        if role in stage.barrier and node != controller and (controller, role) in self._needs:
            yield controller, role  # a key that the controller lacks would cut off all nodes

    def _lost(self, pair: Pair) -> str | None:
        node, role = pair
        if node in self._plan.state.unreachable:
            return f"{role} on {node}: {self._plan.state.unreachable[node]}"
        if node in self._plan.state.refused:
            return f"{role} on {node}: {self._plan.state.refused[node]}"
        outcome = self._outcomes.get(node, {}).get(role)
        if outcome is None or outcome.status == "done":
            return None
        return f"{role} on {node} {outcome.status}"


_WAIT_S = 0.5
CLOCK = "clock"  # the role name of a node that is refused because of its clock


@dataclasses.dataclass(frozen=True)
class StartState:
    """The state of nodes before a run, by name.

    `arriving`: nodes that are being installed; the stages of such a node's arrival replace those of the plan.
    """

    facts: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)  # as observed, with GPU drivers
    arriving: Mapping[str, Arrive] = dataclasses.field(default_factory=dict)


_NOTHING_KNOWN = StartState()


def execute(
    plan: Plan,
    secrets: Mapping[str, bytes],
    engine: Engine,
    listen: Callable[[Event], None],
    stop: Callable[[], bool],
    run: Run,
    start: StartState = _NOTHING_KNOWN,
) -> RunResult:
    """Carry out the plan. After `stop()` turns true running stages finish and no other starts.

    `listen` gets every event of the engines, and the executor's own, by kind: "settled" (role, status, detail) when a
    role has ended; "draining" (detail: jobs) when a node is being emptied; "restarting" (detail) during a restart;
    "returned" when a worker is back in service before other nodes begin; "stage" (name, roles; its task) when a node
    begins one; "ended" (status: done, failed, deferred or other) when it has no more.
    """
    walker = _Executor(plan, secrets, engine, listen, run, start)
    walker.start_what_can()
    while walker.busy():
        if not walker.runs():  # roles have one order on all nodes, so this is a bug of hpcforge: never spin on it
            raise RuntimeError(f"stages wait for each other: {walker.waiting()}")
        for event in _next_events(engine, len(walker.nodes)):
            listen(event)
            walker.take(event)
        if stop():
            walker.interrupt()
        walker.start_what_can()
    return walker.result


def _next_events(engine: Engine, most: int) -> Iterator[Event]:
    """Return new events up to a limit; waits a little for the first.

    Scanning for startable nodes is O(n); doing it per event would be O(n^2), so events are batched.
    """
    event = engine.next(_WAIT_S)
    for remaining in reversed(range(most)):
        if event is None:
            return
        yield event
        event = engine.next(0.0) if remaining else None


class _Executor:
    """The state of a run: waiting and running stages, and the outcome of each role."""

    def __init__(
        self,
        plan: Plan,
        secrets: Mapping[str, bytes],
        engine: Engine,
        listen: Callable[[Event], None],
        run: Run,
        start: StartState,
    ) -> None:
        self.plan, self.engine, self.listen, self.start = plan, engine, listen, start
        self.order = Order(plan)
        self.workers = {
            worker.node: worker for worker in plan.policy.declared
        }  # without workers that leave the cluster
        self.turns = Rollout(self.order)
        self.nodes = {
            name: NodeState(name, deque(stages(plan, name, secrets, run)), start.arriving.get(name))
            for name in plan.touched
        }
        self.result = RunResult({name: {} for name in plan.touched}, lost=dict(plan.state.unreachable))
        self.needs = RoleDependencies(plan, self.result.outcomes)
        self.together = {role for node in self.nodes.values() for stage in node.queue for role in stage.barrier}
        self.leaving = {leaver.node: leaver for leaver in plan.changes.leaving}
        self.result.outcomes |= {name: {} for name in plan.state.refused}
        self._settle_refused(plan)
        for leaver in plan.changes.leaving:
            self.result.outcomes[leaver.node] = {}
            self.nodes[leaver.node] = NodeState(leaver.node, deque(leaving_stages(leaver, run)))
            jobs, asking = plan.state.jobs.get(leaver.node, ()), plan.state.asked_for.get(leaver.node, ())
            if leaver.unknown is not None:
                self._end(self.nodes[leaver.node], RoleOutcome("failed", leaver.unknown))
            elif reason := leaver.kept_for(jobs):
                self._end(self.nodes[leaver.node], RoleOutcome("deferred", reason))
            elif asking and leaver.worker:
                self._end(self.nodes[leaver.node], RoleOutcome("deferred", asked_for(leaver.node, asking)))
            elif leaver.unreachable is not None:
                self.result.abandoned[leaver.node] = leaver.unreachable
                self._end(self.nodes[leaver.node], RoleOutcome("unreachable", leaver.unreachable))
        self.open = dict(self.nodes)  # nodes that have not ended
        self.lacking: dict[str, list[str]] = {}  # role with the shape `together` -> nodes without its files yet

    def _settle_refused(self, plan: Plan) -> None:
        """Settle failures before the start: nodes with a wrong clock, and roles with an obstacle."""
        for clock in plan.state.clocks:
            if clock.refused:
                self._settle(clock.node, CLOCK, RoleOutcome("failed", plan.state.refused[clock.node]))
        in_the_way: dict[tuple[str, str], list[str]] = {}
        for obstacle in plan.state.obstacles:
            in_the_way.setdefault((obstacle.node, obstacle.role), []).append(obstacle.said)
        for (name, role), reasons in in_the_way.items():
            self._settle(name, role, RoleOutcome("failed", "; ".join(reasons)))

    def busy(self) -> bool:
        return bool(self.open)

    def runs(self) -> bool:
        return any(node.goes_on for node in self.open.values())

    def waiting(self) -> list[str]:
        return [f"{node.name}: {node.queue[0].roles}" for node in self.nodes.values() if node.queue]

    def interrupt(self) -> None:
        self.result.interrupted = True
        for node in self.nodes.values():
            running = node.running
            if node.back:
                node.back.give_up()
            # an Ansible role may still wait for its play
            if running and isinstance(running.task, Ansible) and self.engine.withdraw(running.task.id):
                node.running = None
                self._settle_all(node.name, running.roles, RoleOutcome("interrupted"))
            for stage in list(node.queue):
                if not stage.confirms:
                    self._settle_all(node.name, stage.roles, RoleOutcome("interrupted"))
                    node.queue.remove(stage)

    def start_what_can(self) -> None:
        """Start the next stage of every idle node whose needs are met; settle roles whose needs have failed."""
        for node in self.open.values():
            self._restart(node)
            self._arrive(node)
        settled = True
        while settled:  # a role skipped on one node may make another node skip it
            settled = False
            self._keep_up()
            for node in tuple(self.open.values()):
                if node.running is None and node.queue and not node.begun:
                    settled |= self._begin(node)
                while node.begun and node.running is None and node.queue:
                    stage = self._without_lost_roles(node)
                    if stage is None:
                        node.queue.popleft()
                        settled = True
                    elif self._waits(node, stage) or self._in_the_way(node, stage):
                        break
                    else:
                        node.queue.popleft()
                        self._start(node, stage)
                self._note(node)

    def _keep_up(self) -> None:
        """Update the records of all nodes."""
        self.lacking = {}
        for node in tuple(self.open.values()):
            self._note(node)
            if node.arrive is not None:  # it has no older files that conflict with new files of other nodes
                continue
            for stage in (*([node.running] if node.running else ()), *node.queue):
                for role in stage.roles if stage.brings_files else ():
                    if role in self.together:
                        self.lacking.setdefault(role, []).append(node.name)

    def _note(self, node: NodeState) -> None:
        """Record the beginning and the end of a node."""
        if node.begun or node.drain:
            self.turns.begin(node.name)
        if node.ended and not self._goes_back(node):
            how = self._how_ended(node)
            self.turns.end(node.name, how)
            del self.open[node.name]
            self.listen(Event(node.name, "", "ended", {"status": how}))

    def _goes_back(self, node: NodeState) -> bool:
        """Return True while a finished worker is being resumed, since others wait for their turn."""
        if node.back is None:
            if not self._may_go_back(node):
                return False
            node.back = Resume(self.engine, self.plan.policy.controller, node.name)
        if not self._in_the_way(node, None):
            node.back.go_on()
        if node.back.resumed:
            self._say(node.name, "returned", "")
        return not node.back.over

    def _may_go_back(self, node: NodeState) -> bool:
        """Return True if it was drained, is done and has no shortfall; else it is judged at the end of the run."""
        waiting = (peer for peer in self.open.values() if peer is not node and not peer.begun)
        if node.drain is None or self.result.interrupted or self._how_ended(node) != "done":
            return False
        if not any(peer.name in self.order.limited for peer in waiting):
            return False
        worker = self.workers.get(node.name)
        if (
            worker is None
            or node.name not in self.result.facts
            or node.name in [o.node for o in self.plan.state.shortfalls]
        ):
            return False
        return not shortfalls(worker, self._facts(node), gpus_ready=True)

    def _facts(self, node: NodeState) -> Mapping[str, Any]:
        """Return its last facts; drivers report only when observed."""
        return {**self.start.facts.get(node.name, {}), **self.result.facts.get(node.name, {})}

    def _start(self, node: NodeState, stage: Stage) -> None:
        node.running, node.errors = stage, {}
        self.listen(Event(node.name, stage.task.id, "stage", {"name": stage.name, "roles": list(stage.roles)}))
        if not stage.restarts:
            self.engine.start(stage.task)
            return
        request = stage.task.request if isinstance(stage.task, NodeProgram) else None
        assert request is not None
        assert request["verb"] == "reboot"

        def say(detail: str) -> None:
            self._say(node.name, "restarting", detail)

        limit_s = self.plan.policy.rollout.reboot_wait_s
        node.reboot = Reboot(self.engine, node.name, request, limit_s, say)

    def _restart(self, node: NodeState) -> None:
        """Continue a node's restart, if there is one."""
        reboot = node.reboot
        if reboot is None:
            return
        reboot.go_on()
        if reboot.state == "waiting":
            return
        node.reboot = None
        if reboot.state == "back":
            self.result.facts[node.name] = reboot.facts
        ended = {"ok": reboot.state == "back", "unreachable": reboot.state == "lost", "error": reboot.detail}
        self._end_stage(node, ended)

    def _arrive(self, node: NodeState) -> None:
        """Have a node begin its roles once it has an operating system, or end where it gets none."""
        arrival = node.arrive() if node.arrive is not None and not node.ended else None
        if arrival is None:
            return
        node.arrive = None
        if arrival.why:
            self.result.lost[node.name] = arrival.why
            self._end(node, RoleOutcome("unreachable", arrival.why))
            return
        before, node.queue = node.roles, deque(arrival.stages)
        dropped = tuple(role for role in before if role not in node.roles)
        self._settle_all(node.name, dropped, RoleOutcome("done"))  # nothing to do after all

    def _waits(self, node: NodeState, stage: Stage) -> bool:
        return any(map(self.needs.open, stage.after)) or self._lacks_files(node, stage)

    def _in_the_way(self, node: NodeState | None, stage: Stage | None) -> bool:
        """Return True while a node that all others need, as the controller or on the way to them, restarts or is
        about to.

        It restarts when nothing else is at work, and nothing else begins until it is back; but pending confirmations
        are sent, or their nodes would revert the changes. Without a stage: whether a node may begin.
        """
        hubs = [self.nodes[name] for name in (self.plan.policy.controller, self.plan.policy.via) if name in self.nodes]
        restarts = any(hub.reboot for hub in hubs if hub is not node)
        if stage is not None and stage.confirms:
            return restarts
        if node in hubs and stage is not None and stage.restarts:
            return any(peer.at_work for peer in self.nodes.values() if peer is not node)
        return restarts or any(self._about_to_restart(hub) for hub in hubs if hub is not node)

    def _about_to_restart(self, hub: NodeState) -> bool:
        next_ = hub.queue[0] if hub.begun and hub.running is None and hub.queue else None
        return next_ is not None and next_.restarts and not self._waits(hub, next_)

    def _begin(self, node: NodeState) -> bool:
        """Let a node begin at its turn, without jobs on it; return True if it will not begin."""
        if node.arrive is not None or self._in_the_way(node, None):
            return False
        if node.name == self.plan.policy.controller and self.leaving and not self._leaving_ended(node):
            return node.ended
        if node.drain is None and node.name not in self.leaving:
            begin = self.turns.may_begin(node.name)
            if begin.never:
                self._end(node, RoleOutcome("skipped", begin.never))
                return True
            if not begin.now:
                return False
        if self._is_empty(node):
            node.begun = True
        return node.ended

    def _leaving_ended(self, controller: NodeState) -> bool:
        """Return True when no leaving node blocks the controller's new configuration."""
        if not all(self.nodes[name].ended for name in self.leaving):
            return False
        for name in self.leaving:
            blocking = [
                o for o in self.result.outcomes[name].values() if o.status in ("deferred", "failed", "interrupted")
            ]
            if blocking:
                self._end(controller, RoleOutcome("deferred", f"{name} has not left: {blocking[0].detail}"))
                return False
        return True

    def _is_empty(self, node: NodeState) -> bool:
        """Return True when the change disturbs no job."""
        if not self._has_to_be_empty(node.name):
            return True
        if node.drain is None:
            reason = "leaves the cluster" if node.name in self.leaving else "is being changed"
            limit_s, leaves = self.plan.policy.rollout.busy_wait_s, node.name in self.leaving
            node.drain = Drain(self.engine, self.plan.policy.controller, node.name, reason, limit_s, leaves)
            node.drain.begin()
            self._say(node.name, "draining", ", ".join(self.plan.state.jobs.get(node.name, ())))
        node.drain.go_on()
        if node.drain.state == "busy":
            self._end(node, RoleOutcome("deferred", node.drain.detail))
        elif node.drain.state == "failed":
            self._end(node, RoleOutcome("failed", node.drain.detail))
        return node.drain.state == "free"

    def _has_to_be_empty(self, node: str) -> bool:
        return self.leaving[node].worker if node in self.leaving else self.order.has_to_be_empty(node)

    def _lacks_files(self, node: NodeState, stage: Stage) -> bool:
        """Return True until all nodes of a role with the shape `together` have their files."""
        return any(name != node.name for role in stage.barrier for name in self.lacking.get(role, ()))

    def _without_lost_roles(self, node: NodeState) -> Stage | None:
        """Return the node's next stage without the roles that cannot be done; None if none is left."""
        stage = node.queue[0]
        for role in stage.roles:
            if role not in self.result.outcomes[node.name]:
                cause = self.needs.lost(node.name, role, stage)
                if cause:
                    self._settle(node.name, role, RoleOutcome("skipped", cause))
        remaining = tuple(role for role in stage.roles if role not in self.result.outcomes[node.name])
        if stage.roles and not remaining:
            return None
        return stage if remaining == stage.roles else stage.only(remaining)

    def take(self, event: Event) -> None:
        """Account for one event."""
        drains = (
            self.nodes.values() if event.node == self.plan.policy.controller else ()
        )  # their commands run on the controller
        if any(node.takes_of_controller(event) for node in drains):
            return
        node = self.nodes.get(event.node)
        if node is not None and node.reboot is not None and node.reboot.take(event):
            return
        if node is None or node.running is None or event.task != node.running.task.id:
            return
        if event.kind == "failed":
            if event.data.get("kind") == "busy":
                self.result.busy[node.name] = str(event.data.get("error"))
            name = event.data.get("name") or ""
            role = node.running.label(str(event.data.get("role")))
            node.errors[role] = f"{name}: {event.data.get('error')}".removeprefix(": ")
        elif event.kind == "changed":
            self.result.changed[node.name] = self.result.changed.get(node.name, 0) + 1
        elif event.kind == "remains":
            stays = (Kept(remnant["kind"], tuple(remnant["names"]), remnant["why"]) for remnant in event.data["stays"])
            self.result.stays[node.name] = (*self.result.stays.get(node.name, ()), *stays)
        elif event.kind == "role_done" and event.data.get("role") in node.running.completes:
            self._settle(node.name, str(event.data["role"]), RoleOutcome("done"))
        elif event.kind == "done" and "memory_kib" in event.data["facts"]:  # first contact ends without facts
            # Only an observation queries the driver: its last answer stays.
            self.result.facts[node.name] = {**self.result.facts.get(node.name, {}), **event.data["facts"]}
        elif event.kind == "result":
            self._end_stage(node, event.data)

    def _end_stage(self, node: NodeState, data: Mapping[str, Any]) -> None:
        stage, node.running = node.running, None
        assert stage is not None
        error = str(data.get("error") or "")
        reason = stage.lost(error) if data.get("unreachable") else None
        if isinstance(stage, FirstContactStage) and not data.get("ok") and not data.get("unreachable"):
            reason = error
        if reason is not None:
            roles = stage.roles[:1] if isinstance(stage, FirstContactStage) else stage.roles
            self._settle_all(node.name, roles, RoleOutcome("failed", reason))
            self._end(node, RoleOutcome("skipped", f"{stage.roles[0]} failed"))
            return
        if data.get("unreachable"):
            self.result.lost[node.name] = error
            node.queue.appendleft(stage)
            self._end(node, RoleOutcome("unreachable", error))
            return
        stray = not data.get("ok") and not any(role in node.errors for role in stage.roles)
        for role in stage.roles:
            if role in node.errors:
                self._settle(node.name, role, RoleOutcome("failed", node.errors[role]))
            elif stray:
                self._settle(node.name, role, RoleOutcome("failed", error or "; ".join(node.errors.values())))
            elif role in stage.completes:
                skipped = [r for r in node.errors if (node.name, r) in self.needs.of(node.name, role)]
                outcome = (
                    RoleOutcome("skipped", f"{skipped[0]} on {node.name} failed") if skipped else RoleOutcome("done")
                )
                self._settle(node.name, role, outcome)
        worker = self.workers.get(node.name)  # its driver may have reported a fault that this stage fixed
        if not node.queue and not isinstance(stage, FinalCheckStage) and worker and not self.result.interrupted:
            node.queue += [last_look(node.name)] if has_to_be_asked_again(worker, self._facts(node)) else []

    def _how_ended(self, node: NodeState) -> TurnEnd:
        outcomes = self.result.outcomes[node.name].values()
        if all(outcome.status == "done" for outcome in outcomes):
            return "done"
        if any(outcome.status == "deferred" for outcome in outcomes):
            return "deferred"
        return "failed" if any(outcome.status in ("failed", "unreachable") for outcome in outcomes) else "other"

    def _end(self, node: NodeState, outcome: RoleOutcome) -> None:
        """Give the node's remaining roles this outcome."""
        self._settle_all(node.name, tuple(node.roles), outcome)
        node.queue.clear()
        node.begun = True

    def _settle_all(self, node: str, roles: tuple[str, ...], outcome: RoleOutcome) -> None:
        for role in roles:
            self._settle(node, role, outcome)

    def _settle(self, node: str, role: str, outcome: RoleOutcome) -> None:
        """Record the first outcome of a role; a later failure replaces "done"."""
        previous = self.result.outcomes[node].get(role)
        if previous is None or (previous.status == "done" and outcome.status == "failed"):
            self.result.outcomes[node][role] = outcome
            self.listen(Event(node, "", "settled", {"role": role, **dataclasses.asdict(outcome)}))

    def _say(self, node: str, kind: str, detail: str) -> None:
        self.listen(Event(node, "", kind, {"detail": detail}))
