"""The stages of a plan for each node, one after the other."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpcforge.engines.tasks import Ansible, Bootstrap, Deploy, Event, NodeProgram
from hpcforge.kinds import KINDS
from hpcforge.kinds.associations import Association
from hpcforge.kinds.files import File
from hpcforge.node import requests
from hpcforge.plan.plan import Change, Leaving, OpaqueChange, Plan, Removal, ResourceChange
from hpcforge.run.reboot import Reboot
from hpcforge.run.requests import check, less, listens, old_state, owns, put, units
from hpcforge.run.result import Run
from hpcforge.run.rollout import Drain, Resume
from hpcforge.run.stage import (
    ActivateStage,
    ConfirmStage,
    DownloadsStage,
    FilesStage,
    FinalCheckStage,
    FirstContactStage,
    OpaqueStage,
    RebootStage,
    RemovalStage,
    Stage,
    removed,
)
from hpcforge.secrets.secret_files import Contents

_PREPARE_TIMEOUT_S = 3600.0  # packages from a slow mirror
_FINISH_TIMEOUT_S = 900.0
_OPAQUE_TIMEOUT_S = 3600.0
_LOOK_TIMEOUT_S = 120.0  # the node gives up a hanging driver after 30 s
_CONFIRM_S = 30.0  # at least; else as long as the node waits before it reverts
_BACK_S = 120.0  # for an unreachable node to revert a change


@dataclass(frozen=True)
class Arrival:
    """The end of a node's installation: the stages of its roles, or `why` it has no operating system."""

    stages: tuple[Stage, ...] = ()
    why: str = ""


Arrive = Callable[[], Arrival | None]  # None: it is still being installed


@dataclass
class NodeState:
    """The remaining and running work of a node."""

    name: str
    queue: deque[Stage]
    arrive: Arrive | None = None  # while it gets its operating system
    begun: bool = False
    drain: Drain | None = None
    reboot: Reboot | None = None  # while the running stage is one
    back: Resume | None = None  # while it returns to service, before other nodes begin
    running: Stage | None = None
    errors: dict[str, str] = field(default_factory=dict)  # by role, of the running stage

    @property
    def ended(self) -> bool:
        """True when nothing is left to do there."""
        return self.running is None and not self.queue

    @property
    def roles(self) -> list[str]:
        """The roles that are still to be done, in order."""
        waiting = [role for stage in self.queue for role in stage.roles]
        return list(dict.fromkeys([*(self.running.roles if self.running else ()), *waiting]))

    @property
    def goes_on(self) -> bool:
        """True while a running part will end without further action."""
        emptied = self.drain is not None and self.drain.state == "waiting"
        returns = self.back is not None and not self.back.over
        return self.running is not None or emptied or returns or self.arrive is not None

    @property
    def at_work(self) -> bool:
        """True while it runs work that must not lose its controller or its connection."""
        confirms = bool(self.queue) and self.queue[0].confirms
        asking = any(step is not None and step.asking for step in (self.drain, self.back))
        return self.running is not None or confirms or asking

    def takes_of_controller(self, event: Event) -> bool:
        """Account for an event of the controller; return True if it answers a question about this node."""
        return any(step is not None and step.take(event) for step in (self.drain, self.back))


def stages(plan: Plan, node: str, secrets: Mapping[str, bytes], run: Run) -> tuple[Stage, ...]:
    """Return the stages of a node, in order. Only contents of files use `secrets`."""
    changes = {step.role: step.changes[node] for step in plan.changes.steps if node in step.changes}
    chain: list[Stage] = []
    removals = plan.changes.removals.get(node, ())
    associations = [removal for removal in removals if Association.kind in removal.owns.resources]
    free = [removal for removal in removals if not removal.guard and removal not in associations]
    if free:
        chain.append(_removal(node, free, leave=False))
    if node in plan.changes.first_contact:
        task = Bootstrap(f"bootstrap:{node}", node, _PREPARE_TIMEOUT_S)
        chain.append(FirstContactStage(tuple(changes), (), task, ()))
    prepare = _prepare(plan, node, changes, secrets)
    if prepare is not None:
        chain.append(prepare)
    restarted = False
    for batch in _batches(changes, node):
        reboot = _restarted_with(batch[0], changes, restarted=restarted)
        chain.extend(_finish(plan, node, batch, changes, secrets, run, reboot))
        restarted |= bool(reboot)
    for removal in removals:
        if removal.guard:  # last: the replacement, such as a key in another file, is in place by then
            chain.extend(_guarded_removal(node, removal, run, plan.policy.rollout.confirm_wait_s))
    if associations:  # slurmctld exits if its partitions name a removed QOS
        stage, scheduler = _removal(node, associations, leave=False), plan.policy.scheduler
        chain.append(dataclasses.replace(stage, after=((node, scheduler),) if scheduler else ()))
    return tuple(_number(stage, run) for stage in chain)


