"""Compare `Desired` with the answers of nodes, as a `Plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from hpcforge.cluster.model import Cluster
from hpcforge.kinds import KINDS
from hpcforge.kinds.accounts import Account
from hpcforge.kinds.files import File
from hpcforge.plan.account_numbers import number_conflicts
from hpcforge.plan.admission import DeclaredWorker, DrainOrder, Shortfall, declared, drains, judged, shortfalls
from hpcforge.plan.changes import EVERYTHING, Bare, Scope, node_changes
from hpcforge.plan.clocks import ClockOff, clocks_off
from hpcforge.plan.desired import Desired, DesiredRole
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import (
    OLD_STATE,
    Change,
    Changes,
    ClusterState,
    Kept,
    Leaving,
    Obstacle,
    OwnedResources,
    Plan,
    Policy,
    Removal,
    Step,
)
from hpcforge.slurm.jobs import SLURM_JOBS, SLURM_WAITING, asks_for, parse_jobs, parse_waiting, too_large
from hpcforge.slurm.nodes import not_scheduled, parse_slurm_nodes

# Changes that affect jobs: only these need smoke tests.
#
# On a worker every change affects jobs, but for roles with `affects_jobs: false`. On other nodes the roles that workers
# need by `needs`, near or far, affect jobs: scheduler, names, time; not the files of a login node.
Part = tuple[str, str]  # a node and one of its roles


def nodes_affecting_jobs(
    desired: Desired,
    workers: Sequence[str],
    run_as: str | None,
    steps: Iterable[Step],
    removals: Mapping[str, Sequence[Removal]],
    drains: Iterable[DrainOrder],
) -> frozenset[str]:
    """Return the nodes with a change that affects jobs. `run_as` is the account of the tests' own jobs."""
    reach = _Reach(desired, frozenset(workers))
    affected = {drain.node for drain in drains if drain.action == "resume"}
    for step in steps:
        for node, change in step.changes.items():
            if node not in affected and (
                (reach(node, step.role) and _does(change))
                or run_as in [account.name for account, _ in change.of(Account)]
            ):
                affected.add(node)
    affected |= {
        node for node, node_removals in removals.items() if any(reach(node, removal.role) for removal in node_removals)
    }
    return frozenset(affected)


def _does(change: Change) -> bool:
    """Return whether a change affects more than the receipt."""
    return bool(
        change.packages or change.resources or change.units or change.opaque or change.failed_checks or change.reboot
    )


class _Reach:
    """Decides whether a role on a node affects jobs."""

    def __init__(self, desired: Desired, workers: frozenset[str]) -> None:
        self.workers = workers
        self.unfelt = {role.role for role in desired.distinct if not role.jobs_feel}
        self.needed = _needed(desired, workers)

    def __call__(self, node: str, role: str) -> bool:
        return role not in self.unfelt if node in self.workers else (node, role) in self.needed


def _needed(desired: Desired, workers: frozenset[str]) -> set[Part]:
    """Return the roles of other nodes that roles of workers need, near or far."""
    on_workers = {id(role): role for node in workers for role in desired.nodes.get(node, ())}
    waiting = [part for role in on_workers.values() if role.jobs_feel for part in _needs(role, "")]
    by_part = {(n, role.role): role for n, roles in desired.nodes.items() if n not in workers for role in roles}
    needed: set[Part] = set()
    while waiting:
        part = waiting.pop()
        role = by_part.get(part)
        if role is not None and role.jobs_feel and part not in needed:
            needed.add(part)
            waiting += _needs(role, part[0])
    return needed


def _needs(role: DesiredRole, node: str) -> Iterator[Part]:
    for need in role.needs:
        yield from ((name, need.role) for name in need.nodes or (node,))


# Kinds whose failed comparison is an obstacle. A package counts as missing then: installing it may repair dpkg.
_COMPARED = {kind.singular for kind in KINDS.values()}
SLURM_NODES = "slurm_nodes"  # the name of the controller's answer with Slurm's nodes


