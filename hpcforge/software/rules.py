"""The rules of compatibility.yaml, as `hpcforge explain CODE` and docs/software.md say them. Pure."""

from __future__ import annotations

from functools import cache

from hpcforge.catalog.compatibility import CompatibilityRule as Row
from hpcforge.catalog.compatibility import load_compatibility
from hpcforge.facility.rules import DesignRule, table

NAMES = {
    "driver": "the driver", "modules": "the driver's kernel modules", "fabric_manager": "Fabric Manager",
    "cuda": "CUDA", "pytorch_cuda": "PyTorch's CUDA", "dcgm": "DCGM", "container_toolkit": "the container toolkit",
    "ofed": "DOCA-OFED", "gpudirect": "GPUDirect", "kernel": "the kernel", "secure_boot": "Secure Boot",
    "signed_by": "the modules' signer", "gpu": "the GPUs' architecture", "nvswitch": "NVSwitches", "slurm": "Slurm",
    "slurm_topology": "Slurm's topology plugin", "slurm_shards": "a GPU", "source": "the archive", "rocm": "ROCm",
    "rocm_source": "the archive of ROCm",
}  # fmt: skip


@cache
def rules() -> dict[str, DesignRule]:
    """Every rule by its code."""
    return {row.code: _rule(row) for row in load_compatibility().rules}


def markdown() -> str:
    """Return the table of docs/software.md."""
    return table(rules().values())


def _rule(row: Row) -> DesignRule:
    where = " and ".join(f"{NAMES[component]} is {_words(wanted)}" for component, wanted in row.when.items())
    has = " and ".join(f"{NAMES[component]} is {_words(wanted)}" for component, wanted in row.needs.items())
    of = "Of what hpcforge installs: where" if row.installed else "Where"
    judged = f"{of} {where}, it is judged whether {has}. {row.reason} Source: {row.source}."
    way_out = "`hpcforge validate` names the nearest set that works."
    return DesignRule(row.code, row.severity, row.title, judged, way_out)


def _words(wanted: str) -> str:
    if wanted == "any":
        return "there"
    if wanted.startswith("same as "):
        return f"the same as {NAMES[wanted[8:]]}"
    return wanted.replace(" | ", " or ").replace(">=", "at least ").replace("<", "below ").replace(", ", " and ")