def leaving_stages(leaving: Leaving, run: Run) -> tuple[Stage, ...]:
    """Return the request for a node that leaves: remove everything of hpcforge."""
    return (_number(_removal(leaving.node, leaving.removals, leave=True), run),)


def _number(stage: Stage, run: Run) -> Stage:
    """Return the stage with its run number, so that nodes refuse older runs, and a task name for reattaching."""
    task = stage.task
    if not isinstance(task, NodeProgram):
        return stage
    name = None if stage.restarts else f"{run.id}.{task.id}"
    request = requests.of_run(task.request, run.request(), name)
    return dataclasses.replace(stage, task=dataclasses.replace(task, request=request))


def _removal(node: str, removals: Sequence[Removal], *, leave: bool) -> Stage:
    work = [less(removal) for removal in removals]
    request: requests.RemoveRequest = {"verb": "converge", "phase": "remove", "work": work, "leave": leave}
    roles = tuple(removed(removal.role) for removal in removals) or (LEAVING,)
    return RemovalStage(roles, (), NodeProgram(f"remove:{node}", node, request, _FINISH_TIMEOUT_S), roles)


def _guarded_removal(node: str, removal: Removal, run: Run, revert_s: float) -> Iterator[Stage]:
    """Remove parts of a guarded role, and confirm over a new connection."""
    guard: requests.GuardRequest = {"id": f"{run.id}.{removal.role}.removed", "revert_s": revert_s}
    roles = (removed(removal.role),)
    work = [less(removal, guard)]
    request: requests.RemoveRequest = {"verb": "converge", "phase": "remove", "work": work, "leave": False}
    task = _guarded_task(f"remove:{removal.role}:{node}", node, request, guard)
    yield RemovalStage(roles, ((node, removal.role),), task, () if File.kind in removal.owns.resources else roles)
    if File.kind in removal.owns.resources:
        yield _confirmation(node, roles, guard, f"{removal.role}:removed")


def _guarded_task(name: str, node: str, request: requests.Request, guard: requests.GuardRequest) -> NodeProgram:
    """Finish a guarded role. If it locks hpcforge out, the node reverts it and reports that."""
    return NodeProgram(name, node, request, _FINISH_TIMEOUT_S, reattach_s=guard["revert_s"] + _BACK_S)


def _confirmation(node: str, roles: tuple[str, ...], guard: requests.GuardRequest, name: str) -> Stage:
    """Confirm a guarded change over a new connection, before the node reverts it."""
    request: requests.ConfirmRequest = {"verb": "confirm", "guard": guard["id"]}
    limit_s = max(_CONFIRM_S, guard["revert_s"])
    task = NodeProgram(f"confirm:{name}:{node}", node, request, limit_s, aside=True, fresh=True)
    return ConfirmStage(roles, (), task, roles)


LEAVING = "leaving"  # the role name of a leaving node without resources


def _prepare(plan: Plan, node: str, changes: Mapping[str, Change], secrets: Mapping[str, bytes]) -> Stage | None:
    """Build the stage before units, for all roles at once; the files of guarded roles come with their units."""
    work: list[requests.WorkRequest] = [
        {
            **put(role, _early(change), Contents(plan.changes.texts, secrets)),
            "packages": list(change.packages),
            "removes": [removal.name for removal in change.removes],
            "owns": owns(change.owns),
            "reboot": any(map(_in_prepare, change.reboot)),
            "old_state": old_state(change.old_state),
        }
        for role, change in changes.items()
        if change.packages or _early(change) or not change.noted or (plan.changes.take_over and change.old_state)
    ]
    if not work:
        return None
    restarts = [
        unit.name for change in changes.values() for unit in change.units if {"restart", "refresh"} & {*unit.actions}
    ]
    request: requests.PrepareRequest = {"verb": "converge", "phase": "prepare", "work": work, "restarts": restarts}
    if plan.changes.take_over:
        request["take_over"] = True
    if node in plan.changes.first_contact:
        request["inspect"] = True
        for role in work:
            change = changes[role["role"]]
            role["programs"], role["listens"] = list(change.programs), listens(change.listens)
    task = NodeProgram(f"prepare:{node}", node, request, _PREPARE_TIMEOUT_S)
    return FilesStage(tuple(role_work["role"] for role_work in work), (), task, ())