def diff(
    cluster: Cluster,
    desired: Desired,
    observed: Mapping[str, Observation],
    leaving: Sequence[Leaving] = (),
    scope: Scope = EVERYTHING,
    head: Observation | None = None,
) -> Plan:
    """Compute the changes of each node. Nodes without an entry in `observed` are not in the plan.

    `head` is the controller's answer, if `observed` lacks it.
    """
    inputs = _Inputs(cluster, desired, observed, scope, head or observed.get(cluster.slurm.controller))
    bare = Bare(desired.texts, scope)
    by_node = {
        name: tuple(node_changes(desired.nodes[name], observation, bare))
        for name, observation in inputs.reachable.items()
    }
    clocks = _clocks(cluster, inputs.reachable, inputs.controller, by_node)
    reported = tuple(_obstacles(desired, inputs.reachable, scope))
    kept_aside = tuple(obstacle for obstacle in reported if scope.take_over and obstacle.kind == OLD_STATE)
    obstacles = tuple(obstacle for obstacle in (*reported, *_number_conflicts(inputs)) if obstacle not in kept_aside)
    refused = {clock.node for clock in clocks if clock.refused} | {obstacle.node for obstacle in obstacles}
    steps = _steps(desired, by_node, refused)
    busy = {node for step in steps for node in step.changes} | refused
    short = tuple(_short(inputs.workers, inputs.reachable, busy))
    if leaving and not _never_ran(cluster, desired, inputs.reachable):
        leaving = [_presume_worker(leaver, inputs.answers) for leaver in leaving]
    orders = drains(short, judged(inputs.workers, inputs.slurm_nodes))
    changes = _changes(inputs, steps, tuple(leaving), orders, refused)
    renamed = tuple(obstacle for obstacle in kept_aside if obstacle.node not in refused)
    return Plan(
        cluster=cluster.name,
        nodes=tuple(node.name for node in cluster.nodes if node.name in observed),
        changes=replace(changes, kept_aside=renamed),
        state=replace(_state(inputs, leaving), shortfalls=short, clocks=clocks, obstacles=obstacles),
        policy=_policy(inputs),
    )


@dataclass(frozen=True)
class _Inputs:
    """The inputs of a comparison, and values that follow from the answers."""

    cluster: Cluster
    desired: Desired
    observed: Mapping[str, Observation]
    scope: Scope
    controller: Observation | None

    @cached_property
    def reachable(self) -> dict[str, Observation]:
        return {name: observation for name, observation in self.observed.items() if observation.unreachable is None}

    @cached_property
    def workers(self) -> tuple[DeclaredWorker, ...]:
        return tuple(worker for worker in declared(self.cluster) if worker.node in self.reachable)

    @property
    def answers(self) -> Mapping[str, str]:
        return self.controller.answers if self.controller else {}

    @cached_property
    def slurm_nodes(self) -> Mapping[str, tuple[str, str]]:
        return parse_slurm_nodes(self.answers.get(SLURM_NODES, ""))


def _number_conflicts(inputs: _Inputs) -> Iterator[Obstacle]:
    only = inputs.scope.only
    conflicts = number_conflicts(inputs.cluster, inputs.desired, inputs.reachable, inputs.controller)
    return (conflict for conflict in conflicts if only is None or conflict.role in only)


def _steps(
    desired: Desired, by_node: Mapping[str, Sequence[tuple[DesiredRole, Change]]], refused: Set[str]
) -> tuple[Step, ...]:
    steps: dict[str, dict[str, Change]] = {role: {} for role in desired.roles}
    for name, changes in by_node.items():
        for role, change in changes if name not in refused else ():
            steps[role.role][name] = change
    return tuple(Step(role, steps[role]) for role in desired.roles if steps[role])


def _changes(
    inputs: _Inputs,
    steps: tuple[Step, ...],
    leaving: tuple[Leaving, ...],
    orders: tuple[DrainOrder, ...],
    refused: Set[str],
) -> Changes:
    cluster, desired = inputs.cluster, inputs.desired
    removals = {
        name: node_removals
        for name, observation in inputs.reachable.items()
        if name not in refused and (node_removals := tuple(_removals(desired.nodes[name], observation, inputs.scope)))
    }
    run_as = cluster.acceptance.run_as if cluster.acceptance else None
    workers = [node.name for node in cluster.workers]
    felt = nodes_affecting_jobs(desired, workers, run_as, steps, removals, orders)
    first_contact = (
        name for name, observation in inputs.reachable.items() if not observation.python and name not in refused
    )
    return Changes(
        steps=steps,
        first_contact=tuple(first_contact),
        drains=orders,
        texts=_texts(desired, steps),
        removals=removals,
        leaving=leaving,
        artifacts=desired.artifacts if any(_brings_artifacts(step, desired.depot) for step in steps) else (),
        felt=tuple(node.name for node in cluster.nodes if node.name in felt),
        take_over=inputs.scope.take_over,
    )


