"""What an NVIDIA H200 answered on 2026-11-27, and variants of it: what plan, status and node_health say of each.

The card was alone in a virtual machine, without its NVSwitches. `tests/fixtures/h200-2026-11-27` has the answers of the
node program as they were; serial number, UUID and boot id are made up.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import yaml

from hpcforge.catalog import load_catalog
from hpcforge.cluster.model import GpuModel
from hpcforge.node import answer_types
from hpcforge.plan.admission import DeclaredWorker, Shortfall, drains, shortfalls
from hpcforge.plan.gpus import remarks
from hpcforge.typed_json import fits

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "fixtures" / "h200-2026-11-27"
NVML: dict[str, Any] = json.loads((RECORDED / "nvml.json").read_text())
FACTS: dict[str, Any] = json.loads((RECORDED / "facts.json").read_text())
CATALOG = load_catalog().gpus
H100, H200 = CATALOG["h100-sxm"], CATALOG["h200-sxm"]
CARD = "GPU 0 (serial 1650000000001, PCI 0000:00:06.0)"


def known(name: str) -> GpuModel:
    gpu = CATALOG[name]
    return GpuModel(gpu.driver_names or (), gpu.memory_gb, gpu.nvlinks, gpu.pcie_lanes, gpu.pcie_generation, gpu.tdp_w)


WORKER = DeclaredWorker(
    "g1", 120_000, 100_000, 16, 1, "h200-sxm", "nvidia", gpu_known=known("h200-sxm"), accepts=("gpu-nvlinks",)
)
LINKS = {"active": 18, "total": 18}
ROWS = {"correctable": 0, "uncorrectable": 2, "pending": False, "failed": False}


class Case(NamedTuple):
    """A variant: what the GPU answers otherwise, the fault that is shown, its override, how to fix it, the remark."""

    gpu: dict[str, Any]
    short: str = ""
    accept: str = ""
    todo: str = ""
    remark: str = ""
    model: str = "h200-sxm"


NO_LINKS = (
    "in a virtual machine that has one GPU without its NVSwitches, accept it; elsewhere load the module without "
    "NVreg_NvLinkDisable=1, and check `nvidia-smi nvlink --status` and the passthrough of the switches"
)
DOWN = "check Fabric Manager and `nvidia-smi nvlink --status`; if a link stays down, its module or board is faulty"
RESET = "reset the GPU (nvidia-smi --gpu-reset) or restart the node"
SEAT = "reseat the card and its riser; if it stays so, one of them or the slot is faulty"
UNLOCK = "nvidia-smi --reset-gpu-clocks, then nvidia-smi --reset-applications-clocks"
CASES = {
    "healthy, all links": Case({"nvlinks": LINKS}),
    "no link is shown": Case(
        {}, f"NVLinks of {CARD} 0 (its driver shows no link at all), declared 18", "gpu-nvlinks", NO_LINKS
    ),
    "links are down": Case(
        {"nvlinks": {"active": 0, "total": 18}}, f"NVLinks of {CARD} 0, declared 18", "gpu-nvlinks", DOWN
    ),
    "one link is down": Case(
        {"nvlinks": {"active": 17, "total": 18}}, f"NVLinks of {CARD} 17, declared 18", "gpu-nvlinks", DOWN
    ),
    "an H200 for an H100": Case(
        {"nvlinks": LINKS},
        f"model of {CARD} NVIDIA H200, declared NVIDIA H100 80GB HBM3",
        "gpu-model",
        "set its model in the blueprint, or replace it",
        model="h100-sxm",
    ),
    "an H100 for an H200": Case(
        {"nvlinks": LINKS, "model": "NVIDIA H200", "memory_mib": 81559},
        f"memory of {CARD} 85.5 GB, declared 141 GB",
        "gpu-memory",
        "replace the GPU, or set its model",
    ),
    "ECC off": Case(
        {"nvlinks": LINKS, "ecc": False, "ecc_uncorrected": None},
        f"ECC of {CARD} off, declared on",
        "gpu-ecc",
        "nvidia-smi --ecc-config=1, then restart the node",
    ),
    "x8": Case({"nvlinks": LINKS, "pcie_width": 8}, f"PCIe width of {CARD} x8, declared x16", "gpu-pcie-width", SEAT),
    "x8 slot": Case(
        {"nvlinks": LINKS, "pcie_width": 8, "pcie_width_max": 8},
        f"PCIe width of {CARD} x8 (its slot has no more than x8), declared x16",
        "gpu-pcie-width",
        "put it into another slot",
    ),
    "a remapping is pending": Case(
        {"nvlinks": LINKS, "remapped": {**ROWS, "pending": True}},
        f"memory rows of {CARD} a remapping is pending, 2 remapped before, declared none pending",
        "gpu-rows",
        RESET,
    ),
    "a remapping failed": Case(
        {"nvlinks": LINKS, "remapped": {**ROWS, "failed": True}},
        f"memory rows of {CARD} a remapping failed, 2 remapped before, declared memory without faults",
        "gpu-rows",
        "have the GPU replaced",
    ),
    "power limit lowered": Case(
        {"nvlinks": LINKS, "power_limit_w": 500, "power_limit_default_w": 700},
        f"power limit of {CARD} 500 W, declared 700 W",
        "gpu-power-limit",
        "nvidia-smi --power-limit=700, and remove what lowers it when the node starts",
    ),
    "another card's power limit": Case(
        {"nvlinks": LINKS, "power_limit_w": 600, "power_limit_default_w": 600},
        f"power limit of {CARD} 600 W (the card's own default), declared 700 W",
        "gpu-power-limit",
        "set its model in the blueprint",
    ),
    "power limit as declared": Case({"nvlinks": LINKS, "power_limit_w": 700, "power_limit_default_w": 700}),
    "clock locked": Case(
        {"nvlinks": LINKS, "clock_mhz": 600, "clock_reasons": 0},
        remark=f"{CARD}: 600 of 1980 MHz while it works: {UNLOCK}",
    ),
    "hot": Case(
        {"nvlinks": LINKS, "clock_mhz": 600, "clock_reasons": 0x40},
        remark=f"{CARD}: slowed down for heat (600 MHz)",
    ),
}


def answer(**gpu: Any) -> dict[str, Any]:
    """The recorded answer of NVML with other values of its GPU; a reader's answer as the border lets it in."""
    nvml = copy.deepcopy(NVML)
    nvml["gpus"][0].update(gpu)
    fits(answer_types.Nvml)(nvml)
    return nvml


