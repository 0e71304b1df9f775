"""Slurm's settings, partitions, associations and reservations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.slurm import Plugin
from hpcforge.design.fabric.topology_conf import Topology, parts

# Parameters of a partition that keep jobs out, and values with which they do not.
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
    max_time: str  # as Slurm spells it; "INFINITE" where the blueprint sets none
    qos: str | None = None  # whose limits its jobs have, too
    billing_weights: tuple[tuple[str, str], ...] = ()  # as TRESBillingWeights has them; none: Slurm's own
    topology: Plugin | None = None  # of its jobs, where it is not the default one
    settings: tuple[tuple[str, str], ...] = ()  # further parameters of the partition and their values

    @property
    def selective(self) -> bool:
        """Whether its settings keep some jobs out."""
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
    users: tuple[str, ...]  # root where the blueprint names nobody
    accounts: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Slurm:
    """Settings of the scheduler."""

    controller: str
    enforce: tuple[Literal["cores", "memory", "gpus"], ...]
    partitions: tuple[Partition, ...]
    settings: tuple[tuple[str, str], ...] = ()  # further keys of slurm.conf and their values
    topologies: tuple[Topology, ...] = ()  # which nodes are near each other; the default one first
    associations: tuple[SlurmAssociation, ...] = ()  # in an order in which they can be made
    people: tuple[str, ...] = ()  # who is in accounts and reservations and no user of the blueprint: of the directory
    reservations: tuple[SlurmReservation, ...] = ()
    implied: tuple[tuple[str, str], ...] = ()  # keys of slurm.conf that what is declared needs, and `settings` lack
    implied_of_slurmdbd: tuple[tuple[str, str], ...] = ()  # the same of slurmdbd.conf
    traffic: tuple[str, ...] = ()  # of jobs that is kept, as AccountingStorageTRES has it: "ic/sysfs"
    ssh: Literal["anyone", "jobs-only"] = "anyone"  # who may ssh to a node that does nothing but run jobs
    private_tmp: str | None = None  # folder on each worker below which jobs have a /tmp of their own; None: they share

    def parts(self, nodes: Collection[str], partition: Partition) -> tuple[tuple[str, ...], ...]:
        """Return some nodes of a partition in the parts that its topology keeps apart; one: a job can have them all."""
        used = next((topology for topology in self.topologies if partition.topology in (None, topology.plugin)), None)
        settings = {name.lower(): value.lower() for name, value in self.settings}
        optional = "topooptional" in settings.get("topologyparam", "")  # it counts for jobs with --switches alone
        return parts(used, nodes) if used and used.plugin != "flat" and not optional else (tuple(nodes),)

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
