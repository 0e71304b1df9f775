"""What a blueprint, an inventory and the hardware catalog say together, with nothing left to default.

A `Cluster` is the only thing that roles see (as `cluster` and `node` in their templates), so its attribute names are
a contract with `roles/`. Everything is frozen; nodes keep the order in which the blueprint names them.
"""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.schema import Plugin
from hpcforge.blueprint.smoke_tests import Bound, Level, OneGpu, Operation
from hpcforge.catalog import load_catalog
from hpcforge.catalog.distribution import PackageAccount
from hpcforge.cluster.amd import Amd
from hpcforge.cluster.collectives import Collectives, collectives, rdma_fabric
from hpcforge.cluster.declared import declared
from hpcforge.cluster.interfaces import Interface, interfaces
from hpcforge.cluster.launches import ProgramLaunch, RankNeeds
from hpcforge.cluster.mig import Gres, Layout, gres
from hpcforge.cluster.nvidia import Nvidia
from hpcforge.cluster.people import User, UserGroup
from hpcforge.cluster.storage import Brick, FileSystem
from hpcforge.design.fabric.topology_conf import Topology, parts
from hpcforge.design.facility.limits import PowerFeed
from hpcforge.launchers import LAUNCHERS, ContainerName, LauncherName

Function = Literal["head", "login", "storage", "worker"]
FUNCTIONS: tuple[Function, ...] = get_args(Function)
# Best first.
HOST_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


@dataclass(frozen=True)
class Gpus:
    """The GPUs of one node. `fake` ones are character devices for rehearsals that compute nothing."""

    model: str
    count: int
    mig: Layout = ()  # what each is cut into; none: they are whole
    vendor: Literal["none", "nvidia", "amd"] = "nvidia"
    shards: tuple[int, ...] = ()  # how many jobs can share each; 0: none do; (): none of all

    @property
    def fake(self) -> bool:
        """True for a rehearsal's stand-ins."""
        return self.model == "fake"

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Device files, one a GPU, in index order."""
        stem, first = self._files
        return tuple(f"{stem}{number}" for number in range(first, first + self.count))

    @property
    def device_range(self) -> str:
        """The same as Slurm writes them, `/dev/nvidia[0-7]`."""
        stem, first = self._files
        return f"{stem}{first}" if self.count == 1 else f"{stem}[{first}-{first + self.count - 1}]"

    @property
    def _files(self) -> tuple[str, int]:
        """What device files are called, and the first one's number: of AMD's they are nodes for rendering (DRM)."""
        if self.fake:
            return "/dev/fakegpu", 0
        return ("/dev/dri/renderD", 128) if self.vendor == "amd" else ("/dev/nvidia", 0)

    @cached_property
    def gres(self) -> tuple[Gres, ...]:
        """What Slurm hands out of them."""
        return gres(self.model, self.mig) if self.mig else tuple(Gres(self.model, (device,)) for device in self.devices)

    @cached_property
    def types(self) -> tuple[tuple[str, int], ...]:
        """The types of that, with how many there are."""
        return tuple(Counter(gres.type for gres in self.gres).items())

    @cached_property
    def slurm_gres(self) -> str:
        """All that a node has for jobs, as slurm.conf has it: `gpu:h100:8,shard:16`."""
        kinds = [f"gpu:{type_}:{count}" for type_, count in self.types]
        shards = sum(count for _, count in self.shared)
        return ",".join([*kinds, f"shard:{shards}"] if self.shared else kinds)

    @cached_property
    def shared(self) -> tuple[tuple[str, int], ...]:
        """The device files of those that jobs can share, each with its shards."""
        return tuple((file, count) for file, count in zip(self.devices, self.shards, strict=False) if count)

    @cached_property
    def links(self) -> tuple[str, ...]:
        """Where MIG is, the files that the node makes once its instances are there."""
        return tuple(dict.fromkeys(file for gres in self.gres for file in gres.files)) if self.mig else ()

    def most_ranks(self, cpus: int) -> int:  # noqa: ARG002
        """How many ranks of a smoke test there may be on a node that has `cpus` for jobs."""
        return self.count


@dataclass(frozen=True)
class StandInGpus(Gpus):
    """What stands in for GPUs in a rehearsal: as many character devices, which Slurm knows under the real model."""

    @property
    def fake(self) -> bool:
        """True: they compute nothing."""
        return True

    def most_ranks(self, cpus: int) -> int:
        """No more than there are CPUs: the ranks compute there."""
        return min(self.count, cpus)


@dataclass(frozen=True)
class GpuModel:
    """Catalog values of a GPU model that are compared with its driver; None or empty: not known."""

    driver_names: tuple[str, ...] = ()  # what the driver calls it
    memory_gb: float | None = None  # as marketed
    nvlinks: int | None = None
    pcie_lanes: int | None = None
    pcie_generation: int | None = None
    power_w: float | None = None  # the most that it takes


@dataclass(frozen=True)
class Bmc:
    """A machine's management controller, as far as it is known."""

    address: str | None
    mac: str | None
    certificate: str | None = None  # SHA-256 of its TLS certificate, in hexadecimal; None: not known
    user: str | None = None  # None: that of all


