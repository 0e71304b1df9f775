"""A cluster's machines as other programs see them: groups by name, and what is known of each machine. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from hpcforge.cluster.model import FUNCTIONS, Cluster, Node
from hpcforge.errors import ExpectedError


class GroupNameError(ExpectedError):
    """Two partitions would be one group."""

    kind = "invalid"
    hint = "`-` and `.` become `_` in names of groups: rename one of them"


def groups(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Node names by group, in the cluster's order: `function_worker`, `rack_r1`, `partition_main`.

    A name of its own kind each, since a node or a rack may be called like a function; `-` and `.` become `_`, since
    Ansible and Python take them for operators. Raises `GroupNameError`.
    """
    found: dict[str, tuple[str, ...]] = {}
    for kind, name, nodes in _groups(cluster):
        group = f"{kind}_{re.sub('[.-]', '_', name)}"
        if group in found:
            raise GroupNameError(f"two partitions are one group `{group}` for Ansible and pyinfra")
        if nodes:
            found[group] = nodes
    return found


def _groups(cluster: Cluster) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for function in FUNCTIONS:
        yield "function", function, tuple(node.name for node in cluster.with_function(function))
    racks: dict[str, list[str]] = {}
    for node in cluster.nodes:
        racks.setdefault(node.rack or "", []).append(node.name)
    yield from (("rack", rack, tuple(nodes)) for rack, nodes in racks.items() if rack)
    yield from (("partition", partition.name, partition.nodes) for partition in cluster.slurm.partitions)


def variables(cluster: Cluster, node: Node) -> dict[str, Any]:
    """Variables of the node for a site's own Ansible role."""
    return {
        "hpcforge_cluster": cluster.name,
        "hpcforge_domain": cluster.domain,
        "hpcforge_node": node.name,
        "hpcforge_functions": list(node.functions),
    }


def machine(node: Node) -> dict[str, Any]:
    """All that is known of a machine, as plain data: the names are those of `Node`."""
    return dataclasses.asdict(node)
