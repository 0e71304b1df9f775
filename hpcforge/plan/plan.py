"""The plan: the changes, where and why. Complete, printable data; an apply reads only the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
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
# The part of a role that needs a restart of the node: "packages", a kind, "units" or "opaque"; "due": an earlier run
# ended before its restart.
RebootCause = str


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """A resource that differs, and its observed state. Contains no secret."""

    resource: AnyResource
    found: ActualState


@dataclass(frozen=True)
class PackageRemoval:
    """A package that is removed because it conflicts with new ones."""

    name: str
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnitChange:
    """The actions on a unit, in order, and the reason."""

    name: str
    actions: tuple[Action, ...]
    reason: str
    refresh: tuple[tuple[str, ...], ...] = ()  # the commands of "refresh"


@dataclass(frozen=True)
class OpaqueChange:
    """Opaque work that runs, and the reason."""

    opaque: Opaque
    reason: str
    repeats: bool = False  # the node has recorded it as done: the next plan must know if it fails now


@dataclass(frozen=True, slots=True)
class OwnedResources:
    """The resources of a role on a node, changed or not, for the node's receipt."""

    packages: tuple[str, ...] = ()
    resources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names by kind
    units: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    on_remove: OnRemove = "stop"
    leaves: tuple[KeptPath, ...] = ()
    disrupts: Disruption = "none"  # the effect on jobs of removing its trees


@dataclass(frozen=True)
class Kept:
    """The remains of a removal, and the reason. `kind`: package, file, directory, unit, account, home, path or work."""

    kind: str
    names: tuple[str, ...]
    why: str


OLD_STATE = "old state"  # the kind of an obstacle, see `hpcforge.node.obstacles.old_state`


@dataclass(frozen=True)
class Obstacle:
    """A conflict on a node that would make an apply fail."""

    node: str
    role: str
    kind: str  # package, unit, port, file, account and others; or a check that has to pass first
    name: str
    why: str  # the reason, and the remedy where no commands help
    commands: tuple[str, ...] = ()  # for root on the node: they remove the obstacle

    @property
    def said(self) -> str:
        """The obstacle in words."""
        return f"{self.kind} {self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one role on one node, or on several equal nodes: then all of them share one object."""

    needs: tuple[RoleNeed, ...] = ()
    packages: tuple[str, ...] = ()
    removes: tuple[PackageRemoval, ...] = ()
    unforeseen: tuple[str, ...] = ()  # packages whose removals the node cannot know yet
    resources: tuple[ResourceChange, ...] = ()  # in the order of the table of kinds
    units: tuple[UnitChange, ...] = ()
    opaque: OpaqueChange | None = None
    failed_checks: tuple[tuple[str, str], ...] = ()  # name and detail of failed checks that cause the change
    checks: tuple[Check, ...] = ()  # run afterwards
    programs: tuple[str, ...] = ()  # this and the next: for obstacles on a node that had no Python
    listens: tuple[Listen, ...] = ()
    reason: Reason = "input changed"
    disruption: Disruption = "none"
    owns: OwnedResources = field(default_factory=OwnedResources)
    noted: bool = True  # False: the node's receipt lacks a part of it
    old_state: tuple[OldState, ...] = ()  # state that another cluster may have left
    renames: tuple[str, ...] = ()  # paths of old state that the node reported
    guard: bool = False
    shape: Shape = "free"
    reboot: tuple[RebootCause, ...] = ()  # the node restarts before this role's units and checks

    def on(self, node: str) -> Change:
        """Return the change with the node's name in its needs on the same node."""
        if all(need.nodes for need in self.needs):
            return self
        return replace(self, needs=tuple([RoleNeed(need.role, need.providers(node)) for need in self.needs]))

    def of(self, kind: type[R]) -> list[tuple[R, ActualState]]:
        """Return the desired and observed states of one kind."""
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


@dataclass(frozen=True)
class Install:
    """An operating system that a node gets from the network before anything else."""

    node: str
    system: str  # "Debian 12"
    image: str
    wipes: tuple[str, ...] = ()  # serial numbers of disks whose data is lost; (): only blank disks are written
    drives: int = 1  # number of written disks, mirrors of each other
    warnings: tuple[str, ...] = ()  # network boot problems of its make


@dataclass(frozen=True)
class Step:
    """A role on the nodes where it has something to change."""

    role: str
    changes: Mapping[str, Change]  # by node


@dataclass(frozen=True)
class Removal:
    """Resources to remove of a role, or a part of it, that is no longer desired on a node."""

    role: str
    owns: OwnedResources
    wanted: bool = False  # the role stays, with less
    guard: bool = False  # its removal could lock hpcforge out: it comes last, and is confirmed like a guarded change
    stays: tuple[Kept, ...] = ()  # parts that are not removed


@dataclass(frozen=True)
class Leaving:
    """A node of the roster that is no longer in the blueprint."""

    node: str
    address: str
    worker: bool  # Slurm knows it, or gave no list of its nodes
    unreachable: str | None  # the reason that it cannot be cleaned up
    removals: tuple[Removal, ...] = ()
    unknown: str | None = None  # the reason for no login: only the head names this machine
    may_have_jobs: bool = False  # Slurm gave no list of jobs

    def kept_for(self, jobs: Sequence[str]) -> str:
        """Return the reason to keep an unreachable node in the roster, or "": to forget it would kill its jobs."""
        if self.unreachable is None or not (jobs or self.may_have_jobs):
            return ""
        reports = f"reports jobs there: {', '.join(jobs)}" if jobs else "does not report which jobs run"
        return f"unreachable, and Slurm {reports}"


