"""The plan: the changes, where and why. Complete, printable data; running reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from hpcforge.cluster.model import Rollout
from hpcforge.kinds.resource import ActualState
from hpcforge.plan.admission import DeclaredWorker, DrainOrder, Shortfall
from hpcforge.plan.clocks import ClockOff
from hpcforge.plan.desired import (
    DISRUPTIONS,
    Artifact,
    Check,
    Collection,
    Disruption,
    KeptPath,
    Listen,
    OldState,
    OnRemove,
    Opaque,
    R,
    RoleNeed,
    Shape,
)
from hpcforge.plan.resources import AnyResource
from hpcforge.plan.test_selection import SmokeRuns, Verify
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.slurm.jobs import WaitingJob
from hpcforge.wire_types import Action

Reason = Literal[
    "new node", "input changed", "drifted", "reverted", "check failed", "forced", "reboot pending", "to be noted"
]
# What of a role calls for a restart of the node: "packages", a kind, "units" or "opaque"; "due": an earlier run was cut
# off before it.
RebootCause = str


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource that differs, and its observed state. Contains no secret."""

    resource: AnyResource
    found: ActualState


@dataclass(frozen=True)
class PackageRemoval:
    """A package that goes because others, which conflict with it, come."""

    name: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitChange:
    """What is done to a unit, in order, and why."""

    name: str
    actions: tuple[Action, ...]
    reason: str
    refresh: tuple[tuple[str, ...], ...] = ()  # the commands of "refresh"


@dataclass(frozen=True)
class OpaqueChange:
    """Opaque work to be run, and why."""

    opaque: Opaque
    reason: str
    repeats: bool = False  # the node has it as done: should it fail now, the next plan must know


@dataclass(frozen=True, slots=True)
class OwnedResources:
    """All that a role has on a node, changed or not: what the node's receipt is to say."""

    packages: tuple[str, ...] = ()
    resources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names by kind
    units: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    on_remove: OnRemove = "stop"
    leaves: tuple[KeptPath, ...] = ()
    disrupts: Disruption = "none"  # what it does to jobs to be without its trees


@dataclass(frozen=True)
class Kept:
    """What stays of what goes, and why. `kind`: package, file, directory, unit, account, home, path or work."""

    kind: str
    names: tuple[str, ...]
    why: str


OLD_STATE = "old state"  # the kind of what another cluster left, see `hpcforge.node.obstacles.old_state`


@dataclass(frozen=True)
class Obstacle:
    """A conflict on a node that would make an apply fail."""

    node: str
    role: str
    kind: str  # what `name` names: a package, unit, port, file, account and such; or a check that has to pass first
    name: str
    why: str  # and what to do about it, where no commands do
    commands: tuple[str, ...] = ()  # which remove it, to be run on the node as root

    @property
    def said(self) -> str:
        """What is wrong, in words."""
        return f"{self.kind} {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Change:
    """What one role changes on one node."""

    needs: tuple[RoleNeed, ...] = ()
    packages: tuple[str, ...] = ()
    removes: tuple[PackageRemoval, ...] = ()
    unforeseen: tuple[str, ...] = ()  # packages for which the node cannot say yet what would go
    resources: tuple[ResourceChange, ...] = ()  # in the order of the table of kinds
    units: tuple[UnitChange, ...] = ()
    opaque: OpaqueChange | None = None
    failed_checks: tuple[tuple[str, str], ...] = ()  # name and detail, where a failed check is why something is done
    checks: tuple[Check, ...] = ()  # run afterwards
    programs: tuple[str, ...] = ()  # these and the next: for a node that had no Python to be searched for obstacles
    listens: tuple[Listen, ...] = ()
    reason: Reason = "input changed"
    disruption: Disruption = "none"
    owns: OwnedResources = field(default_factory=OwnedResources)
    noted: bool = True  # False: the node's receipt lacks some of it, and is to have it
    old_state: tuple[OldState, ...] = ()  # what another cluster may have left there
    renames: tuple[str, ...] = ()  # paths of such that the node named
    guard: bool = False
    shape: Shape = "free"
    reboot: tuple[RebootCause, ...] = ()  # the node restarts before this role's units and checks

    def on(self, node: str, own: dict[str, RoleNeed] | None = None) -> Change:
        """Return the change with its needs on its own node under that node's name; `own` has these needs by role."""
        if all(need.nodes for need in self.needs):
            return self
        own = {} if own is None else own
        for need in self.needs:
            if not need.nodes and need.role not in own:
                own[need.role] = RoleNeed(need.role, (node,))
        return Change(tuple([need if need.nodes else own[need.role] for need in self.needs]), *self.but_needs)

    @property
    def but_needs(self) -> tuple[Any, ...]:
        """All but its needs, which are its node's own."""
        return _BUT_NEEDS(self)

    def of(self, kind: type[R]) -> list[tuple[R, ActualState]]:
        """Return the changes of one kind, and the observed states."""
        return [
            (resource_change.resource, resource_change.found)
            for resource_change in self.resources
            if isinstance(resource_change.resource, kind)
        ]

    def __bool__(self) -> bool:
        return bool(
            self.packages
            or self.resources
            or self.units
            or self.opaque
            or self.failed_checks
            or self.reboot
            or self.renames
            or not self.noted
        )


