#!/usr/bin/python3 -IS
"""Print a node's GPUs as metrics, in Prometheus' text format.

Device files are compared with what the blueprint declares. What NVIDIA's library (NVML) reports is added where it is
installed; a function that a library or a GPU does not have costs that metric alone. Xid errors come from the kernel's
messages, which no user can write. Gauges of use carry the number of the job that has the GPU (`gpu_jobs.py`).
Functions and numbers: nvml.h 13.3.29 (github.com/NVIDIA/go-nvml). Standard library, Python 3.9.
"""

import contextlib
import ctypes
import json
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from typing import Any, Optional

WANTED = "/etc/hpcforge/gpu_metrics.json"
JOBS = "/run/hpcforge_gpu_jobs"
XIDS = "/var/lib/hpcforge_metrics/gpu_xids.json"
CURSOR = "/var/lib/hpcforge_metrics/gpu_xids.cursor"
LIBRARY = "libnvidia-ml.so.1"
DAY_S = 86400
MOST_XIDS = 1000  # of a node in a day
# Of the program that ran, not of the GPU: engine exception, MMU fault, reset channel verification, preemptive cleanup.
OF_PROGRAMS = {13, 31, 43, 45}
XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")
UINT, LONG = ctypes.c_uint, ctypes.c_ulonglong
Sample = tuple[str, dict[str, str], float]
# Metric, function, its arguments, type of the answer, factor.
NUMBERS: tuple[tuple[str, str, tuple[int, ...], Any, float], ...] = (
    ("gpu_temperature_celsius", "nvmlDeviceGetTemperature", (0,), UINT, 1),
    ("gpu_power_watts", "nvmlDeviceGetPowerUsage", (), UINT, 0.001),
    ("gpu_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", (), UINT, 0.001),
    ("gpu_clock_hertz", "nvmlDeviceGetClockInfo", (1,), UINT, 1e6),
    ("gpu_throttle_reasons", "nvmlDeviceGetCurrentClocksEventReasons", (), LONG, 1),
    ("gpu_throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), LONG, 1),  # its name before 535
    ("gpu_pcie_replays_total", "nvmlDeviceGetPcieReplayCounter", (), UINT, 1),
    ("gpu_pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), UINT, 1),
    ("gpu_ecc_uncorrected_total", "nvmlDeviceGetTotalEccErrors", (1, 0), LONG, 1),
    ("gpu_energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", (), LONG, 0.001),
)
WITH_JOB = {
    "gpu_temperature_celsius",
    "gpu_power_watts",
    "gpu_utilization_ratio",
    "gpu_memory_used_bytes",
    "gpu_clock_hertz",
}
# nvmlClocksThrottleReasons: slowdown by hardware, for its temperature, by a power brake; by temperature of either kind.
HARDWARE, THERMAL = 0x8 | 0x40 | 0x80, 0x20 | 0x40


class Utilization(ctypes.Structure):
    """nvmlUtilization_t, percent."""

    _fields_ = (("gpu", UINT), ("memory", UINT))


class Memory(ctypes.Structure):
    """nvmlMemory_t, bytes."""

    _fields_ = (("total", LONG), ("free", LONG), ("used", LONG))


class Pci(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("legacy", ctypes.c_char * 16), ("domain", UINT), ("bus", UINT), ("device", UINT), ("id", UINT),
        ("subsystem", UINT), ("bus_id", ctypes.c_char * 32),
    )  # fmt: skip


def present(devices: Iterable[str], root: str = "") -> Iterator[Sample]:
    """Yield for each declared device file whether it is a character device. It is not opened."""
    for index, path in enumerate(devices):
        there = False
        with contextlib.suppress(OSError):
            there = stat.S_ISCHR(os.stat(root + path).st_mode)
        yield "gpu_present", {"gpu": str(index), "device": path}, there


def jobs(folder: str = JOBS) -> dict[int, str]:
    """The jobs that have GPUs, by index; several with a comma."""
    found: dict[int, str] = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder))[:64]:
            if name.isdigit():
                with contextlib.suppress(OSError), open(os.path.join(folder, name), encoding="ascii") as file:
                    found[int(name)] = ",".join(line for line in file.read(1024).split() if line.isdigit())
    return {index: text for index, text in found.items() if text}