def _state(inputs: _Inputs, leaving: Iterable[Leaving]) -> ClusterState:
    cluster, answers = inputs.cluster, inputs.answers
    names = [leaver.node for leaver in leaving if leaver.worker]
    waiting = parse_waiting(answers.get(SLURM_WAITING, "")) if names else ()
    sizes = {partition.name: len(partition.nodes) for partition in cluster.slurm.partitions}
    unreachable = {name: observation.unreachable for name, observation in inputs.observed.items()}
    return ClusterState(
        unreachable={name: reason for name, reason in unreachable.items() if reason is not None},
        shortfalls=(),
        in_service=_in_service(cluster, inputs.desired, inputs.reachable, inputs.slurm_nodes),
        jobs=parse_jobs(answers.get(SLURM_JOBS, "")),
        asked_for={name: jobs for name in names if (jobs := asks_for(name, waiting))},
        too_large=too_large(waiting, sizes, len(names)),
        basis={name: observation.basis for name, observation in inputs.reachable.items()},
    )


def _policy(inputs: _Inputs) -> Policy:
    cluster, via = inputs.cluster, inputs.cluster.access.via
    return Policy(
        controller=cluster.slurm.controller,
        declared=inputs.workers,
        groups={node.name: node.group for node in cluster.nodes if node.name in inputs.observed},
        rollout=cluster.rollout,
        scheduler=inputs.desired.scheduler,
        weights=tuple(f"{key}={value}" for key, value in cluster.slurm.implied if key.startswith("PriorityWeight")),
        via=via.name if via and via.is_node else None,
    )


def _brings_artifacts(step: Step, depot: str | None) -> bool:
    return step.role == depot and any(change.opaque for change in step.changes.values())


def _texts(desired: Desired, steps: Iterable[Step]) -> dict[str, str]:
    """Return the texts that the steps write."""
    # equal nodes share one tuple
    distinct = {id(change.resources): change for step in steps for change in step.changes.values()}
    digests = {file.text for change in distinct.values() for file, _ in change.of(File)}
    return {digest: text for digest, text in desired.texts.items() if digest in digests}


def _short(
    workers: Iterable[DeclaredWorker], reachable: Mapping[str, Observation], busy: Set[str]
) -> Iterator[Shortfall]:
    """Yield the workers' shortfalls; GPUs of a busy node may appear with its changes."""
    for worker in workers:
        facts = reachable[worker.node].facts
        if facts:  # a plan made offline has none
            yield from shortfalls(worker, facts, gpus_ready=worker.node not in busy)


def _clocks(
    cluster: Cluster,
    reachable: Mapping[str, Observation],
    controller: Observation | None,
    by_node: Mapping[str, Sequence[tuple[DesiredRole, Change]]],
) -> tuple[ClockOff, ...]:
    """Return nodes with wrong clocks; always checks the controller, since others follow its clock."""
    answers = {**({cluster.slurm.controller: controller} if controller else {}), **reachable}
    clocks = {name: observation.clock for name, observation in answers.items() if observation.clock is not None}
    setting = {
        name for name, changes in by_node.items() if name in clocks and any(role.sets_clock for role, _ in changes)
    }
    fetching = {name for name, changes in by_node.items() if any(change.packages for _, change in changes)}
    return clocks_off(clocks, cluster.slurm.controller, setting, fetching)


