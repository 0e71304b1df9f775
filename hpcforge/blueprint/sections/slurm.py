"""The section `slurm`: controller, partitions, accounts, QOS and reservations, with checks of these. Pure."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import LazySection, Section
from hpcforge.blueprint.sections.access import unknown_user
from hpcforge.blueprint.sections.storage import Folder
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import limit_s

Enforced = Literal["cores", "memory", "gpus"]


Plugin = Literal["tree", "block", "flat"]  # plugins of Slurm for a topology


class Reserve(Section):
    """What the operating system keeps of each worker."""

    cores: v.ReserveCores | None = Field(
        None,
        description="Cores of a worker that are reserved for the system; default: one of each socket of 16 cores or "
        "more.",
    )
    memory_gib: v.ReserveMemoryGib | None = Field(
        None,
        description="Memory of a worker that is reserved for the system, GiB; default: 400 MiB, and 30 MiB for each "
        "GiB.",
    )


TESTS_ACCOUNT = "hpcforge_tests"  # account of smoke tests: their usage counts for no group of people


class Tres(Section):
    """So much of what jobs use (Slurm's trackable resources)."""

    cpu: v.Whole | None = Field(None, ge=0, description="Hardware threads.")
    memory_gib: v.Whole | None = Field(None, ge=0, description="Memory, GiB.")
    node: v.Whole | None = Field(None, ge=0, description="Nodes.")
    gpu: v.Whole | None = Field(None, ge=0, description="GPUs that jobs do not share.")
    shard: v.Whole | None = Field(None, ge=0, description="Shards of shared GPUs; a shard does not count as a GPU.")
    billing: v.Whole | None = Field(None, ge=0, description="Billing units, by the partition's `billing`.")


class Limits(Section):
    """What an account, or a user in it, may have; what is not said is as its parent has it, or without a limit."""

    fairshare: v.Whole | None = Field(
        None, ge=0, description="Shares among the accounts with the same parent; default: 1."
    )
    grp_tres: Tres | None = Field(None, description="All jobs at once.")
    grp_tres_mins: Tres | None = Field(None, description="All jobs together, resources times minutes.")
    grp_jobs: v.Whole | None = Field(None, ge=0, description="Running jobs at once.")
    max_tres: Tres | None = Field(None, description="A job.")
    max_jobs: v.Whole | None = Field(None, ge=0, description="Running jobs of each user at once.")
    max_submit_jobs: v.Whole | None = Field(None, ge=0, description="Running and waiting jobs of each user.")
    max_wall: v.MaxTime | None = Field(None, description="Time of a job, [days-]hours:minutes:seconds.")
    qos: tuple[v.SectionName, ...] = Field((), description="QOS that its jobs may have.")
    default_qos: v.SectionName | None = Field(None, description="The QOS of jobs that name none.")


class AccountSection(Limits):
    """A group of people, or a project, for which jobs run."""

    parent: v.SectionName | None = Field(None, description="The parent account; default: root.")
    users: dict[v.PersonName, Limits] = Field(
        {},
        description="Users of the account, from `users` or, with the service `directory`, from the directory. A "
        "user's default account is the first that names them.",
    )


class Qos(Section):
    """A quality of service: what jobs that ask for it may have."""

    priority: v.Whole | None = Field(
        None,
        ge=0,
        description="Jobs of a higher one come first, by PriorityWeightQOS, which hpcforge writes unless `settings` "
        "has weights; default: 0.",
    )
    preempt: tuple[v.SectionName, ...] = Field((), description="QOS that this QOS may preempt.")
    preempt_mode: Literal["requeue", "cancel"] | None = Field(
        None, description="What happens to its jobs when they are preempted; default: requeue."
    )
    grp_tres: Tres | None = Field(None, description="All its jobs at once.")
    grp_jobs: v.Whole | None = Field(None, ge=0, description="Its running jobs at once.")
    max_tres: Tres | None = Field(None, description="A job.")
    max_tres_per_user: Tres | None = Field(None, description="Jobs of each user at once.")
    max_jobs_per_user: v.Whole | None = Field(None, ge=0, description="Running jobs of each user at once.")
    max_submit_jobs_per_user: v.Whole | None = Field(None, ge=0, description="Running and waiting jobs of each user.")
    max_wall: v.MaxTime | None = Field(None, description="Time of a job, [days-]hours:minutes:seconds.")


class Billing(Section):
    """What a job is billed for what it has, by Slurm's TRESBillingWeights."""

    cpu: v.Number | None = Field(None, ge=0, description="A hardware thread.")
    memory_gib: v.Number | None = Field(None, ge=0, description="A GiB of memory.")
    gpu: v.Number | None = Field(None, ge=0, description="A GPU.")
    shard: v.Number | None = Field(None, ge=0, description="A shard of a GPU.")


class ReservationSection(Section):
    """Nodes kept for maintenance, a course or a deadline; Slurm forgets one that is over, and so may the blueprint."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    start: v.Moment = Field(description="Start, by the controller's clock and time zone: 2027-03-01T08:00.")
    duration: v.MaxTime = Field(description="Duration, [days-]hours:minutes:seconds.")
    users: tuple[v.PersonName, ...] = Field(
        (),
        description="Users that may run jobs there, from `users` or the directory; with neither these nor "
        "`accounts`: only root.",
    )
    accounts: tuple[v.SectionName, ...] = Field(
        (), description="Accounts that may run jobs there; with `users`: only jobs of those users under these accounts."
    )
    flags: tuple[Literal["maint", "ignore_jobs"], ...] = Field(
        (),
        description="maint: for maintenance, may overlap other reservations; ignore_jobs: created even if jobs run "
        "there.",
    )


class PartitionSection(Section):
    """A Slurm partition."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    default: v.Truth = Field(False, description="The partition of jobs that name none.")
    max_time: v.MaxTime = Field(
        "infinite", description="Time limit of a job, [days-]hours:minutes:seconds, or infinite."
    )
    qos: v.SectionName | None = Field(
        None, description="Partition QOS: its limits also apply to the partition's jobs. Needs `services.accounting`."
    )
    billing: Billing | None = Field(
        None, description="Billing weights of resources, with `services.accounting`; default: 1 for each thread."
    )
    topology: Plugin | None = Field(
        None,
        description="Topology of its jobs, where it is not that of `slurm.topology`. Two topologies in one cluster "
        "take Slurm 25.05 or later on all nodes.",
    )
    settings: dict[v.PartitionKey, v.SlurmSetting] = Field(
        {},
        description="More parameters of the partition in slurm.conf, such as PriorityTier: 10, with names and values "
        "that the release of Slurm knows. What another key sets is refused. DefMemPerCPU, DefMemPerGPU and "
        "DefMemPerNode replace the share of memory that hpcforge writes.",
    )


class SlurmTopology(Section):
    """What the scheduler is told of a fabric, so that the nodes of a job are near each other."""

    fabric: v.FabricName | None = Field(
        None, description="The fabric; default: the workers' fastest infiniband, roce or omni-path fabric."
    )
    plugin: Plugin = Field(
        "tree",
        description="tree: jobs stay below few switches; block: jobs stay in one NVLink domain or unit, Slurm 24.11 "
        "or later; flat: Slurm ignores the network.",
    )


class SlurmSection(Section):
    """Controller and partitions of the scheduler."""

    controller: v.NodeName = Field(description="The head that runs slurmctld.")
    reserve: Reserve = Field(
        Reserve.model_construct(),
        description="Resources of each worker that are reserved for the system; `hpcforge show --full` prints the "
        "result.",
    )
    enforce: tuple[Enforced, ...] = Field(
        ("cores", "memory", "gpus"), description="Limits of jobs that cgroups enforce."
    )
    ssh: Literal["anyone", "jobs-only"] = Field(
        "anyone",
        description="Users who may log in to a worker that is neither head nor login node. jobs-only: "
        "administrators, and users with a job there; their session becomes part of the job.",
    )
    private_tmp: Folder | None = Field(
        None,
        description="A folder on each worker's own disk, used only by Slurm, for a private /tmp of each job. It and "
        "the job's /dev/shm are removed with the job. Default: jobs share the node's /tmp.",
    )
    partitions: dict[v.PartitionName, PartitionSection] = Field(min_length=1, description="Partitions by name.")
    settings: dict[v.SlurmKey, v.SlurmSetting] = Field(
        {},
        description="More settings of slurm.conf, such as TreeWidth: 50, with names that the release of Slurm knows. "
        "Settings that hpcforge writes are refused. Jobs that ask for no memory get their CPUs' share, unless "
        "DefMemPerCPU, DefMemPerGPU or DefMemPerNode is set.",
    )
    accounts: Annotated[dict[v.SectionName, AccountSection], LazySection()] = Field(
        {}, description="Accounts by name, with `services.accounting`; then only users in an account may run jobs."
    )
    qos: Annotated[dict[v.SectionName, Qos], LazySection()] = Field(
        {}, description="Qualities of service by name, with `services.accounting`."
    )
    reservations: Annotated[dict[v.SectionName, ReservationSection], LazySection()] = Field(
        {}, description="Reservations by name: nodes that Slurm keeps free for users or accounts during a time."
    )
    topology: SlurmTopology = Field(
        SlurmTopology.model_construct(), description="The network between nodes, as Slurm uses it."
    )


Findings = Iterator[Finding]


def reservation_findings(draft: Draft, workers: Callable[[Loc, str], Findings]) -> Findings:
    """Yield unknown names, and wrong times. `workers` checks a set of workers at a place."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "reservations"):
        return
    for name, reservation in slurm.reservations.items():
        loc: Loc = ("slurm", "reservations", name)
        yield from workers((*loc, "nodes"), reservation.nodes)
        if not 60 <= limit_s(reservation.duration) < math.inf:
            hint = "Slurm counts in minutes, and removes a reservation after its end"
            yield Finding((*loc, "duration"), "a reservation needs a duration of at least one minute", hint)
        for place, user in enumerate(reservation.users):
            yield from unknown_user(draft, (*loc, "users", place), user)
        for place, account in enumerate(reservation.accounts) if draft.intact("slurm", "accounts") else ():
            if account not in slurm.accounts:
                hint = did_you_mean(account, slurm.accounts) or "add it under `slurm.accounts`"
                yield Finding((*loc, "accounts", place), f"{quote(account)} is not an account of this blueprint", hint)


def overlapping(draft: Draft, nodes_of: Callable[[str], tuple[str, ...] | None]) -> Findings:
    """Yield reservations that share nodes and time: Slurm refuses the second. `nodes_of` expands a set."""
    slurm: SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "reservations"):
        return
    nodes: Mapping[str, Set[str]] = {
        name: frozenset(nodes_of(reservation.nodes) or ())
        for name, reservation in slurm.reservations.items()
        if "maint" not in reservation.flags  # such reservations may overlap (reservations.html of Slurm)
    }
    for first, second in combinations(nodes, 2):
        shared = nodes[first] & nodes[second]
        (start, end), (other_start, other_end) = map(_period, (slurm.reservations[first], slurm.reservations[second]))
        if shared and start < other_end and other_start < end:
            message = f"{fold(shared)} would be in two reservations at a time, `{first}` and `{second}`"
            hint = "other nodes, another time, or `flags: [maint]` for maintenance: Slurm refuses the second"
            yield Finding(("slurm", "reservations", second, "nodes"), message, hint)


def over(reservations: Mapping[str, ReservationSection], current_time: str) -> Findings:
    """Yield reservations that have ended; `current_time` has the form of `start`."""
    for name, reservation in reservations.items():
        if _period(reservation)[1] <= _seconds(current_time):
            message = f"the reservation `{name}` is over"
            hint = "another `start`; or remove it: Slurm has removed it, too"
            yield Finding(("slurm", "reservations", name, "start"), message, hint, severity="warning")


def _period(reservation: ReservationSection) -> tuple[float, float]:
    """Return start and end in seconds of the clock of the cluster."""
    start = _seconds(reservation.start)
    return start, start + limit_s(reservation.duration)


def _seconds(moment: str) -> int:
    day, _, clock = moment.partition("T")
    year, month, date = map(int, day.split("-"))
    hour, minute = map(int, clock.split(":")[:2])
    return calendar.timegm((year, month, date, hour, minute, 0))
