"""What a blueprint declares of a node, as a smoke test gets it: declared.json beside its program. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

from hpcforge.cluster.interfaces import is_on

if TYPE_CHECKING:
    from hpcforge.cluster.model import Cluster, FabricOf, Node


class DeclaredGpus(TypedDict):
    """The GPUs of a node."""

    kind: str  # nvidia, amd; fake: a rehearsal's stand-ins
    model: str
    devices: list[str]  # device files
    models: list[str]  # what the driver calls them; empty: not known


class DeclaredLink(TypedDict):
    """A network interface or an adapter of a node."""

    of: str  # a network or a fabric
    interface: str | None  # None: the one with an address of the network
    network: str | None  # in which it has its address; None: an adapter without one
    rate_gbps: float | None  # None: not declared
    mtu: int | None  # bytes; None: not declared


class DeclaredMount(TypedDict):
    """A file system that a node mounts."""

    path: str
    shared: bool  # other nodes have the same files there
    read_gb_per_s: float | None  # each client's share as designed; None: not known
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
    accounts: dict[str, int]  # numbers of users
    hosts: dict[str, str]  # addresses of some nodes
    time_servers: list[str]  # addresses or names; empty: the node itself
    turn: int  # that the design's power gives it, from 0; -1: none
    turns: int


def declared(cluster: Cluster, node: Node) -> Declared:
    """Return what the blueprint declares of a node."""
    time = cluster.services["time"]
    gpus = node.gpus
    known = cluster.gpu_models.get(gpus.model) if gpus else None
    servers = () if node.name in time.on else tuple(cluster.by_name[name].address for name in time.on)
    return {
        "hardware": node.hardware,
        "cpus": node.cpus,
        "memory_mib": cluster.job_memory_mib(node),
        "gpus": {
            "kind": "fake" if gpus.fake else gpus.vendor,
            "model": gpus.model,
            "devices": list(gpus.devices),
            "models": list(known.driver_names) if known else [],
        }
        if gpus
        else None,
        "links": [*_networks(cluster, node), *_adapters(cluster, node)],
        "mounts": list(_mounts(cluster, node)),
        "accounts": dict(cluster.account_numbers),
        "hosts": dict(cluster.some_hosts),
        "time_servers": [*servers, *(time.external if not time.on else ())],
        "turn": cluster.turns.get(node.name, -1),
        "turns": len(cluster.power_turns) or 1,
    }


def _fabric(cluster: Cluster, node: Node, name: str | None) -> FabricOf | None:
    return next((fabric for fabric in cluster.fabrics if fabric.name == name and name in node.fabrics), None)


def _networks(cluster: Cluster, node: Node) -> Iterator[DeclaredLink]:
    for network in cluster.networks or (cluster.network,):
        if is_on(cluster, node, network):
            yield {
                "of": network.name,
                "interface": None,
                "network": network.cidr,
                "rate_gbps": next(
                    (fabric.rate_gbps for fabric in _of(cluster, node) if fabric.name == network.fabric), None
                ),
                "mtu": network.mtu,
            }


def _adapters(cluster: Cluster, node: Node) -> Iterator[DeclaredLink]:
    for fabric in _of(cluster, node):
        for name in fabric.interfaces:
            yield {"of": fabric.name, "interface": name, "network": None, "rate_gbps": fabric.rate_gbps, "mtu": None}


def _of(cluster: Cluster, node: Node) -> list[FabricOf]:
    return [fabric.at(node.name) for fabric in cluster.fabrics if fabric.name in node.fabrics and not fabric.bmc]


def _mounts(cluster: Cluster, node: Node) -> Iterator[DeclaredMount]:
    for system in cluster.file_systems(node):
        read, write = cluster.storage_shares.get(system.name, (None, None))
        shared = system.drives is None
        yield {"path": system.mount, "shared": shared, "read_gb_per_s": read, "write_gb_per_s": write}
