"""Nodes with less memory than what is placed on them takes, by what roles declare. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import schema as s
from hpcforge.blueprint.hardware import GUESS
from hpcforge.blueprint.role_declarations import RoleMemory
from hpcforge.blueprint.validate import Finding
from hpcforge.catalog import Catalog
from hpcforge.cluster.model import Cluster

_GIB = 1024  # MiB


def memory_findings(
    blueprint: s.Blueprint, cluster: Cluster, catalog: Catalog, memory: Mapping[str, RoleMemory]
) -> Iterator[Finding]:
    """Yield machines with services whose memory is less than the sum; unknown memory and rehearsals are not judged."""
    placed: dict[str, dict[str, float]] = {}  # by node: what is placed on it, and its MiB
    usual: dict[str, float] = {}  # what every node has
    for role, takes in memory.items():
        mib = takes.need.mib + takes.need.per_node_mib * len(cluster.nodes)
        for name in takes.services:
            for machine in cluster.services[name].on if name in cluster.services else ():
                placed.setdefault(machine, {})[name] = mib
        if takes.scheduler:
            placed.setdefault(cluster.slurm.controller, {})["slurm.controller"] = mib
        if takes.everywhere:
            usual[role] = mib
    guess = any(takes.need.source.startswith(GUESS) for takes in memory.values())
    group_of = {name: key for key in blueprint.nodes for name in hostlist.expand(key)}
    for name, services in placed.items():
        node = cluster.by_name[name]
        parts = usual | services
        if not node.memory_mib or sum(parts.values()) <= node.memory_mib:
            continue
        if catalog.servers[node.hardware].machine == "rehearsal":
            continue
        terms = " + ".join(f"{mib / _GIB:.2f} ({part})" for part, mib in parts.items())
        sums = f"{terms} = {sum(parts.values()) / _GIB:.2f} GiB > {node.memory_mib / _GIB:.2f} GiB"
        largest = max(services, key=lambda part: services[part])
        hint = f"more memory, or another node for {largest}{'; some of these numbers are guesses' if guess else ''}"
        message = f"{name} has less memory than what is placed on it takes: {sums}"
        yield Finding(("nodes", group_of[name], "hardware"), message, hint, severity="warning")
