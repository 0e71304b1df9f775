"""A cluster's machines for other programs: groups by name, and the facts of each machine. Pure."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import FUNCTIONS, Cluster, Node
from hpcforge.errors import ExpectedError


class GroupNameError(ExpectedError):
    """Two partitions have the same group name."""

    kind = "invalid"
    hint = "`-` and `.` become `_` in names of groups: rename one"


def groups(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Node names by group, in the cluster's order: `function_worker`, `rack_r1`, `partition_main`.

    A name of its own kind each, since a node or a rack may be called like a function; `-` and `.` become `_`, since
    Ansible and Python take them for operators. Raises `GroupNameError`.
    """
    by_group: dict[str, tuple[str, ...]] = {}
    for kind, name, nodes in _groups(cluster):
        group = f"{kind}_{re.sub('[.-]', '_', name)}"
        if group in by_group:
            raise GroupNameError(f"two partitions are one group `{group}` for Ansible and pyinfra")
        if nodes:
            by_group[group] = nodes
    return by_group


def _groups(cluster: Cluster) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for function in FUNCTIONS:
        yield "function", function, tuple(node.name for node in cluster.with_function(function))
    racks: dict[str, list[str]] = {}
    for node in cluster.nodes:
        racks.setdefault(node.rack or "", []).append(node.name)
    yield from (("rack", rack, tuple(nodes)) for rack, nodes in racks.items() if rack)
    yield from (("partition", partition.name, partition.nodes) for partition in cluster.slurm.partitions)


def clustershell(cluster: Cluster) -> str:
    """Return groups for a file in `groups.d` of ClusterShell: `@worker`, `@rack:r1`, `@partition:main`.

    A source a kind, as groups.conf(5) has them; the first is the one of names without a source. Every name is quoted:
    YAML takes `on` and `1` for something else.
    """
    sources: dict[str, dict[str, str]] = {}
    for kind, name, nodes in _kinds(cluster):
        if nodes:
            sources.setdefault(kind, {})[name] = fold(nodes)
    everyone = fold(node.name for node in cluster.nodes)
    lines = []
    for kind, names in sources.items():
        lines.append(f"{kind}:")
        lines += [f"  {json.dumps(name)}: {json.dumps(nodes)}" for name, nodes in {"all": everyone, **names}.items()]
    return "\n".join(lines) + "\n"


def genders(cluster: Cluster) -> str:
    """Return a genders file: functions as attributes, `rack=r1`, `hardware=MODEL`, and `partition_main`.

    A node has an attribute once, and may be in several partitions: those are attributes of their own.
    """
    attributes: dict[str, list[str]] = {node.name: [*node.functions] for node in cluster.nodes}
    for partition in cluster.slurm.partitions:
        for name in partition.nodes:
            attributes[name].append(f"partition_{partition.name}")
    lines = []
    for node in cluster.nodes:
        rack = [f"rack={node.rack}"] if node.rack else []
        lines.append(f"{node.name} {','.join([*attributes[node.name], *rack, f'hardware={node.hardware}'])}")
    return "\n".join(lines) + "\n"


def _kinds(cluster: Cluster) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield from _groups(cluster)
    models: dict[str, list[str]] = {}
    for node in cluster.nodes:
        models.setdefault(node.hardware, []).append(node.name)
    yield from (("hardware", model, tuple(nodes)) for model, nodes in models.items())


def variables(cluster: Cluster, node: Node) -> dict[str, Any]:
    """Variables of the node for a site's own Ansible role."""
    return {
        "hpcforge_cluster": cluster.name,
        "hpcforge_domain": cluster.domain,
        "hpcforge_node": node.name,
        "hpcforge_functions": list(node.functions),
    }


def machine(node: Node) -> dict[str, Any]:
    """Return all known facts of a machine, as plain data with the names of `Node`."""
    return dataclasses.asdict(node)