@dataclass(frozen=True)
class SystemDisk:
    """Where an operating system is installed."""

    drives: int = 1  # more than one: mirrors of each other
    partitions_gib: Mapping[str, int] = field(default_factory=dict, hash=False)  # by mount point, in their order


@dataclass(frozen=True)
class Node:
    """One machine as declared (overrides applied), and where to reach it.

    Sockets, cores, threads and memory are 0 where neither catalog nor override knows them; never so for a worker.
    """

    name: str
    group: str  # the key under `nodes:` that names it, e.g. "w[01-03]"
    functions: tuple[Function, ...]
    hardware: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    gpus: Gpus | None
    address: str
    host_keys: tuple[str, ...] = ()  # OpenSSH public keys, "ssh-ed25519 AAAA..."; empty: not known
    rack: str | None = None  # None: it stands in no rack that the blueprint names
    rack_u: int | None = None  # the lowest rack unit it takes, counted from 1 at the bottom
    addresses: Mapping[str, str] = field(default_factory=dict, hash=False)  # on other networks, BMC's too, by network
    fabrics: tuple[str, ...] = ()  # that it is plugged into
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # by fabric, MACs by link; if known
    mac: str | None = None  # of the interface that has `address`
    bmc: Bmc | None = None  # None: nothing is known of it
    serial: str | None = None
    note: str | None = None  # what else the inventory says of the machine
    reason: str | None = None  # why it differs from its hardware; None: it does not
    accepts: tuple[str, ...] = ()  # faults of its GPUs that keep no jobs away, in the words of `overrides`
    reserve_cores: int = 0  # kept from jobs, of a worker
    reserve_memory_mib: int = 0  # the same
    platform: Platform | None = None  # None: the cluster's, as all nodes have
    system_disk: SystemDisk = SystemDisk()
    features: tuple[str, ...] = ()  # of Slurm's, which jobs ask for
    weight: int | None = None  # of Slurm's; None: its own default

    @property
    def certified(self) -> bool:
        """Whether it gets a host certificate: its host keys are known."""
        return bool(self.host_keys)

    @property
    def best_host_key(self) -> str:
        """Of its host keys the one that is certified; empty where none is known."""
        by_type = {key.split()[0]: key for key in reversed(self.host_keys)}
        return next((by_type[kind] for kind in HOST_KEY_TYPES if kind in by_type), "")

    @property
    def cpus(self) -> int:
        """Hardware threads."""
        return self.sockets * self.cores_per_socket * self.threads_per_core


@dataclass(frozen=True)
class Jump:
    """The machine that the other nodes are reached through."""

    name: str
    address: str  # or a host name
    user: str
    host_keys: tuple[str, ...]
    is_node: bool  # else a machine of the site's


@dataclass(frozen=True)
class Access:
    """How hpcforge gets in: an ordinary user, made root by `become`."""

    user: str
    become: Literal["sudo", "none"]
    key: Path | None  # private key file on the operator host; None: the user's ssh agent and default keys
    via: Jump | None = None  # None: every node is reached straight


