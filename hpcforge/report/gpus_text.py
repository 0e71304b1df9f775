"""Drivers' reports on GPUs as a table: nodes with the same GPUs in one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.text import table

_HEADINGS = ("nodes", "GPUs", "memory", "driver", "VBIOS", "ECC", "NVLinks", "PCIe", "temperature")
_UNKNOWN = "-"


def gpus_table(nvml: Mapping[str, Mapping[str, Any]]) -> str:
    """A row a set of nodes whose GPUs are alike, and a row each for other GPUs in them; empty where none tell."""
    nodes: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for node, said in nvml.items():
        nodes.setdefault(_kinds(said), []).append(node)
    rows = []
    for kinds, names in nodes.items():
        for kind in kinds:
            gpus = (gpu for name in names for gpu in nvml[name]["gpus"] if _facts(gpu, nvml[name]) == kind[1:])
            degrees = [gpu["temperature_c"] for gpu in gpus if gpu["temperature_c"] is not None]
            heat = (
                " to ".join(f"{degree} C" for degree in sorted({min(degrees), max(degrees)})) if degrees else _UNKNOWN
            )
            count, model, *others = kind
            rows.append([fold(tuple(names)), f"{count} {model}", *others, heat])
    return f"\n{table(_HEADINGS, rows)}" if rows else ""


def _kinds(said: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """How many of which GPUs a node has."""
    counted = Counter(_facts(gpu, said) for gpu in said["gpus"])
    return tuple((str(count), *facts) for facts, count in counted.items())


def _facts(gpu: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[str, ...]:
    """What GPUs have to have in common for one row."""
    if gpu["error"]:
        return ("that cannot be used", *(_UNKNOWN,) * 6)
    memory, ecc, links = gpu["memory_mib"], gpu["ecc"], gpu["nvlinks"]
    mig = "" if gpu["mig"] is None else f" (MIG: {', '.join(gpu['mig']) or 'no instances'})"
    return (
        (gpu["model"] or "of unknown model") + mig,
        f"{memory} MiB" if memory else _UNKNOWN,
        said["driver"] or _UNKNOWN,
        gpu["vbios"] or _UNKNOWN,
        _UNKNOWN if ecc is None else "on" if ecc else "off",
        f"{links['active']} of {links['total']}" if links and links["total"] else _UNKNOWN,
        f"{gpu['pcie_generation_max'] or '?'}.0 x{gpu['pcie_width'] or '?'}",
    )
