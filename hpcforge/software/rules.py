"""The rules of compatibility.yaml, for `hpcforge explain CODE` and docs/software.md. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from hpcforge.catalog.compatibility import CompatibilityRule as Row
from hpcforge.catalog.compatibility import load_compatibility
from hpcforge.design.facility.rules import DesignRule

NAMES = {
    "driver": "the driver", "modules": "the driver's kernel modules", "fabric_manager": "Fabric Manager",
    "cuda": "CUDA", "pytorch_cuda": "CUDA of PyTorch or JAX", "dcgm": "DCGM",
    "container_toolkit": "the container toolkit",
    "ofed": "DOCA-OFED", "gpudirect": "GPUDirect", "kernel": "the kernel", "secure_boot": "Secure Boot",
    "signed_by": "the modules' signer", "gpu": "the GPUs' architecture", "nvswitch": "NVSwitches", "slurm": "Slurm",
    "slurm_topology": "Slurm's topology plugin", "slurm_second_topology": "a partition's own topology",
    "slurm_oldest": "the oldest Slurm", "slurm_shards": "a GPU", "source": "the archive", "rocm": "ROCm",
    "rocm_source": "the archive of ROCm",
}  # fmt: skip


@cache
def rules() -> dict[str, DesignRule]:
    """Return every rule by its code."""
    return {row.code: _rule(row) for row in load_compatibility().rules}


def markdown() -> str:
    """Return the table of docs/software.md, without sources; `hpcforge explain` has those."""
    rows = [
        f"| {row.code} | {row.severity} | {row.title} | {_cell(row.when.items(), row.installed)} "
        f"| {_cell(row.needs.items())} | {row.reason} |"
        for row in load_compatibility().rules
    ]
    head = ["| code | severity | rule | if | needs | why |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def _cell(conditions: Iterable[tuple[str, str]], installed: bool = False) -> str:
    """Return conditions in the form of compatibility.yaml, such as `CUDA >=11, <12; kernel`."""
    shown = "; ".join(
        NAMES[component].removeprefix("the ") + ("" if condition == "any" else f" {condition.replace(' | ', ' or ')}")
        for component, condition in conditions
    )
    return f"installed: {shown}" if installed else shown


def _rule(row: Row) -> DesignRule:
    conditions = " and ".join(
        f"{NAMES[component]} {_verb(component)} {_words(condition)}" for component, condition in row.when.items()
    )
    needs = " and ".join(
        f"{NAMES[component]} must be {_words(condition)}" for component, condition in row.needs.items()
    )
    installs = "hpcforge installs it, and " if row.installed else ""
    judged = f"If {installs}{conditions}: {needs}. {row.reason} Source: {row.source}."
    way_out = "`hpcforge validate` names the nearest set that works."
    return DesignRule(row.code, row.severity, row.title, judged, way_out)


def _verb(component: str) -> str:
    return "are" if component in {"modules", "nvswitch"} else "is"


def _words(condition: str) -> str:
    if condition == "any":
        return "present"
    if condition == "true":
        return "on"
    if condition.startswith("same as "):
        return f"the same as {NAMES[condition[8:]]}"
    return condition.replace(" | ", " or ").replace(">=", "at least ").replace("<", "below ").replace(", ", " and ")