@dataclass(frozen=True)
class Network:
    """One subnet."""

    name: str
    cidr: str
    fabric: str | None = None  # that carries it; None: not said
    interface: str | None = None  # what all workers call theirs; None: not said
    vlan: int | None = None  # None: untagged
    mtu: int | None = None  # bytes; None: as interfaces come
    boot: bool = False  # the addresses of nodes are on it, by the blueprint; nothing is served for it
    bmc: bool = False  # it has the management controllers, not the nodes
    external: bool = False  # the site's
    gateway: str | None = None  # an address
    bond: Literal["802.3ad", "active-backup"] | None = None
    configure: bool = False  # hpcforge sets up the nodes' interfaces on it

    @property
    def netmask(self) -> str:
        """Its size as a mask, `255.255.254.0`."""
        return str(ipaddress.IPv4Network(self.cidr).netmask)


@dataclass(frozen=True)
class OwnLinks:
    """The links of a node that differ from those of a fabric's other nodes."""

    node: str
    links: int
    rate_gbps: float
    bond: Literal["802.3ad", "active-backup"] | None  # None: as the networks on it


@dataclass(frozen=True)
class FabricOf:
    """A fabric as nodes see it; `hpcforge.design.fabric.graph.Fabric` has its switches and cables."""

    name: str
    kind: Literal["infiniband", "roce", "ethernet", "omni-path"]
    rate_gbps: float  # of one link
    links: int  # of a node
    bmc: bool  # its links are those of management controllers: all its networks are
    rails: bool = False  # each link of a node goes to switches of its own, and from rail to rail it is slower
    interfaces: tuple[str, ...] = ()  # a node's adapters or interfaces, in the order of its links; none: not said
    bond: Literal["802.3ad", "active-backup"] | None = None
    dscp: int | None = None  # what marks RDMA in IP headers, of roce
    priority: int | None = None  # the Ethernet priority that is not dropped, of roce
    subnet_manager: str | None = None  # on-switch, external or a node; None: not said, or it has none
    own_links: tuple[OwnLinks, ...] = ()  # of nodes that differ

    def own(self, node: str) -> OwnLinks | None:
        """Return the links of a node that differ from those of others."""
        return next((links for links in self.own_links if links.node == node), None)

    def at(self, node: str) -> FabricOf:
        """Return the fabric with the links of one node."""
        own = self.own(node)
        if own is None:
            return self
        interfaces = self.interfaces if own.links == self.links else ()
        return replace(
            self, links=own.links, rate_gbps=own.rate_gbps, bond=own.bond or self.bond, interfaces=interfaces
        )

    @property
    def rdma(self) -> bool:
        """Whether its adapters write to each other's memory by verbs."""
        return self.kind in ("infiniband", "roce")

    @property
    def lldp(self) -> bool:
        """Whether nodes see its cables by LLDP."""
        return self.kind in ("ethernet", "roce") and not self.bmc


@dataclass(frozen=True)
class Service:
    """Where a service runs, or which outside service stands in for it; neither: the cluster has none."""

    on: tuple[str, ...] = ()  # nodes
    external: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)  # all that its role declares
    certified: bool = False  # its nodes have certificates of the cluster's authority
    people: tuple[str, ...] = ()  # in a directory that stands in for the site's

    @property
    def host(self) -> str | None:
        """The node that it runs on; None where it runs outside, or nowhere."""
        return self.on[0] if self.on else None


@dataclass(frozen=True)
class Names:
    """What a distribution calls what roles call by Debian's name, where that is another; see `OperatingSystem`."""

    packages: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    paths: Mapping[str, str] = field(default_factory=dict, hash=False)  # of files, and of folders with all below them
    accounts: Mapping[str, str] = field(default_factory=dict, hash=False)  # users and groups that packages bring
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)  # packages that it has not, and why

    @cached_property
    def all_as_in_debian(self) -> bool:
        """Whether nothing that it has is called otherwise."""
        return not (self.packages or self.units or self.paths or self.accounts)


