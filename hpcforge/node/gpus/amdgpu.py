"""The kernel's view of AMD GPUs: the driver (amdgpu) and the compute interface (KFD), read from /sys.

Reads stay in the kernel's memory or in the configuration space of PCI, so that a hanging GPU cannot block them.
Temperatures, clocks and error counters are left out: the GPU itself would have to answer.

Sources of the files' formats: Linux, Documentation/gpu/amdgpu/driver-misc.rst (mem_info_vram_total, serial_number),
Documentation/ABI/testing/sysfs-bus-pci (links), kfd_topology.c of drivers/gpu/drm/amd/amdkfd (properties of a node).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hpcforge.node import answer_types

_ATI = "0x1002"
_CLASSES = ("0x0380", "0x1200")  # display controller without a screen, processing accelerator
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/+-]{0,95}")
_MOST_BYTES, _MOST_NODES, _MOST_BRIDGES = 16_384, 256, 8
_MOST_LANES = 32
_MOST_MIB = 1 << 26  # 64 TiB
_FIRST_RENDER = 128  # the kernel's number of the first node for rendering (drm_drv.c)
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # by GT/s
NO_DRIVER = "no driver is loaded: load its module (modprobe amdgpu), or restart the node"
_NOT_TAKEN = "amdgpu rejected it: see the kernel's log for amdgpu, which names missing firmware"
_NOT_IN_KFD = "ROCm does not see it (no node of the KFD): see the kernel's log for kfd"


def on_bus(devices: Path) -> list[str]:
    """Return the PCI addresses of AMD's GPUs, with or without a loaded driver."""
    if not devices.is_dir():
        return []
    gpus = (
        device for device in devices.iterdir() if _ADDRESS.fullmatch(device.name) and _line(device / "vendor") == _ATI
    )
    return sorted(device.name for device in gpus if _line(device / "class").startswith(_CLASSES))


def told(sys: Path) -> answer_types.Nvml | None:
    """Return the report on each GPU; None without GPUs. `sys`: /sys."""
    devices = sys / "bus/pci/devices"
    addresses = on_bus(devices)
    if not addresses:
        return None
    module = sys / "module/amdgpu"
    if not module.is_dir():
        return {"driver": None, "gpus": [], "error": NO_DRIVER, "on_bus": addresses}
    nodes = _kfd(sys / "class/kfd/kfd/topology/nodes")
    gpus = [_gpu(devices / address, place, nodes.get(address, [])) for place, address in enumerate(addresses)]
    gpus.sort(key=lambda gpu: gpu["index"])
    # The kernel's own module has no version; AMD's module from another archive has one.
    return {"driver": _text(module / "version"), "gpus": gpus, "error": None, "on_bus": addresses}


def _gpu(device: Path, place: int, nodes: list[dict[str, int]]) -> answer_types.GpuAnswer:
    """Return the answer for a GPU with its nodes of the KFD; a partitioned GPU has several."""
    troubles = {}
    error = None if (device / "driver").resolve().name == "amdgpu" else _NOT_TAKEN
    error = error or (None if nodes else _NOT_IN_KFD)
    model = _instruction_set(nodes[0].get("gfx_target_version", 0)) if len(nodes) == 1 else None
    if error is None and model is None:
        several = f"ROCm sees it as {len(nodes)} devices: it is partitioned"
        troubles["model"] = several if len(nodes) > 1 else "its instruction set is unknown"
    memory = _number(device / "mem_info_vram_total")
    memory_mib = memory >> 20 if memory is not None and memory >> 20 <= _MOST_MIB else None
    if error is None and memory_mib is None:
        troubles["memory_mib"] = "its driver does not report it"
    link = _link(device)
    render = min((node.get("drm_render_minor", 0) for node in nodes), default=0) - _FIRST_RENDER
    return {
        "index": render if 0 <= render < _MOST_NODES else place,
        "model": model,
        "serial": _text(device / "serial_number"),
        "uuid": _text(device / "unique_id"),
        "vbios": _text(device / "vbios_version"),
        "bus_id": device.name,
        "memory_mib": memory_mib,
        "ecc": None,
        "ecc_uncorrected": None,
        "ecc_uncorrected_ever": None,
        "remapped": None,
        "nvlinks": None,
        "pcie_width": link.width,
        "pcie_width_max": link.width_max,
        "pcie_generation": link.generation,
        "pcie_generation_max": link.generation_max,
        "clock_mhz": None,
        "clock_max_mhz": None,
        "clock_reasons": None,
        "temperature_c": None,
        "mig": None,
        "error": error,
        "troubles": troubles,
    }


class _Link(NamedTuple):
    width: int | None
    width_max: int | None  # of card and slot together
    generation: int | None
    generation_max: int | None


def _link(device: Path) -> _Link:
    """Return the link between card and slot. AMD's (ATI) bridges above a GPU are on the card, with internal links."""
    card = device.resolve()
    for _ in range(_MOST_BRIDGES):
        if _line(card.parent / "vendor") != _ATI:
            break
        card = card.parent
    slot = card.parent
    ends = [end for end in (card, slot) if (end / "max_link_width").exists()]
    widths = [width for end in ends if (width := _number(end / "max_link_width")) and width <= _MOST_LANES]
    generations = [generation for end in ends if (generation := _generation(end / "max_link_speed"))]
    width = _number(card / "current_link_width")
    return _Link(
        width if width is not None and 0 < width <= _MOST_LANES else None,
        min(widths, default=None),
        _generation(card / "current_link_speed"),
        min(generations, default=None),
    )


def _kfd(nodes: Path) -> dict[str, list[dict[str, int]]]:
    """Return the properties of the KFD's nodes that are GPUs, by PCI address."""
    nodes_by_address: dict[str, list[dict[str, int]]] = {}
    folders = sorted(nodes.iterdir()) if nodes.is_dir() else []
    for folder in folders[:_MOST_NODES]:
        values = properties(_read(folder / "properties"))
        if values.get("simd_count"):
            at = values.get("location_id", 0) & 0xFFFF  # higher bits: the partition
            address = f"{values.get('domain', 0):04x}:{at >> 8:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"
            nodes_by_address.setdefault(address, []).append(values)
    return nodes_by_address


def properties(text: str) -> dict[str, int]:
    """Parse the lines `name number` of a node of the KFD; any other line is left out."""
    pairs = (line.split(" ") for line in text.split("\n"))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and _is_number(pair[1])}


def _instruction_set(version: int) -> str | None:
    """Return the compilers' name: 90402 is gfx942, 90010 is gfx90a."""
    major, minor, step = version // 10_000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if 0 < major < 100 and minor < 16 and step < 16 else None


def _generation(path: Path) -> int | None:
    return _GENERATIONS.get(_line(path).partition(" ")[0])  # "16.0 GT/s PCIe", "Unknown"


def _text(path: Path) -> str | None:
    """Return a printable line; None without one."""
    text = _line(path)
    return text if _TEXT.fullmatch(text) else None


def _number(path: Path) -> int | None:
    text = _line(path)
    return int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 20  # 64 bits


def _line(path: Path) -> str:
    return _read(path).strip()


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