def of_driver(library: Any, own: dict[int, str], buses: dict[str, int]) -> Iterator[Sample]:
    """Yield what NVML reports of each GPU; `buses` gets its index by its place on the PCI bus."""
    count = UINT()
    if library.nvmlInit_v2() != 0 or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        yield "gpu_driver_up", {}, 0
        return
    yield "gpu_driver_up", {}, 1
    for index in range(min(count.value, 64)):
        gpu, labels = ctypes.c_void_p(), {"gpu": str(index)}
        if library.nvmlDeviceGetHandleByIndex_v2(UINT(index), ctypes.byref(gpu)) != 0:
            yield "gpu_answers", labels, 0
            continue
        yield "gpu_answers", labels, 1
        pci = answer(library, "nvmlDeviceGetPciInfo_v3", gpu, (), Pci)
        if pci is not None:
            buses[place(pci.domain, pci.bus, pci.device)] = index
        for name, value in of_one(library, gpu):
            yield name, {**labels, "job_id": own.get(index, "")} if name in WITH_JOB else labels, value
        for kind, errors in nvlink_errors(library, gpu).items():
            yield "gpu_nvlink_errors_total", {**labels, "kind": kind}, errors


def of_one(library: Any, gpu: Any) -> Iterator[tuple[str, float]]:
    """Yield the metrics of one GPU."""
    known: set[str] = set()
    for name, function, arguments, kind, factor in NUMBERS:
        value = None if name in known else answer(library, function, gpu, arguments, kind)
        if value is not None:
            known.add(name)
            yield name, value.value * factor
            if name == "gpu_throttle_reasons":
                yield "gpu_hardware_slowdown", bool(value.value & HARDWARE)
                yield "gpu_thermal_slowdown", bool(value.value & THERMAL)
    used = answer(library, "nvmlDeviceGetUtilizationRates", gpu, (), Utilization)
    if used is not None:
        yield "gpu_utilization_ratio", min(used.gpu, 100) / 100
    memory = answer(library, "nvmlDeviceGetMemoryInfo", gpu, (), Memory)
    if memory is not None:
        yield "gpu_memory_used_bytes", memory.used
        yield "gpu_memory_bytes", memory.total
    rows = [UINT() for _ in range(4)]
    remapped = getattr(library, "nvmlDeviceGetRemappedRows", None)
    if remapped is not None and remapped(gpu, *map(ctypes.byref, rows)) == 0:
        yield from zip(
            (
                "gpu_remapped_rows_correctable",
                "gpu_remapped_rows_uncorrectable",
                "gpu_remap_pending",
                "gpu_remap_failed",
            ),
            (row.value for row in rows),
        )


def nvlink_errors(library: Any, gpu: Any) -> dict[str, int]:
    """Errors of active NVLinks by kind: replay, recovery, CRC of flits, CRC of data. The links are summed: 18 of 8 GPUs
    would be 576 series of a node.
    """
    found: dict[str, int] = {}
    for link in range(36):
        state = answer(library, "nvmlDeviceGetNvLinkState", gpu, (link,), UINT)
        if state is None or not state.value:
            continue
        for number, kind in enumerate(("replay", "recovery", "crc_flit", "crc_data")):
            errors = answer(library, "nvmlDeviceGetNvLinkErrorCounter", gpu, (link, number), LONG)
            if errors is not None:
                found[kind] = found.get(kind, 0) + errors.value
    return found


def answer(library: Any, function: str, gpu: Any, arguments: tuple[int, ...], kind: Any) -> Any:
    """What a function answers, or None where the library or the GPU does not have it."""
    ask, value = getattr(library, function, None), kind()
    if ask is None or ask(gpu, *map(UINT, arguments), ctypes.byref(value)) != 0:
        return None
    return value