@dataclass(frozen=True)
class OperatingSystem:
    """A distribution release and what follows from it."""

    name: str  # "debian"
    release: str  # "12"
    python: str  # the distribution's own, "3.11"
    slurm: str  # the distribution's own, "22.05"
    libc: str  # "2.36": bounds the wheels that run there
    openssh: str  # the distribution's own, "9.2"
    names: Names = Names()  # where they are others than Debian 12's
    suite: str | None = None  # its name in the archive
    oldest_slurmd: str | None = None  # that its slurmctld and slurmdbd work with

    @property
    def slurm_version(self) -> tuple[int, ...]:
        """Slurm's version as numbers that compare, (22, 5)."""
        return tuple(int(part) for part in self.slurm.split("."))

    @property
    def slurm_settings(self) -> tuple[str, ...] | None:
        """The names that its Slurm takes in slurm.conf; None for a release that the catalog does not have."""
        release = load_catalog().slurm.get(self.slurm)
        return tuple(release.settings) if release else None

    @property
    def package_accounts(self) -> Mapping[str, PackageAccount]:
        """Return the accounts that packages make, by their names here; none for a release that the catalog lacks."""
        found = load_catalog().distributions.get((self.name, self.release))
        return {self.account(name): account for name, account in found.package_accounts.items()} if found else {}

    @property
    def openssh_version(self) -> tuple[int, ...]:
        """OpenSSH's version as numbers that compare, (9, 2)."""
        return tuple(int(part) for part in self.openssh.split("."))

    def packages(self, name: str) -> tuple[str, ...]:
        """The packages that have here what Debian has in one. Raises ValueError for one that the release lacks."""
        if name in self.names.lacks:
            raise ValueError(f"{self.name} {self.release} lacks the package {name}: {self.names.lacks[name]}")
        return self.names.packages.get(name, (name,))

    def unit(self, name: str) -> str:
        """What a systemd unit is called here."""
        return self.names.units.get(name, name)

    def path(self, path: str) -> str:
        """Where something lies here. What is in a folder goes with it, a unit's file and drop-ins with the unit."""
        if self.names.units and "/systemd/system/" in path:
            path = "/".join(map(self._unit_part, path.split("/")))
        if not self.names.paths:
            return path
        at = len(path)
        while at > 0:  # the longest that is declared
            if (own := self.names.paths.get(path[:at])) is not None:
                return own + path[at:]
            at = path.rfind("/", 0, at)
        return path

    def account(self, name: str) -> str:
        """What a user or a group that a package brings is called here."""
        return self.names.accounts.get(name, name)

    def _unit_part(self, part: str) -> str:
        unit = part.removesuffix(".d")
        return self.unit(unit) + part[len(unit) :]


@dataclass(frozen=True)
class Wheel:
    """A pinned Python wheel."""

    file: str
    sha256: str


@dataclass(frozen=True)
class PyTorch:
    """Which PyTorch the workers get: pinned wheels, or the distribution's own package where there are none."""

    version: str
    build: Literal["wheel", "distribution"]
    wheels: tuple[Wheel, ...]  # torch itself first; empty for the distribution's build

    @property
    def modules(self) -> frozenset[str]:
        """The modules of its wheels."""
        return frozenset(wheel.file.split("-")[0].lower() for wheel in self.wheels)

    @property
    def python(self) -> str:
        """The interpreter on a worker that can import torch."""
        return "/opt/hpcforge/pytorch/bin/python" if self.build == "wheel" else "/usr/bin/python3"


@dataclass(frozen=True)
class Framework:
    """A framework beside PyTorch that the workers get as pinned wheels."""

    name: str
    title: str
    version: str
    use: str  # Python statements that fail where it does not work
    wheels: tuple[Wheel, ...]  # the framework itself first
    environment: str  # its folder below /opt/hpcforge: its name, of further versions with the version

    @property
    def default(self) -> bool:
        """Whether it is what jobs get without a version."""
        return self.environment == self.name

    @property
    def python(self) -> str:
        """The interpreter on a worker that can import it."""
        return f"/opt/hpcforge/{self.environment}/bin/python"


@dataclass(frozen=True)
class Platform:
    """The release of the distribution that a node has, and the frameworks that it gets there."""

    os: OperatingSystem
    pytorch: PyTorch | None
    frameworks: tuple[Framework, ...] = ()


@dataclass(frozen=True)
class SiteRole:
    """A site's own Ansible role, and the nodes it runs on."""

    name: str
    path: Path
    on: tuple[str, ...]