def _early(change: Change) -> list[ResourceChange]:
    """Return the changes before units and checks; a guarded role's files come with these, late ones just before."""
    return [
        resource_change
        for resource_change in change.resources
        if not (change.guard and isinstance(resource_change.resource, File))
        and not KINDS[resource_change.resource.kind].late
    ]


def _late(change: Change) -> list[ResourceChange]:
    """Return the changes that must wait for other nodes."""
    return [resource_change for resource_change in change.resources if KINDS[resource_change.resource.kind].late]


def _batches(changes: Mapping[str, Change], node: str) -> Iterator[list[str]]:
    """Group roles that can finish in one request: a role that waits for other nodes, or has opaque work, starts a new
    group."""
    batch: list[str] = []
    for role, change in changes.items():
        alone = change.opaque or change.guard or change.reboot or change.shape == "together" or _late(change)
        if batch and (alone or _cross_node(change, node)):
            yield batch
            batch = []
        batch.append(role)
        if alone:
            yield batch
            batch = []
    if batch:
        yield batch


def _cross_node(change: Change, node: str) -> tuple[tuple[str, str], ...]:
    return tuple((provider, need.role) for need in change.needs for provider in need.nodes if provider != node)


def _in_prepare(cause: str) -> bool:
    return cause not in ("units", "opaque", "due") and not (cause in KINDS and KINDS[cause].late)


def _done_before(causes: Collection[str]) -> bool:
    """Return True if all causes precede the first finished role of a node."""
    return all(_in_prepare(cause) or cause == "due" for cause in causes)


def _restarted_with(role: str, changes: Mapping[str, Change], *, restarted: bool) -> tuple[str, ...]:
    """Return the roles for which the node restarts before this role; none if it needs none, or has restarted.

    Packages and files of all roles are in place by then, so one restart serves later roles, too: a new kernel, driver
    and fabric cost one restart.
    """
    causes = changes[role].reboot
    if not causes or (restarted and _done_before(causes)):
        return ()
    names = list(changes)
    later = [] if restarted else names[names.index(role) + 1 :]
    return (role, *(name for name in later if changes[name].reboot and _done_before(changes[name].reboot)))


def _finish(
    plan: Plan,
    node: str,
    batch: list[str],
    changes: Mapping[str, Change],
    secrets: Mapping[str, bytes],
    run: Run,
    reboot: Collection[str],
) -> Iterator[Stage]:
    """Build the stages for units, then opaque work, then checks. A batch with opaque work or a guard is one role.

    A restart (for the roles of `reboot`) comes before units and checks: units may need what it brings, as those of a
    driver do, and it would only stop them again. Opaque work comes before it, and the units that it needs before that.
    """
    roles = tuple(batch)
    after = tuple(pair for role in roles for pair in _cross_node(changes[role], node))
    first = changes[roles[0]]
    if _late(first):
        yield _late_stage(plan, node, roles[0], after, first)
    if first.guard:
        yield from _guarded(plan, node, roles[0], after, changes, secrets, run)
        return
    if first.opaque is None:
        barrier = tuple(role for role in roles if changes[role].shape == "together")
        batch_changes = {role: changes[role] for role in roles}
        stage = _finish_stage(node, batch_changes, after, act=True, checks=True, restarted=bool(reboot))
        if reboot:
            yield dataclasses.replace(_reboot(node, reboot, after), barrier=barrier)
        yield dataclasses.replace(stage, barrier=barrier)
        return
    yield from _opaque(node, roles[0], first.opaque, after, changes, reboot)


def _late_stage(plan: Plan, node: str, role: str, after: tuple[tuple[str, str], ...], change: Change) -> Stage:
    """Build the stage for content from other nodes, like all others, but not before these are done."""
    late = _late(change)
    work: requests.WorkRequest = {
        **put(role, late, Contents(plan.changes.texts, {})),
        "owns": owns(change.owns),
        "reboot": any(resource_change.resource.kind in change.reboot for resource_change in late),
    }
    request: requests.PrepareRequest = {"verb": "converge", "phase": "prepare", "work": [work], "restarts": []}
    return DownloadsStage((role,), after, NodeProgram(f"late:{role}:{node}", node, request, _PREPARE_TIMEOUT_S), ())


