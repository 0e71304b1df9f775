"""NCCL and UCX settings for a cluster's fabrics, as text and as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.report.text import one_line, within

SCHEMA_VERSION = 1


def collectives_text(cluster: Cluster, columns: int | None = None) -> str:
    """Lines for workers on the same fabrics: first the settings, then the variables left to the library."""
    parts = []
    for fabrics, names in _alike(cluster).items():
        found = cluster.collectives(fabrics)
        over = f"over {found.fabric}" if found.fabric else "over IP"
        lines = [f"{fold(names)}: collectives go {over}"]
        for setting in found.settings:
            lines += [f"  {setting.name}={setting.value}", f"      {setting.why}", f"      {setting.source}"]
        lines += ["  Left to the library"]
        for left in found.left:
            lines += [f"  {left.name}", f"      {left.why}", f"      {left.source}"]
        parts.append("".join(f"{one_line(line)}\n" for line in lines))
    return within("\n".join(parts), columns) or "there are no workers\n"


def collectives_json(cluster: Cluster) -> dict[str, Any]:
    """The same for programs."""
    alike = [
        {"nodes": list(names), **dataclasses.asdict(cluster.collectives(fabrics))}
        for fabrics, names in _alike(cluster).items()
    ]
    return {"schema_version": SCHEMA_VERSION, "cluster": cluster.name, "workers": alike}


def _alike(cluster: Cluster) -> dict[tuple[str, ...], tuple[str, ...]]:
    alike: dict[tuple[str, ...], tuple[str, ...]] = {}
    for node in cluster.workers:
        alike[node.fabrics] = (*alike.get(node.fabrics, ()), node.name)
    return alike