_SAMPLE = 50  # nodes and accounts that each node compares

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
        used = next((each for each in self.topologies if partition.topology in (None, each.plugin)), None)
        given = {name.lower(): value.lower() for name, value in self.settings}
        optional = "topooptional" in given.get("topologyparam", "")  # it counts for jobs with --switches alone
        return parts(used, nodes) if used and used.plugin != "flat" and not optional else (tuple(nodes),)

    def block(self, name: str) -> frozenset[str]:
        """Return the nodes of a node's block, where a topology has blocks."""
        blocks = (block.nodes for topology in self.topologies for block in topology.blocks if name in block.nodes)
        return frozenset(next(blocks, ()))

    def cut(self, nodes: Collection[str]) -> str | None:
        """Return why no job can have all of these nodes in any partition that holds them; None if one can."""
        holding = [partition for partition in self.partitions if {*nodes} <= {*partition.nodes}]
        pieces = [self.parts(nodes, partition) for partition in holding]
        if not pieces or any(len(each) < 2 for each in pieces):
            return None
        return f"{' and '.join(map(fold, pieces[0]))} are apart in the topology of Slurm: no job has nodes of two"

    @property
    def partition_qos(self) -> tuple[str, ...]:
        """The blueprint's QOS that partitions name: slurmctld does not start without them."""
        lists = [partition.qos or "" for partition in self.partitions]
        settings = [setting for partition in self.partitions for setting in partition.settings]
        lists += [value for key, value in settings if key.lower() in ("allowqos", "denyqos")]
        named = {f"qos {name}" for names in lists for name in names.lower().split(",")}
        return tuple(qos.name.split()[1] for qos in self.associations if qos.name in named)


@dataclass(frozen=True)
class Measure:
    """A number that a smoke test reports."""

    name: str
    unit: str  # "1": it has none
    better: Literal["higher", "lower"] | None = None
    shown: Literal["number", "count", "size", "text"] = "number"
    per: Literal["rank"] | None = None  # rank: each rank reports its own
    between: Literal["ranks", "local_ranks"] | None = None  # it takes two of the job, or two of each node


@dataclass(frozen=True)
class Threshold:
    """The limit of a measure: a number, or a fraction of the nodes' median."""

    measure: str
    bound: Bound
    number: float