def _reboot(node: str, roles: Collection[str], after: tuple[tuple[str, str], ...]) -> Stage:
    """Build the restart of a node. The task sends it; `hpcforge.run.reboot` checks the rest."""
    request: requests.RebootRequest = {"verb": "reboot", "boot_id": ""}  # `hpcforge.run.reboot` fills it in
    task = NodeProgram(f"reboot:{node}", node, request, _FINISH_TIMEOUT_S)
    return RebootStage(tuple(roles), after, task, ())


def _opaque(
    node: str,
    role: str,
    change: OpaqueChange,
    after: tuple[tuple[str, str], ...],
    changes: Mapping[str, Change],
    reboot: Collection[str],
) -> Iterator[Stage]:
    roles = (role,)
    if change.repeats:
        begun: requests.RecordRequest = {"verb": "record", "role": role, "digest": ""}
        yield OpaqueStage(roles, after, NodeProgram(f"begun:{role}:{node}", node, begun, _FINISH_TIMEOUT_S), ())
    if changes[role].units:
        yield _finish_stage(node, {role: changes[role]}, after, act=True, checks=False)
    opaque = change.opaque
    words = (f"opaque:{role}:{node}", node, Path(opaque.source), dict(opaque.inputs), _OPAQUE_TIMEOUT_S)
    collections = tuple(collection.folder for collection in opaque.collections)
    task = Deploy(*words) if opaque.engine == "pyinfra" else Ansible(*words, collections)
    yield OpaqueStage(roles, after, task, ())
    reboots = "opaque" in changes[role].reboot
    record: requests.RecordRequest = {"verb": "record", "role": role, "digest": opaque.digest, "reboot": reboots}
    last = not changes[role].checks and not reboot
    yield OpaqueStage(
        roles, (), NodeProgram(f"record:{role}:{node}", node, record, _FINISH_TIMEOUT_S), roles if last else ()
    )
    if reboot:
        yield _reboot(node, reboot, ())
    if not last:
        yield _finish_stage(node, {role: changes[role]}, (), act=False, checks=True, restarted=bool(reboot))


def _guarded(
    plan: Plan,
    node: str,
    role: str,
    after: tuple[tuple[str, str], ...],
    changes: Mapping[str, Change],
    secrets: Mapping[str, bytes],
    run: Run,
) -> Iterator[Stage]:
    """Build the stages of a role that could lock hpcforge out, and the confirmation over a new connection."""
    guard: requests.GuardRequest = {"id": f"{run.id}.{role}", "revert_s": plan.policy.rollout.confirm_wait_s}
    change = changes[role]
    files = [resource_change for resource_change in change.resources if isinstance(resource_change.resource, File)]
    if files:
        work: requests.WorkRequest = {
            **put(role, files, Contents(plan.changes.texts, secrets)),
            "owns": owns(change.owns),
            "guard": guard,
        }
        request: requests.PrepareRequest = {"verb": "converge", "phase": "prepare", "work": [work], "restarts": []}
        task = NodeProgram(f"guarded:{role}:{node}", node, request, _FINISH_TIMEOUT_S)
        yield FilesStage((role,), after, task, ())
    finish = _finish_stage(node, {role: change}, after, act=True, checks=True, guard=guard if files else None)
    if not files:
        yield finish
        return
    yield dataclasses.replace(finish, completes=())
    yield _confirmation(node, (role,), guard, role)


def last_look(node: str) -> Stage:
    """Build the stage that observes the node and its driver at the end."""
    request: requests.ObserveRequest = {"verb": "observe", "wanted": []}
    return FinalCheckStage((), (), NodeProgram(f"look:{node}", node, request, _LOOK_TIMEOUT_S), ())


def _finish_stage(
    node: str,
    changes: Mapping[str, Change],
    after: tuple[tuple[str, str], ...],
    *,
    act: bool,
    checks: bool,
    restarted: bool = False,
    guard: requests.GuardRequest | None = None,
) -> Stage:
    work: list[requests.WorkRequest] = [
        {
            "role": role,
            "needs": [need.role for need in change.needs if need.providers(node) == (node,)],
            "units": units(change, act=act, restarted=restarted),
            "checks": [check(role_check) for role_check in change.checks] if checks else [],
        }
        for role, change in changes.items()
    ]
    if guard:  # a revert restores the states of units, too
        work = [{**role_work, "guard": guard} for role_work in work]
    roles = tuple(changes)
    request: requests.FinishRequest = {"verb": "converge", "phase": "finish", "work": work}
    name = f"finish:{roles[0]}:{'units' if act else 'checks'}:{node}"
    task = _guarded_task(name, node, request, guard) if guard else NodeProgram(name, node, request, _FINISH_TIMEOUT_S)
    return ActivateStage(roles, after, task, roles if checks else ())
