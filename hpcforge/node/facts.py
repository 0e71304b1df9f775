"""A node's facts: read from /proc, /sys and /etc, a few milliseconds in all."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands
from hpcforge.node.events import NodeError
from hpcforge.node.gpus import amdgpu

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.gpus import nvml

_PCI = Path("/sys/bus/pci/devices")
_LINKER_CACHE = Path("/etc/ld.so.cache")
_NVML = b"libnvidia-ml.so.1"
_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller


def collect() -> answer_types.Facts:
    """Return the facts of this node, without those of its GPU driver, see `hpcforge.node`."""
    system = os_release(_line("/etc/os-release", all_lines=True))
    return {
        "hostname": os.uname().nodename,
        "machine_id": _line("/etc/machine-id"),
        "boot_id": _line("/proc/sys/kernel/random/boot_id"),
        "os_id": system.get("ID", ""),
        "os_release": system.get("VERSION_ID") or system.get("VERSION_CODENAME", ""),  # testing has no number
        "kernel": os.uname().release,
        "arch": os.uname().machine,
        "virtualisation": virtualisation(),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "memory_kib": memory_kib(_line("/proc/meminfo", all_lines=True)),
        "cpus": os.cpu_count() or 0,
        "gpus": {"fake": fake_gpus(Path("/dev")), "nvidia": nvidia_gpus(_PCI), "amd": len(amdgpu.on_bus(_PCI))},
        "time_s": time.time(),
    }


def os_release(text: str) -> dict[str, str]:
    """Return the keys and values of an os-release file."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def memory_kib(meminfo: str) -> int:
    """Return MemTotal of /proc/meminfo."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def ask_driver(cache: Path = _LINKER_CACHE) -> nvml.Reading | None:
    """Start to query the driver for its GPUs, which takes a while; None if the linker has no library for it.

    Call it before this process has threads, see `nvml.begin`.
    """
    try:
        has_library = _NVML in cache.read_bytes()  # 0.1 ms, the whole cost on nodes without a driver
    except OSError:
        has_library = False
    if not has_library:
        return None
    from hpcforge.node.gpus import nvml  # noqa: PLC0415 - compiled on the node each time, and not needed on most

    return nvml.begin()


def driver_says(reading: nvml.Reading | None) -> answer_types.Nvml | None:
    """Return the driver's report, once it is complete, or its time is up."""
    if reading is None:
        return None
    from hpcforge.node.gpus import nvml  # noqa: PLC0415 - the query has imported it

    return nvml.end(reading, sorted(_nvidia_devices(_PCI)))


def nvidia_gpus(devices: Path) -> int:
    """Return the number of NVIDIA display controllers on the PCI bus, with or without a loaded driver."""
    return len(_nvidia_devices(devices))


def _nvidia_devices(devices: Path) -> list[str]:
    if not devices.is_dir():
        return []
    vendors = (device for device in devices.iterdir() if _line(str(device / "vendor")) == _NVIDIA)
    return [device.name for device in vendors if _line(str(device / "class")).startswith(_DISPLAY_CLASSES)]


def fake_gpus(dev: Path) -> int:
    """Count a rehearsal's stand-ins: character devices /dev/fakegpuN."""
    return sum(path.name[7:].isdigit() and stat.S_ISCHR(path.lstat().st_mode) for path in dev.glob("fakegpu*"))


def virtualisation() -> str:
    """Return systemd's name: `none` on metal, `systemd-nspawn`, `kvm`, ...; "" if it is unknown."""
    container = _line("/run/systemd/container")
    if container:
        return container
    try:
        return commands.run(["systemd-detect-virt"], 5).stdout.strip()
    except NodeError:
        return ""


def _line(path: str, all_lines: bool = False) -> str:
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
    return text if all_lines else text.strip()