@dataclass(frozen=True)
class TransportRule:
    """The transport that ranks must use. Names are as NCCL's log spells them."""

    network: str | None = None  # of gloo: "nodes", or a network of the blueprint; None: any
    rdma_only: bool = False  # the rest holds only between nodes on one InfiniBand or RoCE fabric
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedModule:
    """A module beside smoke tests' folders, which programs import."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class SmokeTestProgram:
    """What a smoke test runs, and what it must say: its folder, read."""

    name: str = ""
    text: str = field(default="", repr=False)
    launcher: LauncherName = "torchrun"
    measures: tuple[Measure, ...] = ()
    headline: str = ""
    lines: tuple[Threshold, ...] = ()
    options: tuple[tuple[str, str], ...] = ()  # with their defaults, as the program is told
    pytorch: bool = True
    gpus: Literal["any", "real"] | None = None
    pytorch_at_least: str | None = None  # the lowest version, two numbers
    min_nodes: int = 1
    imports: tuple[ImportedModule, ...] = ()
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()  # that it imports
    ranks: RankNeeds = field(default=RankNeeds())
    scratch: Literal["shared"] | None = None  # None: any
    framework: str | None = None  # beside PyTorch, whose Python runs it
    container: ContainerName | None = None  # the runtime that its ranks run in
    declared: bool = False  # it reads what the blueprint declares of its node
    launches: tuple[ProgramLaunch, ...] = ()  # none: a single one
    isolates: bool = False  # rounds of launches name what is bad
    description: str = ""
    level: Level = "smoke"
    transport: TransportRule | None = None  # None: any
    derived: tuple[tuple[str, Operation | OneGpu], ...] = ()  # measures and the operations that bound them

    @property
    def ranked(self) -> bool:
        """Whether any launch starts ranks: rank 0 reports for all."""
        names = [launch.launcher for launch in self.launches] or [self.launcher]
        return any(LAUNCHERS[name].ranked for name in names)

    @property
    def wants_whole_gpus(self) -> bool:
        """Whether its ranks take a GPU each, where there are any."""
        return self.pytorch or self.gpus is not None

    def has_gpus(self, node: Node) -> bool:
        """Whether a node has the GPUs that it needs."""
        return self.gpus is None or (node.gpus is not None and not (self.gpus == "real" and node.gpus.fake))


@dataclass(frozen=True)
class SmokeTest:
    """One acceptance test and the nodes that it spans; of a test with several sets there is one for each."""

    name: str
    nodes: tuple[str, ...]
    time_limit_s: int
    program: SmokeTestProgram = field(default=SmokeTestProgram(), compare=False)
    options: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # those that are not at their defaults


@dataclass(frozen=True)
class Acceptance:
    """Tests that must pass before the cluster counts as working."""

    run_as: str
    tests: tuple[SmokeTest, ...]


@dataclass(frozen=True)
class Rollout:
    """How carefully nodes that are in service are changed. None and 0: no such limit."""

    canary: int = 0  # nodes of each group that go through to their checks before the rest of it moves
    at_most: int | None = None  # workers that are being changed at a time
    stop_after_failures: int | None = None  # failed nodes after which no further node is begun
    busy_wait_s: float = 600.0  # how long a node's running jobs are waited for before its change is deferred
    reboot_wait_s: float = 1200.0  # how long a node that restarts is waited for; large machines test themselves long
    # For units, checks and a new connection, before a node takes back a change that could lock hpcforge out.
    confirm_wait_s: float = 60.0

    @classmethod
    def cautious(cls, nodes: int) -> Rollout:
        """Without a word of the blueprint: above 4 nodes one canary, 8 at a time, an end after 2 failures."""
        return cls(canary=1, at_most=8, stop_after_failures=2) if nodes > 4 else cls()


@cache
def _indented(text: str) -> str:
    """JSON in lines: json needs a tenth of a millisecond for it, and a plan has thousands of nodes that are alike."""
    return json.dumps(json.loads(text), indent=1, sort_keys=True)


@dataclass(frozen=True)
class Cluster:
    """Everything hpcforge knows about a cluster before it contacts a node."""

    name: str
    domain: str
    access: Access
    nodes: tuple[Node, ...]
    network: Network  # that node addresses are on
    services: Mapping[str, Service]  # all that roles offer, by name
    os: OperatingSystem
    pytorch: PyTorch | None
    site_roles: tuple[SiteRole, ...]
    slurm: Slurm
    users: tuple[User, ...]
    acceptance: Acceptance | None
    rollout: Rollout = Rollout()
    networks: tuple[Network, ...] = ()  # all of them, `network` first
    fabrics: tuple[FabricOf, ...] = ()
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of roles, by role and name
    rehearsed_variables: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict
    )  # that have others in rehearsals
    groups: tuple[UserGroup, ...] = ()  # that users share
    gpu_models: Mapping[str, GpuModel] = field(default_factory=dict)  # those that nodes have
    storage: tuple[FileSystem, ...] = ()  # that nodes share
    driver: str | None = None  # version of NVIDIA's, installed or brought; None: not said
    nvidia: Nvidia | None = None  # None: hpcforge installs no driver
    amd: Amd | None = None  # None: hpcforge installs no ROCm
    feeds: tuple[PowerFeed, ...] = ()  # of the site
    power_turns: tuple[tuple[str, ...], ...] = ()  # workers that the design's power carries at once; none: not computed
    # By file system what each client reads and writes when all are active, GB/s, as designed; None: not known.
    storage_shares: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    frameworks: tuple[Framework, ...] = ()  # beside PyTorch
    shared_cores: bool = False  # all nodes share those of one machine, as in a rehearsal
    container_runtimes: tuple[str, ...] = ()  # of the workers, by the words of `software.containers.runtimes`

    @cached_property
    def programs(self) -> tuple[SmokeTestProgram, ...]:
        """Of the smoke tests that can run here, each once."""
        programs = [test.program for test in self.acceptance.tests] if self.acceptance else []
        return tuple(dict.fromkeys(program for program in programs if self.pytorch or not program.pytorch))

    @property
    def test_imports(self) -> tuple[ImportedModule, ...]:
        """The modules that programs of smoke tests share, each once; not the tests among them that run themselves."""
        modules = dict.fromkeys(module for program in self.programs for module in program.imports)
        own = {program.name for program in self.programs}
        return tuple(module for module in modules if module.name not in own)

    @property
    def test_packages(self) -> tuple[str, ...]:
        """The packages of smoke tests and of the modules that no wheels bring."""
        return tuple(dict.fromkeys(package for program in self.programs for package in self.packages_of(program)))

    def packages_of(self, program: SmokeTestProgram) -> tuple[str, ...]:
        """The packages that a smoke test needs of the distribution: its own, and of modules that no wheels bring."""
        by_wheels = program.pytorch and self.pytorch is not None and self.pytorch.build == "wheel"
        modules = () if by_wheels else program.modules
        return (*program.packages, *(f"python3-{module.lower().replace('_', '-')}" for module in modules))

    def seen_from(self, platform: Platform | None) -> Cluster:
        """The cluster as the roles of a node know it: with the release that the node has."""
        if platform is None:
            return self
        return replace(self, os=platform.os, pytorch=platform.pytorch, frameworks=platform.frameworks)

    def framework(self, name: str | None, node: Node | None = None) -> Framework | None:
        """The default version of a framework, as a node has it; or the first that has a build for the node."""
        platform = node.platform if node else None
        return next((each for each in (platform or self).frameworks if each.name == name), None)

    @property
    def framework_wheels(self) -> tuple[Wheel, ...]:
        """The wheels of all frameworks beside PyTorch, each once."""
        return tuple(dict.fromkeys(wheel for framework in self.frameworks for wheel in framework.wheels))

    def os_of(self, node: str) -> OperatingSystem:
        """The distribution that a node has."""
        platform = self.by_name[node].platform
        return platform.os if platform else self.os

    @cached_property
    def slurm_versions(self) -> tuple[tuple[int, ...], ...]:
        """The releases of Slurm on its nodes, oldest first. What all nodes are handed has to suit the oldest."""
        return tuple(sorted({self.os_of(name).slurm_version for name in self.by_name}))

    @property
    def slurm_settings(self) -> tuple[str, ...] | None:
        """The names that each of its Slurms takes in slurm.conf; None for a release that the catalog does not have."""
        systems = dict.fromkeys(map(self.os_of, self.by_name))
        known = [os.slurm_settings for os in systems]
        if None in known:
            return None
        first, *others = [names for names in known if names is not None]
        return tuple(name for name in first if all(name in names for names in others))

    def shared_by(self, nodes: Collection[str]) -> tuple[FileSystem, ...]:
        """The file systems with the same files on all these nodes."""
        return tuple(system for system in self.storage if system.drives is None and {*nodes} <= {*system.on})

    @property
    def dn(self) -> str:
        """The domain as a directory has it, `dc=hpc,dc=example,dc=org`."""
        return ",".join(f"dc={part}" for part in self.domain.split("."))

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.name: node for node in self.nodes}

    @property
    def accounting_hosts(self) -> tuple[str, ...]:
        """Where slurmdbd is, ours or the site's with its backup: an address, or names; none without accounting."""
        accounting = self.services["accounting"]
        return (self.by_name[accounting.host].address,) if accounting.host else accounting.external

    @property
    def memberships(self) -> tuple[str, ...]:
        """Who is in which shared group, USER:GROUP."""
        return tuple(f"{user.name}:{group}" for user in self.users for group in user.groups)

    @property
    def homes(self) -> FileSystem | None:
        """What has the homes of users; None: each node has its own, in /home."""
        return next((file_system for file_system in self.storage if file_system.homes), None)

    def file_systems(self, node: Node) -> tuple[FileSystem, ...]:
        """Those that a node mounts, as it mounts them."""
        return tuple(file_system.at(node.name) for file_system in self.storage if node.name in file_system.known)

    def address(self, node: str, system: FileSystem) -> str:
        """The address of a node on the network over which a file system is served."""
        machine = self.by_name[node]
        return machine.addresses.get(system.network or "", machine.address)

    def clients(self, system: FileSystem) -> tuple[str, ...]:
        """The addresses of those that mount a file system over the network, put together to subnets where all are."""
        others = map(ipaddress.IPv4Network, self.client_addresses(system))
        return tuple(str(subnet).removesuffix("/32") for subnet in ipaddress.collapse_addresses(others))

    def client_addresses(self, system: FileSystem) -> tuple[str, ...]:
        """The address of each that mounts a file system over the network."""
        itself = None if system.spread else system.server  # which binds its own folder
        return tuple(self.address(name, system) for name in system.on if name != itself)

    def bricks(self, node: Node) -> tuple[Brick, ...]:
        """What a node has of file systems that several serve together."""
        return tuple(brick for file_system in self.storage for brick in file_system.bricks if brick.node == node.name)

    def collectives(self, fabrics: Collection[str]) -> Collectives:
        """NCCL and UCX settings for nodes on these fabrics, by name."""
        plugged = [fabric for fabric in self.fabrics if fabric.name in fabrics]
        others = [network for network in self.networks if network.name != self.network.name]
        return collectives(plugged, self.network, others, self.pytorch.wheels if self.pytorch else ())

    def fabric_between(self, nodes: Iterable[Node], *, rdma: bool = True) -> FabricOf | None:
        """Return the fabric of collectives between some nodes: that of NCCL and UCX, else the one of the IP network.

        None: none is declared that all are on, or some nodes use another one. Without `rdma` they use IP.
        """
        plugged = {node.fabrics for node in nodes}
        used = {rdma_fabric(fabric for fabric in self.fabrics if rdma and fabric.name in names) for names in plugged}
        if used != {None}:
            return next(iter(used)) if len(used) == 1 else None
        of_network = (fabric for fabric in self.fabrics if fabric.name == self.network.fabric)
        return next((fabric for fabric in of_network if all(fabric.name in names for names in plugged)), None)

    @cached_property
    def turns(self) -> Mapping[str, int]:
        """Which of the `power_turns`, from 0, each worker is in; all are in one if there are none."""
        turns = self.power_turns or (tuple(worker.name for worker in self.workers),)
        return {name: number for number, turn in enumerate(turns) for name in turn}

    @cached_property
    def account_numbers(self) -> Mapping[str, int]:
        """Return the number of each account, of 50 at most."""
        return {user.name: user.uid for user in self.users[:_SAMPLE]}

    @cached_property
    def some_hosts(self) -> Mapping[str, str]:
        """Return the addresses of 50 nodes at most, evenly chosen; none without DNS, as names need not resolve then."""
        dns = self.services.get("dns")
        if dns is None or not (dns.on or dns.external):
            return {}
        step = -(-len(self.nodes) // _SAMPLE)
        return {node.name: node.address for node in self.nodes[:: max(1, step)]}

    def declared(self, node: Node) -> str:
        """What the blueprint declares of a node, as JSON, for smoke tests that compare it."""
        return _indented(json.dumps(declared(self, node)))

    def interfaces(self, node: Node) -> tuple[Interface, ...]:
        """What a node's networks are set up as, where the blueprint asks for it."""
        return interfaces(self, node)

    def with_function(self, function: Function) -> tuple[Node, ...]:
        """The nodes that have a function, in blueprint order."""
        return tuple(node for node in self.nodes if function in node.functions)

    @property
    def workers(self) -> tuple[Node, ...]:
        """The nodes that run jobs."""
        return self.with_function("worker")

    @property
    def login_nodes(self) -> tuple[str, ...]:
        """Return the nodes where people log in and compile: login nodes, or without one the Slurm controller."""
        return tuple(node.name for node in self.with_function("login")) or (self.slurm.controller,)

    @property
    def reserves(self) -> tuple[tuple[int, int], ...]:
        """What is kept from jobs on workers, cores and MiB: each pair that there is, once."""
        return tuple(dict.fromkeys((node.reserve_cores, node.reserve_memory_mib) for node in self.workers))

    def job_memory_mib(self, node: Node) -> int:
        """What jobs may have of a worker's memory, MiB."""
        return node.memory_mib - node.reserve_memory_mib

    def job_cpus(self, node: Node) -> int:
        """What jobs may have of a worker's hardware threads."""
        return node.cpus - node.reserve_cores * node.threads_per_core

    def memory_mib_per_cpu(self, partition: Partition) -> int | None:
        """What a job that asks for no memory gets with each hardware thread, MiB; None where settings say.

        A job with all threads of the partition's least node gets all of its memory. Slurm's own default is a node's
        whole memory for any job, which keeps all others off it.
        """
        settings = (*self.slurm.settings, *partition.settings)
        if any(key.lower().startswith("defmemper") for key, _ in settings):
            return None
        nodes = [self.by_name[name] for name in partition.nodes]
        return max(1, min(self.job_memory_mib(node) // max(1, self.job_cpus(node)) for node in nodes))
