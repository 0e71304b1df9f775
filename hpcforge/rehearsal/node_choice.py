"""Which nodes of a cluster are rehearsed."""

from __future__ import annotations

from collections.abc import Iterator

from hpcforge.cluster.model import Cluster
from hpcforge.cluster.select import select

_OF_EACH_GROUP = 3  # workers


def chosen(cluster: Cluster, wanted: str | None) -> tuple[str, ...]:
    """The nodes to rehearse, in the cluster's order: those of the node set `wanted`, else of each kind enough.

    Without a word that is every node with a function other than worker, the first three workers of each group, and of
    a partition that has none of these the first. Nodes that carry a service come along in any case.
    Raises `SelectionError` where `wanted` names nothing.
    """
    named = select(cluster, [wanted], []) if wanted else (*_of_each_kind(cluster),)
    needed = {*named, *carriers(cluster)}
    return tuple(node.name for node in cluster.nodes if node.name in needed)


def carriers(cluster: Cluster) -> set[str]:
    """The nodes that carry a service, or have files of others, Slurm's controller among them."""
    servers = {name for file_system in cluster.storage for name in (*file_system.servers, file_system.arbiter) if name}
    return {cluster.slurm.controller, *servers, *(name for service in cluster.services.values() for name in service.on)}


def _of_each_kind(cluster: Cluster) -> Iterator[str]:
    yield from (node.name for node in cluster.nodes if {*node.functions} - {"worker"})
    workers: dict[str, list[str]] = {}
    for node in cluster.workers:
        workers.setdefault(node.group, []).append(node.name)
    first = {name for names in workers.values() for name in names[:_OF_EACH_GROUP]}
    yield from first
    yield from (partition.nodes[0] for partition in cluster.slurm.partitions if not first.intersection(partition.nodes))
