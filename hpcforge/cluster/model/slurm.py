"""Slurm's settings, partitions, associations and reservations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.slurm import Plugin

if TYPE_CHECKING:
    from hpcforge.design.fabric.topology_conf import Topology

# Parameters of a partition that exclude jobs, and the values that exclude none.
_SELECTIVE = {
    "allocnodes", "allowaccounts", "allowgroups", "allowqos", "denyaccounts", "denyqos", "maxcpuspernode",
    "maxcpuspersocket", "maxmempercpu", "maxmempernode", "maxnodes", "minnodes", "reqresv", "rootonly",
}  # fmt: skip
_ALL_JOBS = {"all", "no", "false", "0", "down", "unlimited", "infinite"}


@dataclass(frozen=True)
class Partition:
    """A Slurm partition."""

    name: str
    nodes: tuple[str, ...]
    default: bool
    max_time: str  # in Slurm's form; "INFINITE" if the blueprint sets none
    qos: str | None = None  # the QOS whose limits apply to its jobs, too
    billing_weights: tuple[tuple[str, str], ...] = ()  # TRESBillingWeights; (): Slurm's own
    topology: Plugin | None = None  # topology of its jobs; None: the default one
    settings: tuple[tuple[str, str], ...] = ()  # further parameters of the partition and their values

    @property
    def selective(self) -> bool:
        """True if its settings keep some jobs out."""
        return any(name.lower() in _SELECTIVE and value.lower() not in _ALL_JOBS for name, value in self.settings)


@dataclass(frozen=True)
class SlurmAssociation:
    """A QOS, an account or a user in one, as sacctmgr takes it."""

    name: str  # "qos high", "account vision" or "user ada account=vision"
    settings: str  # "fairshare=10 maxjobs=4"; "": none


@dataclass(frozen=True)
class SlurmReservation:
    """A Slurm reservation: workers kept free for users or accounts during a time."""

    name: str
    nodes: tuple[str, ...]
    start: str  # "2027-03-01T08:00:00", by the controller's clock
    minutes: int
    users: tuple[str, ...]  # root if the blueprint names no users
    accounts: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Slurm:
    """Settings of the scheduler."""

    controller: str
    enforce: tuple[Literal["cores", "memory", "gpus"], ...]
    partitions: tuple[Partition, ...]
    settings: tuple[tuple[str, str], ...] = ()  # further keys of slurm.conf and their values
    topologies: tuple[Topology, ...] = ()  # groups of near nodes; the default topology comes first
    associations: tuple[SlurmAssociation, ...] = ()  # in an order in which Slurm accepts them
    people: tuple[str, ...] = ()  # users of accounts and reservations that only the directory has
    reservations: tuple[SlurmReservation, ...] = ()
    implied: tuple[tuple[str, str], ...] = ()  # keys of slurm.conf that declared parts need and `settings` lacks
    implied_of_slurmdbd: tuple[tuple[str, str], ...] = ()  # the same for slurmdbd.conf
    traffic: tuple[str, ...] = ()  # recorded traffic of jobs, in the words of AccountingStorageTRES: "ic/sysfs"
    ssh: Literal["anyone", "jobs-only"] = "anyone"  # users who may ssh to a node that only runs jobs
    private_tmp: str | None = None  # folder on each worker with a private /tmp for each job; None: jobs share /tmp

    def parts(self, nodes: Collection[str], partition: Partition) -> tuple[tuple[str, ...], ...]:
        """Return some nodes of a partition in the parts that its topology keeps apart; one: a job can have them all."""
        used = next((topology for topology in self.topologies if partition.topology in (None, topology.plugin)), None)
        settings = {name.lower(): value.lower() for name, value in self.settings}
        optional = "topooptional" in settings.get("topologyparam", "")  # it counts only for jobs with --switches
        if used is None or used.plugin == "flat" or optional:
            return (tuple(nodes),)
        from hpcforge.design.fabric.topology_conf import parts  # noqa: PLC0415 - few clusters have fabrics

        return parts(used, nodes)

    def block(self, name: str) -> frozenset[str]:
        """Return the nodes of a node's block, where a topology has blocks."""
        blocks = (block.nodes for topology in self.topologies for block in topology.blocks if name in block.nodes)
        return frozenset(next(blocks, ()))

    def cut(self, nodes: Collection[str]) -> str | None:
        """Return why no job can have all of these nodes in any partition that holds them; None if one can."""
        holding = [partition for partition in self.partitions if {*nodes} <= {*partition.nodes}]
        pieces = [self.parts(nodes, partition) for partition in holding]
        if not pieces or any(len(piece) < 2 for piece in pieces):
            return None
        return f"{' and '.join(map(fold, pieces[0]))} are apart in the topology of Slurm: no job has nodes of two"

    @property
    def partition_qos(self) -> tuple[str, ...]:
        """The blueprint's QOS that partitions name: slurmctld does not start without them."""
        lists = [partition.qos or "" for partition in self.partitions]
        settings = [setting for partition in self.partitions for setting in partition.settings]
        lists += [value for key, value in settings if key.lower() in ("allowqos", "denyqos")]
        used = {f"qos {name}" for names in lists for name in names.lower().split(",")}
        return tuple(qos.name.split()[1] for qos in self.associations if qos.name in used)
