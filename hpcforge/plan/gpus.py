"""Compare the driver's report on a node's GPUs with the declared GPUs and the catalog's model.

Faults keep jobs away, as missing memory does (decision 36); remarks are only printed. Values that the driver does not
report, or the catalog lacks, are not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcforge.catalog.nvidia import bare_name
from hpcforge.cluster.mig import Layout
from hpcforge.cluster.model import GpuModel

Nvml = Mapping[str, Any]  # as `hpcforge.node.answer_types.Nvml`
Gpu = Mapping[str, Any]  # as `hpcforge.node.answer_types.GpuAnswer`

MEND_LOST = (
    "check the kernel's log for NVRM and Xid, or amdgpu, restart the node; if it is lost again, reseat or replace it"
)
# Drivers report up to 1 % less than the marketed size (15,109 MiB of a T4's 16 GB), or 7 % more.
_LEAST_MEMORY = 0.95
_MIB = 1 << 20
_IDLE, _SET_CLOCK = 0x1, 0x2  # NVML's reasons for a clock; a locked clock may be missing from them
_UNLOCK = "nvidia-smi --reset-gpu-clocks, then nvidia-smi --reset-applications-clocks"
_SLOWED = {0x8: "slowed down by hardware", 0x40: "slowed down for heat", 0x80: "slowed down by the power brake"}
# A virtual machine with one GPU lacks the switches at the ends of its links. Such guests load the module with
# NVreg_NvLinkDisable=1 (github.com/dstack-tee/dstack, os/common/nvidia/nvidia-module-options).
_NO_LINKS = (
    "in a virtual machine that has one GPU without its NVSwitches, accept it; elsewhere load the module without "
    "NVreg_NvLinkDisable=1, and check `nvidia-smi nvlink --status` and the passthrough of the switches"
)
# NVIDIA, Fabric Manager user guide: a GPU has to be reset before it registers again. Registration never ends with
# NVSwitches that the virtual machine lacks (error 802 of CUDA).
_REGISTER = (
    "systemctl status nvidia-fabricmanager shows the cause; stop it, nvidia-smi --gpu-reset, start it, or restart the "
    "node; without NVSwitches load the module with NVreg_NvLinkDisable=1"
)
_MOST_NAMED = 2  # up to this number, GPUs are named with serial and slot; more by their index


@dataclass(frozen=True)
class Fault:
    """One shortfall of GPUs. An override accepts it by `kind`."""

    kind: str
    what: str
    declared: str
    observed: str
    todo: str


def working(nvml: Nvml) -> int | None:
    """Return the number of GPUs that answer; None if NVML did not finish."""
    return None if nvml["error"] else sum(gpu["error"] is None for gpu in nvml["gpus"])


def missing(nvml: Nvml) -> str:
    """Return the places of GPUs that do not answer, if known; empty: they are missing from the bus."""
    lost = [f"{_label(gpu)}: {gpu['error']}" for gpu in nvml["gpus"] if gpu["error"]]
    answering = {gpu["bus_id"] for gpu in nvml["gpus"] if gpu["error"] is None}
    lost += [f"PCI {at} is on the bus and does not answer" for at in nvml["on_bus"] if at not in answering]
    return "; ".join(lost)


def faults(nvml: Nvml, model: GpuModel, driver: str | None = None, mig: Layout | None = ()) -> Iterator[Fault]:
    """Yield the faults of GPUs, one for all GPUs with the same fault. `driver`: the declared version.

    `mig`: the declared layout, () if all GPUs are whole; None: do not judge it.
    """
    if nvml["error"]:
        todo = "follow the message, and check the kernel's log for NVRM and Xid, or amdgpu"
        yield Fault("gpu-driver", "GPU driver", "GPUs that answer", f"unusable ({nvml['error']})", todo)
        return
    if driver and nvml["driver"] not in (None, driver):
        todo = "install that version and restart the node, or set the node's version in the blueprint"
        yield Fault("gpu-driver-version", "GPU driver", driver, nvml["driver"], todo)
    rules = _RULES if mig is None else (*_RULES, _layout_rule(mig))
    for kind, words, judge in rules:
        groups: dict[tuple[str, str, str], list[Gpu]] = {}
        for gpu in nvml["gpus"]:
            if gpu["error"] is None and (judgement := judge(gpu, model)):
                groups.setdefault(judgement, []).append(gpu)
        for (declared, observed, todo), gpus in groups.items():
            yield Fault(kind, f"{words} of {_together(gpus)}", declared, observed, todo)


def remarks(nvml: Nvml) -> Iterator[str]:
    """Yield remarks on GPUs. They keep no jobs away, since some conditions pass by themselves."""
    for gpu in nvml["gpus"]:
        reasons = gpu["clock_reasons"]
        slowed = [words for bit, words in _SLOWED.items() if reasons and reasons & bit]
        texts = [f"{words} ({gpu['clock_mhz']} MHz)" for words in slowed]
        clock_mhz, most_mhz = gpu["clock_mhz"], gpu["clock_max_mhz"]
        if reasons in (0, _SET_CLOCK) and clock_mhz and most_mhz and clock_mhz < most_mhz / 2:
            texts.append(f"{clock_mhz} of {most_mhz} MHz while it works: {_UNLOCK}")
        if gpu["ecc_uncorrected"]:
            texts.append(f"{gpu['ecc_uncorrected']} uncorrected memory errors since its driver was loaded")
        generation, most = gpu["pcie_generation"], gpu["pcie_generation_max"]
        if generation and most and generation < most and reasons is not None and not reasons & _IDLE:
            texts.append(f"PCIe generation {generation} of {most} while it works")
        if gpu["troubles"]:
            fact, cause = next(iter(gpu["troubles"].items()))
            texts.append(f"not known: {', '.join(gpu['troubles'])} ({fact}: {cause})")
        yield from (f"{_label(gpu)}: {words}" for words in texts)


_Judged = tuple[str, str, str] | None  # declared, observed, what to do


def _model(gpu: Gpu, model: GpuModel) -> _Judged:
    names = [bare_name(name) for name in model.driver_names]
    if not names or gpu["model"] is None or bare_name(gpu["model"]) in names:
        return None
    todo = "set its model in the blueprint, or replace it"
    return model.driver_names[0], gpu["model"], todo


def _memory(gpu: Gpu, model: GpuModel) -> _Judged:
    mib = gpu["memory_mib"]
    if not model.memory_gb or mib is None or gpu["mig"] is not None:
        return None
    if mib * _MIB >= _LEAST_MEMORY * model.memory_gb * 1e9:
        return None
    return f"{model.memory_gb:g} GB", f"{mib * _MIB / 1e9:.1f} GB", "replace the GPU, or set its model"


def _ecc(gpu: Gpu, _model: GpuModel) -> _Judged:
    todo = "nvidia-smi --ecc-config=1, then restart the node"
    return ("on", "off", todo) if gpu["ecc"] is False else None


def _rows(gpu: Gpu, _model: GpuModel) -> _Judged:
    rows = gpu["remapped"]
    if not rows or not (rows["pending"] or rows["failed"]):
        return None
    earlier = f"{rows['correctable'] + rows['uncorrectable']} remapped before"
    if rows["failed"]:
        return "memory without faults", f"a remapping failed, {earlier}", "have the GPU replaced"
    return (
        "none pending",
        f"a remapping is pending, {earlier}",
        "reset the GPU (nvidia-smi --gpu-reset) or restart the node",
    )


def _nvlinks(gpu: Gpu, model: GpuModel) -> _Judged:
    links = gpu["nvlinks"]
    if not model.nvlinks or links is None or links["active"] >= model.nvlinks or gpu["mig"] is not None:
        return None
    if links["total"] == 0:
        return str(model.nvlinks), "0 (its driver shows no link at all)", _NO_LINKS
    todo = "check Fabric Manager and `nvidia-smi nvlink --status`; if a link stays down, its module or board is faulty"
    return str(model.nvlinks), str(links["active"]), todo


def _fabric(gpu: Gpu, _model: GpuModel) -> _Judged:
    """Only drivers of GPUs that NVSwitches connect report a registration."""
    fabric = gpu.get("fabric")
    if not fabric or gpu["mig"] is not None:
        return None
    if fabric["state"] != "completed":
        return "registered", f"registration {fabric['state']}", _REGISTER
    if fabric["status"]:
        return "registered", f"registration failed (NVML error {fabric['status']})", _REGISTER
    todo = "dmesg | grep SXid, and `nvidia-smi nvlink --status`; reset all GPUs together, or restart the node"
    return ("healthy", ", ".join(fabric["health"]), todo) if fabric["health"] else None


def _width(gpu: Gpu, model: GpuModel) -> _Judged:
    width, together = gpu["pcie_width"], gpu["pcie_width_max"]
    most = model.pcie_lanes or together
    if not width or not most or width >= most:
        return None
    if together and together < most:  # NVML reports the maximum of card and slot together
        return f"x{most}", f"x{width} (its slot has no more than x{together})", "put it into another slot"
    return f"x{most}", f"x{width}", "reseat the card and its riser; if it stays so, one of them or the slot is faulty"


def _generation(gpu: Gpu, model: GpuModel) -> _Judged:
    """Judge the maximum of card and slot together: the present generation falls while a GPU is idle."""
    together = gpu["pcie_generation_max"]
    if not together or not model.pcie_generation or together >= model.pcie_generation:
        return None
    todo = "check the slot's setting in the firmware, or use another slot"
    return str(model.pcie_generation), f"{together} at most in its slot", todo


def _power(gpu: Gpu, model: GpuModel) -> _Judged:
    limit_w, own_w = gpu.get("power_limit_w"), gpu.get("power_limit_default_w")
    most_w = model.power_w or own_w
    if not limit_w or not most_w or limit_w >= most_w:
        return None
    if own_w and own_w <= limit_w:
        return f"{most_w:g} W", f"{limit_w} W (the card's own default)", "set its model in the blueprint"
    todo = f"nvidia-smi --power-limit={own_w or most_w:g}, and remove what lowers it when the node starts"
    return f"{most_w:g} W", f"{limit_w} W", todo


_Rule = tuple[str, str, Callable[[Gpu, GpuModel], _Judged]]


def _layout_rule(mig: Layout) -> _Rule:
    """Return the rule for the instances of each GPU. On some, the mode survives a restart; a layout never does."""
    by_gpu = {index: sorted(instance.profile for instance in instances) for index, instances in enumerate(mig)}

    def judge(gpu: Gpu, _model: GpuModel) -> _Judged:
        expected, actual = by_gpu.get(gpu["index"], []), gpu["mig"]
        if actual is None and not expected:
            return None
        if actual is not None and expected and sorted(actual) == expected:
            return None
        observed = (
            "off" if actual is None else f"on, {_counted(actual) or 'without instances, so that no job can use it'}"
        )
        if mig:
            todo = "hpcforge apply sets it again; systemctl status hpcforge-mig on the node shows the cause"
        else:
            todo = "nvidia-smi --multi-instance-gpu=0, then reset the GPU or restart the node; or declare it as `mig`"
        return _counted(expected) or ("whole" if mig else "whole GPUs"), observed, todo

    return "gpu-mig", "MIG layout" if mig else "MIG mode", judge


def _counted(profiles: Sequence[str]) -> str:
    """Return profiles as `1 x 3g.40gb, 4 x 1g.10gb`, the largest first."""
    order = Counter(sorted(profiles, reverse=True))
    return ", ".join(f"{count} x {profile}" for profile, count in order.items())


_RULES: tuple[_Rule, ...] = (
    ("gpu-model", "model", _model),
    ("gpu-memory", "memory", _memory),
    ("gpu-ecc", "ECC", _ecc),
    ("gpu-rows", "memory rows", _rows),
    ("gpu-nvlinks", "NVLinks", _nvlinks),
    ("gpu-fabric", "NVLink fabric", _fabric),
    ("gpu-pcie-width", "PCIe width", _width),
    ("gpu-pcie-generation", "PCIe generation", _generation),
    ("gpu-power-limit", "power limit", _power),
)


def _together(gpus: Sequence[Gpu]) -> str:
    if len(gpus) <= _MOST_NAMED:
        return " and ".join(map(_label, gpus))
    return f"GPUs {', '.join(str(gpu['index']) for gpu in gpus)}"


def _label(gpu: Gpu) -> str:
    """Return a GPU's name: `GPU 3 (serial 1652323000003, PCI 0000:4b:00.0)`."""
    marks = {"serial": gpu["serial"], "PCI": gpu["bus_id"]}
    text = ", ".join(f"{label} {value}" for label, value in marks.items() if value)
    return f"GPU {gpu['index']}" + (f" ({text})" if text else "")