def place(domain: int, bus: int, device: int) -> str:
    """A place on the PCI bus, without the function."""
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def placed(text: str) -> Optional[str]:
    """A place on the bus as the kernel writes it, `0000:3b:00`, perhaps with a function."""
    parts = text.partition(".")[0].split(":")
    try:
        return place(*(int(part, 16) for part in parts)) if len(parts) == 3 else None
    except ValueError:
        return None


def xids(messages: str) -> Iterator[list[Any]]:
    """Yield time (seconds since 1970), place and number of each Xid in journalctl's JSON lines."""
    for line in messages.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            found = XID.match(entry["MESSAGE"])  # elsewhere in a message a user may have written it
            bus = found and placed(found[1])
            if found and bus:
                yield [int(entry["__REALTIME_TIMESTAMP"]) // 1_000_000, bus, int(found[2])]


def of_xids(found: list[list[Any]], buses: dict[str, int], now_s: float) -> Iterator[Sample]:
    """Yield when each Xid was last seen, and how many of the GPU's own there were within a day."""
    last: dict[tuple[str, int], float] = {}
    fatal: dict[str, int] = dict.fromkeys(buses, 0)
    for time_s, bus, number in found:
        last[bus, number] = max(time_s, last.get((bus, number), 0))
        if number not in OF_PROGRAMS and now_s - time_s < DAY_S:
            fatal[bus] = fatal.get(bus, 0) + 1
    for (bus, number), time_s in last.items():
        kind = "program" if number in OF_PROGRAMS else "gpu"
        yield "gpu_xid_seconds", {**of_bus(bus, buses), "xid": str(number), "of": kind}, time_s
    for bus, count in fatal.items():
        yield "gpu_fatal_xids_day", of_bus(bus, buses), count


def of_bus(bus: str, buses: dict[str, int]) -> dict[str, str]:
    """The labels of a place on the bus; without NVML it is not known which GPU is there."""
    return {"gpu": str(buses[bus]) if bus in buses else "", "bus": bus}


def new_xids() -> str:
    """The kernel's messages since the last time; journalctl keeps its place."""
    command = ("journalctl", "--quiet", "--dmesg", "--output=json", "--grep=NVRM: Xid", f"--cursor-file={CURSOR}")
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    return done.stdout.decode(errors="replace")


def kept_xids(now_s: float) -> list[list[Any]]:
    """All Xids of a day, with the new ones."""
    before: list[list[Any]] = []
    with contextlib.suppress(OSError, ValueError), open(XIDS, encoding="utf-8") as file:
        before = json.load(file)
    recent = [each for each in [*before, *xids(new_xids())] if now_s - each[0] < DAY_S]
    ours = [each for each in recent if each[2] in OF_PROGRAMS][-MOST_XIDS:]  # so that a user's do not push out others
    found = sorted([*ours, *[each for each in recent if each[2] not in OF_PROGRAMS][-MOST_XIDS:]])
    if found != before:
        with open(f"{XIDS}.new", "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(f"{XIDS}.new", XIDS)
    return found


def lines(samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the text format: all samples of a metric together."""
    by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
    for name, labels, value in samples:
        by_name.setdefault(name, []).append((labels, value))
    for name, several in by_name.items():
        yield f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"
        for labels, value in several:
            shown = ",".join(f'{key}="{text}"' for key, text in labels.items())
            yield f"{name}{{{shown}}} {float(value)!r}"


def main() -> None:
    """Print all of it."""
    with open(WANTED, encoding="utf-8") as file:
        wanted = json.load(file)
    now_s, own, buses = time.time(), jobs(), dict[str, int]()
    found: list[Sample] = [("gpu_declared", {"model": str(wanted["model"])}, wanted["count"])]
    found += present(wanted["devices"])
    found += (("gpu_job", {"gpu": str(index), "job_id": job}, 1) for index, job in own.items())
    if wanted["vendor"] == "nvidia":
        with contextlib.suppress(OSError):
            found += of_driver(ctypes.CDLL(LIBRARY), own, buses)
    found += of_xids(kept_xids(now_s), buses, now_s)
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
