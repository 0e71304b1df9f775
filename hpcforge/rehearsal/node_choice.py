"""The nodes of a cluster to rehearse."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.blueprint.sections.hardware import Server
from hpcforge.blueprint.values import counted
from hpcforge.cluster.interfaces import bonded, carried, own_networks, port_below
from hpcforge.cluster.model import Cluster, Node
from hpcforge.cluster.select import select
from hpcforge.rehearsal.lab_facts import Card

_OF_EACH_GROUP = 3  # workers


def chosen(cluster: Cluster, node_set: str | None) -> tuple[str, ...]:
    """Return the nodes to rehearse, in the cluster's order: those of the node set `node_set`, else a sample of each
    kind.

    The default is every node with a function other than worker, the first three workers of each group, and the first
    node of a partition without any of these. Nodes that carry a service are always included. Raise `SelectionError`
    if `node_set` names no node.
    """
    selected = select(cluster, [node_set], []) if node_set else (*_of_each_kind(cluster),)
    needed = {*selected, *carriers(cluster)}
    return tuple(node.name for node in cluster.nodes if node.name in needed)


def carriers(cluster: Cluster) -> set[str]:
    """Return the nodes that carry a service, or have files of others, Slurm's controller among them."""
    servers = {file_system.server for file_system in cluster.storage if file_system.server}
    return {cluster.slurm.controller, *servers, *(name for service in cluster.services.values() for name in service.on)}


def _of_each_kind(cluster: Cluster) -> Iterator[str]:
    yield from (node.name for node in cluster.nodes if {*node.functions} - {"worker"})
    workers: dict[str, list[str]] = {}
    for node in cluster.workers:
        workers.setdefault(node.group, []).append(node.name)
    first = {name for names in workers.values() for name in names[:_OF_EACH_GROUP]}
    yield from first
    yield from (partition.nodes[0] for partition in cluster.slurm.partitions if not first.intersection(partition.nodes))


# The network cards and drives of a lab's machine, by its blueprint. Pure.


_MOST_DRIVES = 8  # of a machine of a lab
_EMULATED = ("ethernet", "roce")  # RoCE is Ethernet


def cards(cluster: Cluster, node: Node) -> tuple[Card, ...]:
    """Return a card for each link that carries networks of a node; the first is on the lab's own segment."""
    fabrics = {fabric.name: fabric.at(node.name) for fabric in cluster.fabrics}
    network_cards: list[Card] = []
    for name, shared in carried(cluster, node).items():
        fabric = fabrics.get(name)
        own = cluster.network in shared
        networks = own_networks(node, fabric, shared)
        if fabric and fabric.kind not in _EMULATED and not own:
            continue
        below = next(filter(None, map(port_below, networks)), "")
        names = (fabric.interfaces if fabric else ()) or ("" if bonded(networks) else below,)
        links = fabric.links if fabric else 1
        padded = (*names, *("" for _ in range(links)))[:links]
        network_cards += (Card(interface, "" if own else name) for interface in padded)
    return tuple(network_cards)


def drives(server: Server) -> int:
    """Return the number of a machine's drives beside its disk, of those that its hardware declares."""
    return min(_MOST_DRIVES, sum(count for count, _ in map(counted, server.nvme)))