_BUT_NEEDS = attrgetter(*[field.name for field in fields(Change)[1:]])


@dataclass(frozen=True)
class Install:
    """An operating system that a node gets from the network before anything else."""

    node: str
    system: str  # "Debian 12"
    image: str
    wipes: tuple[str, ...] = ()  # serial numbers of the disks whose data goes; (): only blank disks are written
    drives: int = 1  # disks that are written, mirrors of each other
    warnings: tuple[str, ...] = ()  # what is known of its make's boot from the network


@dataclass(frozen=True)
class Step:
    """A role on the nodes where it has something to change."""

    role: str
    changes: Mapping[str, Change]  # by node


@dataclass(frozen=True)
class Removal:
    """What a role, or a part of it, that is no longer wanted on a node leaves behind to be removed."""

    role: str
    owns: OwnedResources
    wanted: bool = False  # the role stays, with less
    guard: bool = False  # to be without it could lock hpcforge out: done last, and confirmed as a guarded change is
    stays: tuple[Kept, ...] = ()  # what of it is not removed


@dataclass(frozen=True)
class Leaving:
    """A node that is in the roster and not in the blueprint any more."""

    node: str
    address: str
    worker: bool  # Slurm knows it, or gave no list of its nodes
    unreachable: str | None  # why it cannot be cleaned up
    removals: tuple[Removal, ...] = ()
    unknown: str | None = None  # why hpcforge does not log in there: only the head says which machine it is
    may_have_jobs: bool = False  # Slurm gave no list of jobs

    def kept_for(self, jobs: Sequence[str]) -> str:
        """Return why an unreachable node stays, "" if it does not: to forget it would kill its jobs."""
        if self.unreachable is None or not (jobs or self.may_have_jobs):
            return ""
        reports = f"reports jobs there: {', '.join(jobs)}" if jobs else "does not report which jobs run"
        return f"unreachable, and Slurm {reports}"


@dataclass(frozen=True)
class Changes:
    """The changes of an apply."""

    steps: tuple[Step, ...]  # in the order roles are done on a node
    first_contact: tuple[str, ...]  # nodes that lack Python 3 and get it first
    drains: tuple[DrainOrder, ...]  # orders to Slurm
    texts: Mapping[str, str]  # file content by digest, of the files that change
    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)  # by node
    leaving: tuple[Leaving, ...] = ()
    artifacts: tuple[Artifact, ...] = ()  # fetched to this host before nodes are changed
    felt: tuple[str, ...] = ()  # nodes with a change that jobs can feel
    take_over: bool = False  # old state of another cluster is renamed, also where the node cannot name it yet
    kept_aside: tuple[Obstacle, ...] = ()  # the old state that nodes named
    installs: tuple[Install, ...] = ()  # by `apply --install`, which then makes a plan for these nodes, too

    def __bool__(self) -> bool:
        return bool(self.installs or self.steps or self.first_contact or self.drains or self.removals or self.leaving)

    @cached_property
    def collections(self) -> tuple[Collection, ...]:
        """Collections of Ansible that its code uses, each once, by name."""
        changes = (change for step in self.steps for change in step.changes.values())
        used = {entry for change in changes if change.opaque for entry in change.opaque.opaque.collections}
        return tuple(sorted(used, key=lambda entry: (entry.name, entry.version)))

    def disruption(self, node: str) -> Disruption:
        """Return the worst that its changes do to a node."""
        disruptions = (removal.owns.disrupts for removal in self.removals.get(node, ()))
        return worst([*(step.changes[node].disruption for step in self.steps if node in step.changes), *disruptions])

    @cached_property
    def together(self) -> frozenset[str]:
        """Nodes with a change that has to happen everywhere at once, which no canary can go ahead of."""
        return frozenset(n for step in self.steps for n, change in step.changes.items() if change.shape == "together")


