#!/usr/bin/python3 -BIS
"""Print a node's GPUs as metrics, in Prometheus' text format.

Device files are compared with what the blueprint declares. NVIDIA's library (NVML) reports the rest; a function that a
library or a GPU does not have costs that metric alone. Xid errors, and SXid errors of NVSwitches, come from the
kernel's messages, which no user can write. Gauges of use carry the number of the job that has the GPU (`gpu_jobs.py`).
A GPU that fell off the bus can make NVML hang: see `metric_sources.py`. Functions and numbers: nvml.h 13.3.29
(github.com/NVIDIA/go-nvml). Standard library, Python 3.9.
"""

import contextlib
import ctypes
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Optional

sys.path.insert(0, "/usr/lib/hpcforge")
import metric_sources

COLLECTOR = "gpus"
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
# Each error of a switch has three lines: its severity with link and name, `Severity N` with the engine, and `Data`. The
# driver prints no severity where a switch is too hot or does not answer (NVIDIA/open-gpu-kernel-modules, src/common/
# nvswitch: NVSWITCH_PRINT_SXID and its callers).
SXID = re.compile(
    r"nvidia-nvswitch\d{1,3}: SXid \(PCI:([0-9a-f:.]{7,16})\): (\d{1,6}), (Fatal\b|Severity 1\b|Severity |Data )?", re.I
)
STOPPED = {10006, 10007}  # thermal shutdown, IO failure: without a severity, and the switch is gone
ACTIVE = ("active", "activating", "reloading")
UINT, LONG = ctypes.c_uint, ctypes.c_ulonglong
Sample = metric_sources.Sample
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
    ("gpu_pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), UINT, 1),  # of card and slot together
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


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t; nvmlGpuFabricInfo_t is the part from `cluster` to `state`."""

    _fields_ = (
        ("version", UINT), ("cluster", ctypes.c_ubyte * 16), ("status", UINT), ("clique", UINT),
        ("state", ctypes.c_ubyte), ("health", UINT),
    )  # fmt: skip


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


def declared(settings: dict[str, Any]) -> Iterator[Sample]:
    """Yield what the blueprint declares, and which of its devices are present."""
    yield "gpu_declared", {"model": str(settings["model"])}, float(settings["count"])
    yield from present(settings["devices"])


def jobs(folder: Optional[str] = None) -> Iterator[tuple[int, str]]:
    """Yield the jobs of each GPU that has any: its index, and their numbers with commas. Raises ValueError at last."""
    folder = folder or JOBS
    names = sorted(os.listdir(folder))[:64] if os.path.isdir(folder) else []
    garbled = []
    for name in filter(str.isdigit, names):
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
            numbers = file.read(1024).split()
            if all(map(bytes.isdigit, numbers)) and numbers:
                yield int(name), b",".join(numbers).decode()
            garbled += [name] if not all(map(bytes.isdigit, numbers)) else []
    if garbled:
        raise ValueError(f"{folder}: no numbers of jobs in {', '.join(garbled)}")


def nvml_gpus(path: str) -> Iterator[tuple[Optional[str], list[Sample]]]:
    """Yield each GPU's place on the PCI bus with its samples; first those of no GPU. Raises OSError without NVML."""
    library, count = ctypes.CDLL(path), UINT()
    if library.nvmlInit_v2() != 0 or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        yield None, [("gpu_driver_up", {}, 0)]
        return
    yield None, [("gpu_driver_up", {}, 1)]
    for index in range(min(count.value, 64)):
        gpu, labels = ctypes.c_void_p(), {"gpu": str(index)}
        if library.nvmlDeviceGetHandleByIndex_v2(UINT(index), ctypes.byref(gpu)) != 0:
            yield None, [("gpu_answers", labels, 0)]
            continue
        samples: list[Sample] = [("gpu_answers", labels, 1)]
        pci = answer(library, "nvmlDeviceGetPciInfo_v3", gpu, (), Pci)
        samples += ((name, labels, value) for name, value in of_one(library, gpu))
        for kind, errors in nvlink_errors(library, gpu).items():
            samples.append(("gpu_nvlink_errors_total", {**labels, "kind": kind}, errors))
        yield pci and place(pci.domain, pci.bus, pci.device), samples


def driver_samples(nvml: metric_sources.Answer, own: dict[int, str]) -> Iterator[Sample]:
    """Yield what NVML reports of each GPU, with its jobs. A GPU at which NVML hangs or ends does not answer."""
    for _, samples in nvml.items:
        for name, labels, value in samples:
            yield name, {**labels, "job_id": own.get(int(labels["gpu"]), "")} if name in WITH_JOB else labels, value
    if not nvml.up:
        if nvml.items:
            yield "gpu_answers", {"gpu": str(len(nvml.items) - 1)}, 0
        else:
            yield "gpu_driver_up", {}, 0


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
    yield from fabric(library, gpu)
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


def fabric(library: Any, gpu: Any) -> Iterator[tuple[str, float]]:
    """Yield whether a GPU is registered with the fabric of its NVSwitches; nothing where none connects it."""
    for function, begin in (("nvmlDeviceGetGpuFabricInfoV", 0), ("nvmlDeviceGetGpuFabricInfo", 4)):
        info, ask = FabricInfo(version=ctypes.sizeof(FabricInfo) | 2 << 24), getattr(library, function, None)
        if ask is not None and ask(gpu, ctypes.byref(info, begin)) == 0:
            if info.state:
                yield "gpu_fabric_registered", (info.state, info.status) == (3, 0)
            return


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
                yield [int(entry["__REALTIME_TIMESTAMP"]) / 1_000_000, bus, int(found[2])]


def sxids(messages: str) -> Iterator[list[Any]]:
    """Yield time (seconds since 1970), place, number and kind (fatal, other) of SXids in journalctl's JSON lines."""
    for line in messages.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            entry = json.loads(line)
            found = SXID.match(entry["MESSAGE"])
            bus = found and placed(found[1])
            if found and bus:
                word, number = (found[3] or "").lower(), int(found[2])
                if word in ("fatal", "severity 1") or number in STOPPED:
                    yield [int(entry["__REALTIME_TIMESTAMP"]) / 1_000_000, bus, number, "fatal"]
                elif not word:  # the other lines of an error that has one
                    yield [int(entry["__REALTIME_TIMESTAMP"]) / 1_000_000, bus, number, "other"]


def of_sxids(found: Iterable[list[Any]]) -> Iterator[Sample]:
    """Yield when each SXid was last seen."""
    for time_s, bus, number, kind in found:
        yield "nvswitch_sxid_seconds", {"bus": bus, "sxid": str(number), "kind": kind}, time_s


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


def new_xids() -> Iterator[list[Any]]:
    """Yield Xids and SXids in the kernel's messages since the last time: journalctl keeps its place.

    The first time it reads a day.
    """
    options = ("--quiet", "--dmesg", "--output=json", "--since=-1d", f"--cursor-file={CURSOR}")
    try:
        status, text, errors = metric_sources.run("journalctl", *options, "--grep=NVRM: Xid|: SXid")
        problems = [line for line in errors.splitlines() if not line.endswith("ignoring file.")]  # a damaged old file
        if status != 0 and (status != 1 or problems):  # 1 without a message: none was new
            raise OSError(f"journalctl: {' '.join(problems)[:300] or f'status {status}'}")
    except OSError:
        forget_cursor()  # it may be what journalctl cannot read
        raise
    yield from xids(text)
    yield from sxids(text)


def kept_xids() -> Iterator[list[Any]]:
    """Yield the Xids and SXids that earlier runs kept."""
    if os.path.exists(XIDS):
        for time_s, bus, number, *kind in json.loads(metric_sources.content(XIDS)):
            yield [float(time_s), str(bus), int(number), *map(str, kind[:1])]


def forget_cursor() -> None:
    """Let journalctl read the last day again. Xids that are kept already count once."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(CURSOR)


def recent_xids(kept: Iterable[list[Any]], new: Iterable[list[Any]], now_s: float) -> list[list[Any]]:
    """Return the Xids of a day, each once, the newest MOST_XIDS of each kind: a user's do not replace others.

    Of each SXid of a switch the last is enough: a link that trains has hundreds.
    """
    recent = sorted({tuple(xid) for xid in (*kept, *new) if now_s - xid[0] < DAY_S})
    of_switches = {xid[1:]: xid for xid in recent if len(xid) == 4}
    xids = [xid for xid in recent if len(xid) == 3]
    of_programs = [xid for xid in xids if xid[2] in OF_PROGRAMS][-MOST_XIDS:]
    of_gpus = [xid for xid in xids if xid[2] not in OF_PROGRAMS][-MOST_XIDS:]
    return sorted(map(list, [*of_programs, *of_gpus, *sorted(of_switches.values())[-MOST_XIDS:]]))


def keep_xids(recent: list[list[Any]]) -> None:
    """Write the Xids for later runs."""
    try:
        with open(f"{XIDS}.new", "w", encoding="utf-8") as file:
            json.dump(recent, file)
        os.replace(f"{XIDS}.new", XIDS)
    except OSError as error:
        metric_sources.log(XIDS, str(error.strerror))
        forget_cursor()


def xid_samples(answers: dict[str, metric_sources.Answer], now_s: float) -> Iterator[Sample]:
    """Yield the metrics of the Xids and SXids of a day, and keep these for later runs."""
    kept, nvml = answers["xids"], answers.get("nvml")
    recent = recent_xids(kept.items, answers["journal"].items, now_s)
    if recent != kept.items:
        keep_xids(recent)
    if not kept.up:
        forget_cursor()
    buses = {bus: int(samples[0][1]["gpu"]) for bus, samples in (nvml.items if nvml else ()) if bus}
    yield from of_xids([xid for xid in recent if len(xid) == 3], buses, now_s)
    yield from of_sxids(xid for xid in recent if len(xid) == 4)


def fabric_manager(unit: str) -> Iterator[Sample]:
    """Yield whether Fabric Manager runs. Raises ValueError where systemd gives no state."""
    states = metric_sources.run("systemctl", "is-active", "--", unit)[1].split()
    if len(states) != 1:
        raise ValueError(f"systemctl: no state of {unit}")
    yield "nvidia_fabric_manager_up", {}, states[0] in ACTIVE


def main() -> None:
    """Print all of it."""
    settings, config = metric_sources.config(COLLECTOR, WANTED, declared)
    sources: dict[str, Any] = {"jobs": jobs, "journal": new_xids, "xids": kept_xids}
    if settings.get("vendor", "nvidia") == "nvidia":
        sources["nvml"] = partial(nvml_gpus, LIBRARY)
    if settings.get("fabric_manager"):
        sources["systemd"] = partial(fabric_manager, str(settings["fabric_manager"]))
    answers = {"config": config, **metric_sources.read(COLLECTOR, sources)}
    own = dict(answers["jobs"].items)
    samples: list[Sample] = [*config.items]
    samples += (("gpu_job", {"gpu": str(index), "job_id": job}, 1) for index, job in own.items())
    if "nvml" in answers:
        samples += driver_samples(answers["nvml"], own)
    samples += xid_samples(answers, time.time())
    samples += answers["systemd"].items if "systemd" in answers else ()
    samples += metric_sources.up(COLLECTOR, answers)
    print("\n".join(metric_sources.lines(samples)))


if __name__ == "__main__":
    main()