@dataclass(frozen=True)
class Changes:
    """The changes of an apply."""

    steps: tuple[Step, ...]  # in the order of roles on a node
    first_contact: tuple[str, ...]  # nodes that lack Python 3 and get it first
    drains: tuple[DrainOrder, ...]  # orders to Slurm
    texts: Mapping[str, str]  # contents of changed files by digest
    removals: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)  # by node
    leaving: tuple[Leaving, ...] = ()
    artifacts: tuple[Artifact, ...] = ()  # fetched to this host before nodes are changed
    felt: tuple[str, ...] = ()  # nodes with a change that affects jobs
    take_over: bool = False  # rename old state of another cluster, also on nodes that cannot report it yet
    kept_aside: tuple[Obstacle, ...] = ()  # old state that nodes reported
    installs: tuple[Install, ...] = ()  # by `apply --install`, which plans these nodes afterwards

    def __bool__(self) -> bool:
        return bool(self.installs or self.steps or self.first_contact or self.drains or self.removals or self.leaving)

    @cached_property
    def collections(self) -> tuple[Collection, ...]:
        """Collections of Ansible that its code uses, each once, by name."""
        changes = (change for step in self.steps for change in step.changes.values())
        used = {entry for change in changes if change.opaque for entry in change.opaque.opaque.collections}
        return tuple(sorted(used, key=lambda entry: (entry.name, entry.version)))

    def disruption(self, node: str) -> Disruption:
        """Return the worst disruption of a node by its changes."""
        disruptions = (removal.owns.disrupts for removal in self.removals.get(node, ()))
        return worst([*(step.changes[node].disruption for step in self.steps if node in step.changes), *disruptions])

    @cached_property
    def together(self) -> frozenset[str]:
        """Nodes with a change that must happen everywhere at once, without a canary."""
        return frozenset(n for step in self.steps for n, change in step.changes.items() if change.shape == "together")


@dataclass(frozen=True)
class ClusterState:
    """The observed state of a plan."""

    unreachable: Mapping[str, str]  # node -> reason
    shortfalls: tuple[Shortfall, ...]  # workers with less than declared, as far as known
    in_service: tuple[str, ...] = ()  # configured before, jobs may use them: canary and batches apply
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # worker -> its running jobs
    asked_for: Mapping[str, tuple[WaitingJob, ...]] = field(
        default_factory=dict
    )  # node that leaves -> jobs that name it
    too_large: tuple[WaitingJob, ...] = ()  # jobs that request more nodes than remain
    basis: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # node -> part -> digest of its answer
    offline: bool = False  # made without contacting nodes: every node counts as new
    clocks: tuple[ClockOff, ...] = ()  # nodes whose clocks are off
    obstacles: tuple[Obstacle, ...] = ()  # conflicts on nodes
    down: tuple[DownWorker, ...] = ()  # workers that take no job, though no operator drained them

    @cached_property
    def refused(self) -> Mapping[str, str]:
        """Nodes that answer but are skipped, with the reason."""
        until = "hpcforge changes nothing there until it is fixed"
        reasons = {obstacle.node: f"{obstacle.role}: {obstacle.said}; {until}" for obstacle in reversed(self.obstacles)}
        return reasons | {clock.node: f"{clock.said}: {until}" for clock in self.clocks if clock.refused}


@dataclass(frozen=True)
class Policy:
    """The rules of the cluster that an apply follows."""

    controller: str
    declared: tuple[DeclaredWorker, ...]  # the hardware that admits each worker
    groups: Mapping[str, str] = field(default_factory=dict)  # node -> group
    rollout: Rollout = field(default_factory=Rollout)
    desired: str = ""  # digest of the desired state of all nodes
    scheduler: str | None = None  # the role that installs Slurm; None: workers have no jobs
    via: str | None = None  # the node that connections to all others pass
    weights: tuple[str, ...] = ()  # hpcforge's weights of Slurm's priorities: "PriorityWeightQOS=100000"
    verify: Verify = "touched"  # the selection of tests afterwards
    smoke: SmokeRuns = field(default_factory=SmokeRuns)  # as far as known


# Plan files and JSON have the fields of all parts side by side, in this order.
FIELDS = (
    *("cluster", "nodes", "steps", "first_contact", "unreachable", "controller", "declared", "shortfalls", "drains"),
    *("texts", "removals", "leaving", "groups", "in_service", "jobs", "asked_for", "too_large", "artifacts", "rollout"),
    *("basis", "desired", "offline", "scheduler", "via", "weights", "clocks", "felt", "verify", "smoke", "obstacles"),
    *("down", "take_over", "kept_aside", "installs"),
)


@dataclass(frozen=True)
class Plan:
    """The work of one apply."""

    cluster: str
    nodes: tuple[str, ...]  # the selected nodes, reachable or not
    changes: Changes
    state: ClusterState
    policy: Policy

    @property
    def flat(self) -> dict[str, Any]:
        """The fields of all parts by name; the needs of each change name their nodes."""
        parts = (self, self.changes, self.state, self.policy)
        values = {entry.name: getattr(part, entry.name) for part in parts for entry in fields(part)}
        values["steps"] = tuple(
            Step(step.role, {node: change.on(node) for node, change in step.changes.items()})
            for step in values["steps"]
        )
        return {name: values[name] for name in FIELDS}

    @property
    def pending(self) -> bool:
        """True if applying would change something."""
        return bool(self.changes)

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """Nodes that would be changed, in cluster order, but for leaving nodes."""
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
    """Return the worst disruption; "none" for an empty list."""
    return max(disruptions, key=DISRUPTIONS.index, default="none")