def judged(worker: DeclaredWorker, nvml: dict[str, Any]) -> tuple[Shortfall, ...]:
    return shortfalls(worker, {**FACTS, "nvml": nvml}, gpus_ready=True)


@pytest.mark.parametrize("name", CASES)
def test_a_variant_has_its_fault_its_override_and_its_repair(name: str) -> None:
    case, nvml = CASES[name], answer(**CASES[name].gpu)
    worker = replace(WORKER, gpu_model=case.model, gpu_known=known(case.model), accepts=())
    found = judged(worker, nvml)
    assert list(remarks(nvml)) == ([case.remark] if case.remark else [])
    assert [order.reason for order in drains(found, {"g1": ("IDLE", "")})] == (
        [f"hpcforge: {case.short}"] if case.short else []
    )
    if not case.short:
        assert found == ()
        return
    (shortfall,) = found
    assert f"{shortfall.what} {shortfall.observed}, declared {shortfall.declared}" == case.short
    assert (shortfall.todo, shortfall.override) == (
        case.todo,
        f'g1: {{accept: [{case.accept}], reason: "known, and left so"}}',
    )
    accepted = yaml.safe_load(shortfall.override)["g1"]["accept"]
    assert judged(replace(worker, accepts=tuple(accepted)), nvml) == ()


def test_the_answers_are_of_the_readers_types_and_admit_the_node() -> None:
    fits(answer_types.Nvml)(NVML)
    fits(answer_types.Facts)({**FACTS, "nvml": NVML})
    assert judged(WORKER, NVML) == ()
    assert [order.action for order in drains((), {"g1": ("IDLE+DRAIN", "hpcforge: NVLinks")})] == ["resume"]


