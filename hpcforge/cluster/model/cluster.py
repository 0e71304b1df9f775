"""The cluster as a whole, and its declarations of each node for smoke tests."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from hpcforge.cluster.collectives import Collectives, collectives, rdma_fabric
from hpcforge.cluster.interfaces import Interface, interfaces, is_on
from hpcforge.cluster.model.acceptance import Acceptance, ImportedModule, SmokeTestProgram
from hpcforge.cluster.model.gpus import GpuModel, Gpus
from hpcforge.cluster.model.network import FabricOf, Network
from hpcforge.cluster.model.node import Access, Function, Node
from hpcforge.cluster.model.slurm import Partition, Slurm
from hpcforge.cluster.model.software import (
    Framework,
    OperatingSystem,
    Platform,
    PyTorch,
    Service,
    SiteRole,
    Wheel,
)
from hpcforge.cluster.nvidia import Amd, Nvidia
from hpcforge.cluster.people import User, UserGroup
from hpcforge.cluster.storage import FileSystem

if TYPE_CHECKING:
    from hpcforge.design.facility.design import PowerFeed


# The declared facts of a node for a smoke test: declared.json beside its program.
class DeclaredGpus(TypedDict):
    """The GPUs of a node."""

    kind: str  # nvidia or amd; fake: stand-ins of a rehearsal
    model: str
    devices: list[str]  # device files
    models: list[str]  # the driver's names for it; empty: not known


class DeclaredLink(TypedDict):
    """A network interface or an adapter of a node."""

    of: str  # a network or a fabric
    interface: str | None  # None: the interface with an address of the network
    network: str | None  # the network of its address; None: an adapter without an address
    rate_gbps: float | None  # None: not declared
    mtu: int | None  # bytes; None: not declared


class DeclaredMount(TypedDict):
    """A file system that a node mounts."""

    path: str
    shared: bool  # other nodes have the same files there
    read_gb_per_s: float | None  # each client's designed share; None: not known
    write_gb_per_s: float | None


class Declared(TypedDict):
    """A node as declared. Memory is what jobs may have, as for admission; a reserve is not compared.

    Nodes that are alike have the same: a plan makes it for thousands.
    """

    hardware: str
    cpus: int
    memory_mib: int
    gpus: DeclaredGpus | None
    links: list[DeclaredLink]
    mounts: list[DeclaredMount]
    time_servers: list[str]  # addresses or names; empty: the node itself
    turn: int  # the node's turn in the design's power, from 0; -1: none
    turns: int


def declared(cluster: Cluster, node: Node) -> Declared:
    """Return what the blueprint declares of a node alone."""
    time = cluster.services["time"]
    gpus = node.gpus
    gpu_model = cluster.gpu_models.get(gpus.model) if gpus else None
    servers = () if node.name in time.on else tuple(cluster.by_name[name].address for name in time.on)
    return {
        "hardware": node.hardware,
        "cpus": node.cpus,
        "memory_mib": cluster.job_memory_mib(node),
        "gpus": {
            "kind": "fake" if gpus.fake else gpus.vendor,
            "model": gpus.model,
            "devices": list(gpus.devices),
            "models": list(gpu_model.driver_names) if gpu_model else [],
        }
        if gpus
        else None,
        "links": [*_networks(cluster, node), *_adapters(cluster, node)],
        "mounts": list(_mounts(cluster, node)),
        "time_servers": [*servers, *(time.external if not time.on else ())],
        "turn": cluster.turns.get(node.name, -1),
        "turns": len(cluster.power_turns) or 1,
    }


def _networks(cluster: Cluster, node: Node) -> Iterator[DeclaredLink]:
    for network in cluster.networks or (cluster.network,):
        if is_on(cluster, node, network):
            yield {
                "of": network.name,
                "interface": None,
                "network": network.cidr,
                "rate_gbps": next(
                    (fabric.rate_gbps for fabric in _node_fabrics(cluster, node) if fabric.name == network.fabric), None
                ),
                "mtu": network.mtu,
            }


def _adapters(cluster: Cluster, node: Node) -> Iterator[DeclaredLink]:
    for fabric in _node_fabrics(cluster, node):
        for name in fabric.interfaces:
            yield {"of": fabric.name, "interface": name, "network": None, "rate_gbps": fabric.rate_gbps, "mtu": None}


def _node_fabrics(cluster: Cluster, node: Node) -> list[FabricOf]:
    return [fabric.at(node.name) for fabric in cluster.fabrics if fabric.name in node.fabrics and not fabric.bmc]


def _mounts(cluster: Cluster, node: Node) -> Iterator[DeclaredMount]:
    for system in cluster.file_systems(node):
        read, write = cluster.storage_shares.get(system.name, (None, None))
        shared = system.drives is None
        yield {"path": system.mount, "shared": shared, "read_gb_per_s": read, "write_gb_per_s": write}


_SAMPLE = 50  # nodes and accounts that each node compares


@dataclass(frozen=True)
class Rollout:
    """Limits for changes of nodes in service. None and 0: no limit."""

    canary: int = 0  # nodes of each group that finish their checks before the others begin
    at_most: int | None = None  # workers that change at the same time
    stop_after_failures: int | None = None  # number of failed nodes after which no further node begins
    busy_wait_s: float = 600.0  # wait for a node's running jobs before its change is deferred
    reboot_wait_s: float = 1200.0  # wait for a node that restarts; large machines test themselves for long
    # Wait for units, checks and a new connection before a node reverts a change that could lock hpcforge out.
    confirm_wait_s: float = 60.0

    @classmethod
    def cautious(cls, nodes: int) -> Rollout:
        """Without a word of the blueprint: above 4 nodes one canary, 8 at a time, an end after 2 failures."""
        return cls(canary=1, at_most=8, stop_after_failures=2) if nodes > 4 else cls()


@cache
def _indented(*texts: str) -> str:
    """JSON in lines: json needs a tenth of a millisecond for it, and a plan has thousands of nodes that are alike."""
    return json.dumps(
        {key: value for text in texts for key, value in json.loads(text).items()}, indent=1, sort_keys=True
    )


@dataclass(frozen=True)
class Cluster:
    """Everything hpcforge knows about a cluster before it contacts a node."""

    name: str
    domain: str
    access: Access
    nodes: tuple[Node, ...]
    network: Network  # the network of node addresses
    services: Mapping[str, Service]  # every service that roles offer, by name
    os: OperatingSystem
    pytorch: PyTorch | None
    site_roles: tuple[SiteRole, ...]
    slurm: Slurm
    users: tuple[User, ...]
    acceptance: Acceptance | None
    rollout: Rollout = Rollout()
    networks: tuple[Network, ...] = ()  # every network, `network` first
    fabrics: tuple[FabricOf, ...] = ()
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # values by role and name
    rehearsed_variables: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict
    )  # values of rehearsals that differ
    groups: tuple[UserGroup, ...] = ()  # groups shared by users
    gpu_models: Mapping[str, GpuModel] = field(default_factory=dict)  # models in nodes
    storage: tuple[FileSystem, ...] = ()  # file systems shared by nodes
    driver: str | None = None  # NVIDIA's version, installed by hpcforge or preinstalled; None: not set
    nvidia: Nvidia | None = None  # None: hpcforge installs no driver
    amd: Amd | None = None  # None: hpcforge installs no ROCm
    feeds: tuple[PowerFeed, ...] = ()  # feeds of the site
    power_turns: tuple[tuple[str, ...], ...] = ()  # workers that power allows to start together; (): not computed
    # GB/s that each client reads and writes by design while all are active, by file system; None: not known.
    storage_shares: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    frameworks: tuple[Framework, ...] = ()  # frameworks besides PyTorch
    shared_cores: bool = False  # all nodes share the cores of one machine, as in a rehearsal
    container_runtimes: tuple[str, ...] = ()  # runtimes of the workers, in the words of `software.containers.runtimes`

    @cached_property
    def programs(self) -> tuple[SmokeTestProgram, ...]:
        """The programs of all smoke tests that can run here, each once."""
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
        """Return the distribution's packages for a smoke test: its own, and those of modules that no wheels bring."""
        by_wheels = program.pytorch and self.pytorch is not None and self.pytorch.build == "wheel"
        modules = () if by_wheels else program.modules
        return (*program.packages, *(f"python3-{module.lower().replace('_', '-')}" for module in modules))

    def seen_from(self, platform: Platform | None) -> Cluster:
        """Return the cluster as the roles of a node see it: with the node's release."""
        if platform is None:
            return self
        return replace(self, os=platform.os, pytorch=platform.pytorch, frameworks=platform.frameworks)

    def framework(self, name: str | None, node: Node | None = None) -> Framework | None:
        """Return the default version of a framework on a node; or the first that has a build for the node."""
        platform = node.platform if node else None
        return next((framework for framework in (platform or self).frameworks if framework.name == name), None)

    @property
    def framework_wheels(self) -> tuple[Wheel, ...]:
        """The wheels of all frameworks beside PyTorch, each once."""
        return tuple(dict.fromkeys(wheel for framework in self.frameworks for wheel in framework.wheels))

    def os_of(self, node: str) -> OperatingSystem:
        """Return the distribution of a node."""
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
        settings = [os.slurm_settings for os in systems]
        if None in settings:
            return None
        first, *others = [names for names in settings if names is not None]
        return tuple(name for name in first if all(name in names for names in others))

    def shared_by(self, nodes: Collection[str]) -> tuple[FileSystem, ...]:
        """Return the file systems with the same files on all these nodes."""
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
        """The hosts of slurmdbd, in the cluster or outside with its backup; none without accounting."""
        accounting = self.services["accounting"]
        return (self.by_name[accounting.host].address,) if accounting.host else accounting.external

    @property
    def memberships(self) -> tuple[str, ...]:
        """Members of shared groups, as USER:GROUP."""
        return tuple(f"{user.name}:{group}" for user in self.users for group in user.groups)

    @property
    def homes(self) -> FileSystem | None:
        """The file system with the homes of users; None: each node has its own, in /home."""
        return next((file_system for file_system in self.storage if file_system.homes), None)

    def file_systems(self, node: Node) -> tuple[FileSystem, ...]:
        """Return the file systems that a node mounts, in its form."""
        return tuple(file_system.at(node.name) for file_system in self.storage if node.name in file_system.known)

    def address(self, node: str, system: FileSystem) -> str:
        """Return the address of a node on the network over which a file system is served."""
        machine = self.by_name[node]
        return machine.addresses.get(system.network or "", machine.address)

    def clients(self, system: FileSystem) -> tuple[str, ...]:
        """Return the addresses of a file system's clients on the network, joined to subnets of clients only."""
        clients = (name for name in system.on if name != system.server)  # the server bind-mounts its own folder
        others = (ipaddress.IPv4Network(self.address(name, system)) for name in clients)
        return tuple(str(subnet).removesuffix("/32") for subnet in ipaddress.collapse_addresses(others))

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
        """The turn of each worker in `power_turns`, from 0; without turns all have the same."""
        turns = self.power_turns or (tuple(worker.name for worker in self.workers),)
        return {name: number for number, turn in enumerate(turns) for name in turn}

    @cached_property
    def account_numbers(self) -> Mapping[str, int]:
        """The number of each account, of 50 at most."""
        return {user.name: user.uid for user in self.users[:_SAMPLE]}

    @cached_property
    def some_hosts(self) -> Mapping[str, str]:
        """The addresses of 50 nodes at most, evenly chosen; none without DNS, as names need not resolve then."""
        dns = self.services.get("dns")
        if dns is None or not (dns.on or dns.external):
            return {}
        step = -(-len(self.nodes) // _SAMPLE)
        return {node.name: node.address for node in self.nodes[:: max(1, step)]}

    def declared(self, node: Node) -> str:
        """Return the blueprint's declaration of a node, as JSON, for smoke tests that compare it."""
        return _indented(self._declared_for_all, json.dumps(declared(self, node)))

    @cached_property
    def _declared_for_all(self) -> str:
        """Numbers of users and addresses of some nodes: most of what is declared, and the same for all nodes."""
        return json.dumps({"accounts": dict(self.account_numbers), "hosts": dict(self.some_hosts)})

    def interfaces(self, node: Node) -> tuple[Interface, ...]:
        """Return the interfaces of a node's networks, where the blueprint requests their set-up."""
        return interfaces(self, node)

    def with_function(self, function: Function) -> tuple[Node, ...]:
        """Return the nodes that have a function, in blueprint order."""
        return tuple(node for node in self.nodes if function in node.functions)

    @property
    def workers(self) -> tuple[Node, ...]:
        """The nodes that run jobs."""
        return self.with_function("worker")

    @cached_property
    def worker_kinds(self) -> tuple[tuple[Node, ...], ...]:
        """The workers, grouped by what slurm.conf has of them: hardware, reserve, features and weight."""
        kinds: dict[object, list[Node]] = {}
        for node in self.workers:
            shape = (node.sockets, node.cores_per_socket, node.threads_per_core, node.reserve_cores)
            gres = node.gpus.slurm_gres if node.gpus else None
            kind = (*shape, self.job_memory_mib(node), gres, node.features, node.weight)
            kinds.setdefault(kind, []).append(node)
        return tuple(map(tuple, kinds.values()))

    @cached_property
    def gpu_kinds(self) -> Mapping[Gpus, tuple[str, ...]]:
        """The workers with GPUs, grouped by these."""
        kinds: dict[Gpus, list[str]] = {}
        for node in self.workers:
            if node.gpus:
                kinds.setdefault(node.gpus, []).append(node.name)
        return {gpus: tuple(names) for gpus, names in kinds.items()}

    @property
    def login_nodes(self) -> tuple[str, ...]:
        """The nodes where people log in and compile: login nodes, or without one the Slurm controller."""
        return tuple(node.name for node in self.with_function("login")) or (self.slurm.controller,)

    @property
    def reserves(self) -> tuple[tuple[int, int], ...]:
        """The cores and MiB that workers keep from jobs: each different pair once."""
        return tuple(dict.fromkeys((node.reserve_cores, node.reserve_memory_mib) for node in self.workers))

    def job_memory_mib(self, node: Node) -> int:
        """Return the part of a worker's memory that jobs may use, MiB."""
        return node.memory_mib - node.reserve_memory_mib

    def job_cpus(self, node: Node) -> int:
        """Return the number of a worker's hardware threads that jobs may use."""
        return node.cpus - node.reserve_cores * node.threads_per_core

    def memory_mib_per_cpu(self, partition: Partition) -> int | None:
        """Return the memory that a job gets by default with each hardware thread, MiB; None where settings have it.

        A job with all threads of the partition's least node gets all of its memory. Slurm's own default is a node's
        whole memory for any job, which keeps all others off it.
        """
        settings = (*self.slurm.settings, *partition.settings)
        if any(key.lower().startswith("defmemper") for key, _ in settings):
            return None
        nodes = [self.by_name[name] for name in partition.nodes]
        return max(1, min(self.job_memory_mib(node) // max(1, self.job_cpus(node)) for node in nodes))