def _obstacles(desired: Desired, reachable: Mapping[str, Observation], scope: Scope) -> Iterator[Obstacle]:
    """Yield the obstacles to the roles in the plan, as far as nodes can report them."""
    for name, observation in reachable.items():
        for role in desired.nodes[name] if observation.differs or observation.failed or observation.obstacles else ():
            if scope.only is None or role.role in scope.only:
                difference = observation.differs.get(role.role, {})
                for failure in observation.failed:  # the node could not compare it
                    if failure["role"] == role.role and failure["kind"] in _COMPARED:
                        reason = f"cannot be compared: {failure['error']}"
                        yield Obstacle(name, role.role, failure["kind"], failure["name"], reason)
                for obstacle in observation.obstacles:
                    if obstacle["role"] == role.role:
                        yield Obstacle(name, **{**obstacle, "commands": tuple(obstacle["commands"])})
                first = {
                    check.name for check in role.checks if check.first and observation.facts
                }  # a node without Python has run no check
                for failed_check in difference.get("checks", ()):
                    if failed_check["name"] in first:
                        yield Obstacle(name, role.role, "check", failed_check["name"], str(failed_check["detail"]))


def surplus(observation: Observation) -> tuple[Removal, ...]:
    """Return the resources that a node's receipt owns and no role desires there."""
    roles = (observation.receipt or {}).get("surplus") or {}
    return tuple(
        Removal(
            role,
            OwnedResources(
                packages=tuple(parts.get("packages", ())) if parts.get("on_remove") == "purge" else (),
                resources={kind: tuple(parts[kind]) for kind in KINDS if parts.get(kind)},
                units=tuple(parts.get("units", ())),
                trees=tuple(parts.get("trees", ())),
                on_remove=parts.get("on_remove", "stop"),
                disrupts=parts.get("disrupts", "none"),
            ),
            stays=tuple(
                Kept(remnant["kind"], tuple(remnant["names"]), remnant["why"]) for remnant in parts.get("stays", ())
            ),
        )
        for role, parts in roles.items()
    )


def _removals(roles: Iterable[DesiredRole], observation: Observation, scope: Scope) -> Iterator[Removal]:
    guarded = {role.role: role.guard for role in roles}
    for removal in surplus(observation):
        if scope.only is None or removal.role in scope.only:
            yield replace(removal, wanted=removal.role in guarded, guard=guarded.get(removal.role, False))


def _never_ran(cluster: Cluster, desired: Desired, reachable: Mapping[str, Observation]) -> bool:
    """Return whether Slurm cannot have run a job: the controller lacks every file of the role that installs Slurm.

    Other nodes must also lack the files of roles that need it: else the controller was reinstalled, or moved, and jobs
    may run.
    """
    controller = cluster.slurm.controller
    roles = desired.nodes.get(controller, ()) if controller in reachable else ()
    own = [(role, reachable[controller]) for role in roles if role.role == desired.scheduler]
    users = [
        (role, observation)
        for name, observation in reachable.items()
        if name != controller
        for role in desired.nodes[name]
        if any(need.role == desired.scheduler for need in role.needs) and role.of(File)
    ]
    return bool(own) and all(_lacks_files(role, observation) for role, observation in (*own, *users))


def _lacks_files(role: DesiredRole, observation: Observation) -> bool:
    states = observation.differs.get(role.role, {}).get(File.kind, ())
    missing = {file["path"] for file in states if not file["exists"]}
    files = role.of(File)
    return bool(files) and all(file.path in missing for file in files)


def _presume_worker(leaver: Leaving, answers: Mapping[str, str]) -> Leaving:
    """Presume that a leaving node is a worker with jobs where Slurm's list of nodes or jobs is missing."""
    worker, jobs = leaver.worker or SLURM_NODES not in answers, SLURM_JOBS not in answers
    return leaver if (worker, jobs) == (leaver.worker, False) else replace(leaver, worker=worker, may_have_jobs=jobs)


def _in_service(
    cluster: Cluster,
    desired: Desired,
    reachable: Mapping[str, Observation],
    slurm_nodes: Mapping[str, tuple[str, str]],
) -> tuple[str, ...]:
    """Return the nodes that were configured before and may have jobs.

    A worker that Slurm's list lacks has no jobs: a run was killed between the node's roles and the controller's.
    Without a list, all count, unless a first apply was killed before it configured Slurm: then no node can be drained.
    """
    if not slurm_nodes and _never_ran(cluster, desired, reachable):
        return ()
    idle = set(not_scheduled(slurm_nodes))
    if slurm_nodes:
        idle |= {worker.name for worker in cluster.workers} - set(slurm_nodes)
    return tuple(
        node.name
        for node in cluster.nodes
        if node.name in reachable and reachable[node.name].configured and node.name not in idle
    )