def test_the_catalogs_model_is_the_card() -> None:
    gpu, text = NVML["gpus"][0], (RECORDED / "nvidia-smi.txt").read_text()
    assert gpu["model"] in (H200.driver_names or ())
    assert H200.memory_gb and 0.95 < gpu["memory_mib"] * 2**20 / 1e9 / H200.memory_gb < 1.08
    assert (H200.pcie_lanes, H200.pcie_generation) == (gpu["pcie_width_max"], gpu["pcie_generation_max"])
    assert f"580.159.04, 1980 MHz, 3201 MHz, {H200.tdp_w:.2f} W" in text
    shown = re.findall(r"MIG (\S+) +\d+ +(\d+)/(\d+) ", text)
    most = {name: shape.max_instances or len(shape.placements) for name, shape in (H200.mig or {}).items()}
    assert {name: int(most_of) for name, _, most_of in shown} == most


def _node_health() -> ModuleType:
    program = ROOT / "smoke_tests" / "node_health" / "node_health.py"
    sys.path.append(str(ROOT / "smoke_tests"))  # of the modules that programs share
    spec = importlib.util.spec_from_file_location("node_health_recorded", program)
    assert spec and spec.loader
    module = sys.modules["node_health_recorded"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NODE_HEALTH = _node_health()


@pytest.mark.parametrize(
    ("model", "devices", "wrong"),
    [
        ("h200-sxm", 1, []),
        ("h100-sxm", 1, ["model of GPU 0: NVIDIA H200, not NVIDIA H100 80GB HBM3"]),
        ("h200-sxm", 2, ["GPU /dev/nvidia1: missing, not there", "number of GPUs: 1, not 2"]),
    ],
)
def test_node_health_compares_number_and_model_alone(
    tmp_path: Path, model: str, devices: int, wrong: list[str]
) -> None:
    """What else is wrong with a GPU keeps the node out of the test: it is drained before."""
    information = tmp_path / "proc/driver/nvidia/gpus/0000:00:06.0/information"
    information.parent.mkdir(parents=True)
    information.write_text(f"Model: \t\t {NVML['gpus'][0]['model']}\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    names = [f"/dev/nvidia{number}" for number in range(devices)]
    said = {"kind": "nvidia", "devices": names, "models": list(CATALOG[model].driver_names or ())}
    parts = [part for part in NODE_HEALTH.gpus(said, tmp_path) if not part.right]
    assert [f"{part.name}: {part.got}, not {part.expected}" for part in parts] == wrong


USER = "00000000:00:06.0, 4711, python3, 70000 MiB"


@pytest.mark.parametrize(
    ("script", "got"),
    [
        ("exit 0", "none"),
        (f"echo '{USER}'", USER),
        (f"for n in 1 2 3 4 5 6; do echo '{USER}'; done", "; ".join([USER] * 4) + "; 2 more"),
        ("echo 'NVIDIA-SMI has failed' >&2; exit 9", "NVIDIA-SMI has failed"),
        ("exit 9", "nvidia-smi failed"),
    ],
)
def test_a_process_on_a_gpu_is_named_before_tests_run_beside_it(script: str, got: str) -> None:
    (part,) = NODE_HEALTH.gpus_unused({"kind": "nvidia"}, ("sh", "-c", script))
    assert (part.name, part.expected, part.got, part.right) == ("processes on GPUs", "none", got, got == "none")


def test_an_nvidia_smi_that_hangs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NODE_HEALTH, "_GPU_S", 0.1)
    (part,) = NODE_HEALTH.gpus_unused({"kind": "nvidia"}, ("sleep", "60"))
    assert (part.got, part.right) == ("nvidia-smi gave no answer within 0.1 s", False)


def test_without_nvidia_smi_or_nvidias_gpus_nothing_is_compared() -> None:
    assert list(NODE_HEALTH.gpus_unused({"kind": "nvidia"}, ("/no/nvidia-smi",))) == []
    assert list(NODE_HEALTH.gpus_unused({"kind": "fake"}, ("sh", "-c", f"echo '{USER}'"))) == []