@dataclass(frozen=True)
class ClusterState:
    """The observed state that the plan was made from."""

    unreachable: Mapping[str, str]  # node -> reason
    shortfalls: tuple[Shortfall, ...]  # workers with less than is declared, as far as is known now
    in_service: tuple[str, ...] = ()  # configured before, and jobs may use them: for these are canary and batches
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # node -> running jobs, of workers that have some
    asked_for: Mapping[str, tuple[WaitingJob, ...]] = field(
        default_factory=dict
    )  # node that leaves -> jobs that name it
    too_large: tuple[WaitingJob, ...] = ()  # jobs that request more nodes than remain
    basis: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # node -> part -> digest of its answer
    offline: bool = False  # made without contacting nodes: as if they had nothing
    clocks: tuple[ClockOff, ...] = ()  # nodes whose clocks are off
    obstacles: tuple[Obstacle, ...] = ()  # conflicts on nodes
    down: tuple[DownWorker, ...] = ()  # workers that take no job, though no operator holds them

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Nodes that answer and are left out all the same, and why."""
        until = "hpcforge changes nothing there until it is fixed"
        reasons = {obstacle.node: f"{obstacle.role}: {obstacle.said}; {until}" for obstacle in reversed(self.obstacles)}
        return reasons | {clock.node: f"{clock.said}: {until}" for clock in self.clocks if clock.refused}


@dataclass(frozen=True)
class Policy:
    """The rules of the cluster that an apply follows."""

    controller: str
    declared: tuple[DeclaredWorker, ...]  # what each worker must show to be admitted
    groups: Mapping[str, str] = field(default_factory=dict)  # node -> group
    rollout: Rollout = field(default_factory=Rollout)
    desired: str = ""  # digest of the desired state of all nodes
    scheduler: str | None = None  # the role that brings Slurm, without which workers have no jobs
    via: str | None = None  # the node that all others are reached through
    weights: tuple[str, ...] = ()  # of Slurm's priorities, chosen by hpcforge: "PriorityWeightQOS=100000"
    verify: Verify = "touched"  # the selection of tests afterwards
    smoke: SmokeRuns = field(default_factory=SmokeRuns)  # as far as it is known now


# Plan files and JSON have the fields of all parts side by side, in this order.
FIELDS = (
    *("cluster", "nodes", "steps", "first_contact", "unreachable", "controller", "declared", "shortfalls", "drains"),
    *("texts", "removals", "leaving", "groups", "in_service", "jobs", "asked_for", "too_large", "artifacts", "rollout"),
    *("basis", "desired", "offline", "scheduler", "via", "weights", "clocks", "felt", "verify", "smoke", "obstacles"),
    *("down", "take_over", "kept_aside", "installs"),
)


@dataclass(frozen=True)
class Plan:
    """Everything an apply will do."""

    cluster: str
    nodes: tuple[str, ...]  # the selected nodes, reachable or not
    changes: Changes
    state: ClusterState
    policy: Policy

    @property
    def flat(self) -> dict[str, Any]:
        """The fields of all parts by name."""
        parts = (self, self.changes, self.state, self.policy)
        values = {entry.name: getattr(part, entry.name) for part in parts for entry in fields(part)}
        return {name: values[name] for name in FIELDS}

    @property
    def pending(self) -> bool:
        """True if applying would change something."""
        return bool(self.changes)

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """Nodes that would be changed, in cluster order; those that leave are apart."""
        changes = self.changes
        changed = {node for step in changes.steps for node in step.changes}
        changed |= {*changes.first_contact, *changes.removals}
        return tuple(node for node in self.nodes if node in changed)

    @cached_property
    def restarts(self) -> tuple[str, ...]:
        """Nodes that would be restarted, in cluster order."""
        restarted = {node for step in self.changes.steps for node, change in step.changes.items() if change.reboot}
        return tuple(node for node in self.nodes if node in restarted)


def worst(disruptions: Any) -> Disruption:
    """Return the worst of several; none if there are none."""
    return max(disruptions, key=DISRUPTIONS.index, default="none")
