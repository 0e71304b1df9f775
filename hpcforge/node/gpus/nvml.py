"""The driver's report on GPUs, through NVIDIA's management library (NVML).

A separate process calls NVML and writes one JSON line a step: after a GPU fell off the bus NVML may crash, or hang
where no signal ends it. The lines written before that count. The library's answers are not trusted: each number has a
limit, each text is cut and checked for known characters, and an invalid answer loses only its own fact.

Sources of functions, buffers and error numbers: nvml.h 13.3.29 (github.com/NVIDIA/go-nvml, gen/nvml/nvml.h) and
NVIDIA's own pynvml.py (nvidia-ml-py 13.615.71 on PyPI). Functions with several versions are called by the name with the
suffix (`nvmlInit_v2`, `nvmlDeviceGetPciInfo_v3`): only that name means the same in all drivers.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcforge.node.events import readable

if TYPE_CHECKING:
    from hpcforge.node import answer_types

LIBRARY = "libnvidia-ml.so.1"
LIMIT_S = 30.0  # limit for all GPUs: without persistence mode the driver sets each one up first, a second or two

_ANSWER_LIMIT = 1 << 20  # bytes
_MESSAGE_LIMIT = 280  # characters of an error
_MOST_GPUS = 64
_MOST_LINKS = 36  # NVML_NVLINK_MAX_LINKS
_REAP_S = 1.0  # a killed process that still exists then hangs in the driver, and stays
_INVALID_ARGUMENT, _NO_FUNCTION, _GPU_IS_LOST, _RESET_REQUIRED, _OTHER_VERSION = 2, 13, 15, 16, 25
_SILENT = (3, _NO_FUNCTION)  # not supported by this GPU; no such function in this library
_MEANINGS = {
    _INVALID_ARGUMENT: "invalid argument",
    4: "no permission",
    9: "no driver is loaded: load its module (modprobe nvidia), or restart the node",
    _GPU_IS_LOST: "the GPU has fallen off the bus",
    _RESET_REQUIRED: "the GPU has to be reset before it can be used",
    18: "the versions of the driver's libraries and of its kernel module differ, as after an upgrade of packages: "
    "restart the node, or stop all users of GPUs and reload the module",
    999: "unknown error",
}
_TEXTS = (
    ("model", "nvmlDeviceGetName", 96),
    ("serial", "nvmlDeviceGetSerial", 30),
    ("uuid", "nvmlDeviceGetUUID", 96),
    ("vbios", "nvmlDeviceGetVbiosVersion", 32),
)
_UINT, _LONG = ctypes.c_uint, ctypes.c_ulonglong
_COUNT = 1 << 50  # more errors or rows than are possible
# Fact, function, its arguments, type of the answer, highest plausible value.
_NUMBERS: tuple[tuple[str, str, tuple[int, ...], Any, int], ...] = (
    ("temperature_c", "nvmlDeviceGetTemperature", (0,), _UINT, 200),
    ("clock_mhz", "nvmlDeviceGetClockInfo", (1,), _UINT, 20_000),  # clock of the multiprocessors
    ("clock_max_mhz", "nvmlDeviceGetMaxClockInfo", (1,), _UINT, 20_000),
    ("clock_reasons", "nvmlDeviceGetCurrentClocksEventReasons", (), _LONG, 1 << 32),
    ("clock_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), _LONG, 1 << 32),  # the name before driver 535
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), _UINT, 32),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), _UINT, 32),  # of card and slot together
    ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), _UINT, 10),
    ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), _UINT, 10),  # of card and slot together
    ("ecc_uncorrected", "nvmlDeviceGetTotalEccErrors", (1, 0), _LONG, _COUNT),  # since the driver was loaded
    ("ecc_uncorrected_ever", "nvmlDeviceGetTotalEccErrors", (1, 1), _LONG, _COUNT),
)
_FACTS = (
    *(fact for fact, _, _ in _TEXTS),
    *dict.fromkeys(fact for fact, *_ in _NUMBERS),
    *("bus_id", "memory_mib", "ecc", "remapped", "nvlinks", "fabric", "mig"),
    *("power_limit_w", "power_limit_default_w", "error"),
)
# NVML_GPU_FABRIC_STATE_*. GPUs without NVSwitches answer 0.
_FABRIC_STATES = ("not supported", "not started", "in progress", "completed")
# Places in the health mask: first bit, mask, values of a fault. Recoveries (bits 2 and 6) end by themselves.
_FABRIC_FAULTS = (
    ("degraded bandwidth", 0, 0x3, range(1, 2)),
    ("unhealthy route", 4, 0x3, range(1, 2)),
    ("incorrect configuration", 8, 0xF, range(2, 16)),
)


class _Memory(ctypes.Structure):
    _fields_ = (("total", _LONG), ("free", _LONG), ("used", _LONG))


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("legacy", ctypes.c_char * 16),
        ("domain", _UINT),
        ("bus", _UINT),
        ("device", _UINT),
        ("id", _UINT),
        ("subsystem", _UINT),
        ("bus_id", ctypes.c_char * 32),
    )


class _FabricInfo(ctypes.Structure):
    """Version 3. Version 2 ends before `summary`; the first begins with `cluster` and ends before `health`."""

    _fields_ = (
        ("version", _UINT),  # the size in bytes, and the version from bit 24 on
        ("cluster", ctypes.c_ubyte * 16),
        ("status", _UINT),
        ("clique", _UINT),
        ("state", ctypes.c_ubyte),
        ("health", _UINT),
        ("summary", ctypes.c_ubyte),
    )


_FABRIC_VERSIONS = (
    ("nvmlDeviceGetGpuFabricInfoV", ctypes.sizeof(_FabricInfo) | 3 << 24, 0),
    ("nvmlDeviceGetGpuFabricInfoV", _FabricInfo.summary.offset | 2 << 24, 0),
    ("nvmlDeviceGetGpuFabricInfo", 0, _FabricInfo.cluster.offset),  # drivers before 550
)


class Reading(NamedTuple):
    """A process that calls the library."""

    pid: int
    answers: int  # the pipe with its lines
    until_s: float
    limit_s: float


class _NvmlError(Exception):
    """A failed call; `code` is NVML's, 0 for an invalid answer."""

    def __init__(self, code: int, reason: str = "") -> None:
        meaning = _MEANINGS.get(code)
        super().__init__(reason or (f"{meaning} (NVML error {code})" if meaning else f"NVML error {code}"))
        self.code = code


def begin(library: str = LIBRARY, limit_s: float = LIMIT_S) -> Reading:
    """Start the process that calls the library. Call it before this process has threads, since it forks."""
    answers, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _close_others(tell)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # if no process reads it to its end
            signal.setitimer(signal.ITIMER_REAL, limit_s + _REAP_S)
            _send_all(library, tell)
        finally:
            os._exit(0)
    os.close(tell)
    return Reading(pid, answers, time.monotonic() + limit_s, limit_s)


def end(reading: Reading, on_bus: list[str]) -> answer_types.Nvml:
    """Wait for the driver's answers, or until the time is up. `on_bus`: NVIDIA's GPUs on the PCI bus."""
    lines, late = _received(reading)
    ended = _reap(reading.pid, kill=late)
    os.close(reading.answers)
    report: answer_types.Nvml = {"driver": None, "gpus": [], "error": None, "on_bus": on_bus}
    source, complete = "the library", False
    for line in lines:
        if "asks" in line:
            source = f"GPU {line['asks']}" if isinstance(line["asks"], int) else "the library"
        elif "gpu" in line:
            report["gpus"].append(line["gpu"])
        else:
            report["driver"] = line.get("driver", report["driver"])
            report["error"] = line.get("error", report["error"])
            complete = complete or bool(line.get("done"))
    if not complete and late:
        report["error"] = (
            f"{source} gave no answer within {reading.limit_s:g} s, for example because a GPU has fallen off the bus "
            "(Xid 79 in the kernel's log): restart the node; if it happens again, the GPU or its slot is faulty"
        )
    elif not complete:
        how = f"signal {-ended}" if ended is not None and ended < 0 else "an early end"
        report["error"] = f"NVML broke off at {source} ({how})"
    return report


def _close_others(tell: int) -> None:
    """Close all but the pipe: a hanging process must not keep the connection to the operator host open."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.closerange(3, tell)
    os.closerange(tell + 1, 1 << 16)


def _received(reading: Reading) -> tuple[list[Any], bool]:
    """Return the received lines, and whether the time was up before the end."""
    data, late = bytearray(), False
    while len(data) <= _ANSWER_LIMIT:
        left_s = max(0.0, reading.until_s - time.monotonic())
        if not select.select([reading.answers], [], [], left_s)[0]:
            late = True
            break
        chunk = os.read(reading.answers, 65536)
        if not chunk:
            break
        data += chunk
    lines = []
    for line in bytes(data).split(b"\n")[:-1]:
        with suppress(ValueError):  # a library with stray writes may spoil a line
            lines.append(json.loads(line))
    return [line for line in lines if isinstance(line, dict)], late


def _reap(pid: int, kill: bool) -> int | None:
    """Return the exit status, negative for a signal; None for a process that no signal can end."""
    if kill:
        os.kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + _REAP_S
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if time.monotonic() >= until_s:
            return None
        time.sleep(0.01)


def _send_all(library: str, tell: int) -> None:
    def say(line: dict[str, Any]) -> None:
        os.write(tell, (json.dumps(line) + "\n").encode("ascii"))

    try:
        nvml = _Library(library)
        driver, count = nvml.start()
    except (_NvmlError, OSError) as error:
        say({"error": _describe(error), "done": True})
        return
    say({"driver": driver})
    for index in range(count):
        say({"asks": index})
        say({"gpu": nvml.gpu(index)})
    say({"done": True})


class _Library:
    """NVML, loaded into this process."""

    def __init__(self, path: str) -> None:
        try:
            self.so = ctypes.CDLL(path)
        except OSError as error:
            raise _NvmlError(0, f"{LIBRARY} cannot be loaded: {error}") from None

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function of the library. Raise _NvmlError for an answer that is not success."""
        try:
            entry = getattr(self.so, function)
        except AttributeError:
            raise _NvmlError(13) from None
        code = int(entry(*arguments))
        if code:
            raise _NvmlError(code)

    def start(self) -> tuple[str | None, int]:
        """Return the driver's version, and the number of GPUs; they are set up only when they are queried."""
        self.call("nvmlInit_v2")
        count = _UINT()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        driver = None
        with suppress(_NvmlError):
            driver = self._text("nvmlSystemGetDriverVersion", 80)
        return driver, _at_most(count.value, _MOST_GPUS)

    def gpu(self, index: int) -> dict[str, Any]:
        """Return the facts of a GPU, None if it does not report one; `troubles` has the reasons for unexpected gaps."""
        facts: dict[str, Any] = {"index": index, **dict.fromkeys(_FACTS), "troubles": {}}
        handle = ctypes.c_void_p()
        try:
            self.call("nvmlDeviceGetHandleByIndex_v2", _UINT(index), ctypes.byref(handle))
        except _NvmlError as error:
            return {**facts, "error": _describe(error)}
        for fact, ask in self._asks(handle):
            if facts[fact] is not None:
                continue
            try:
                facts[fact] = ask()
            except _NvmlError as error:
                if error.code in (_GPU_IS_LOST, _RESET_REQUIRED):
                    return {**facts, "error": _describe(error)}
                if error.code not in _SILENT:
                    facts["troubles"][fact] = _describe(error)
        return facts

    def _asks(self, handle: ctypes.c_void_p) -> Iterator[tuple[str, Callable[[], Any]]]:
        for fact, function, size in _TEXTS:
            yield fact, partial(self._text, function, size, handle)
        for fact, function, more, kind, most in _NUMBERS:
            yield fact, partial(self._number, handle, function, more, kind, most)
        for fact, ask in (
            ("bus_id", self._bus_id),
            ("memory_mib", self._memory_mib),
            ("ecc", self._ecc),
            ("remapped", self._remapped),
            ("nvlinks", self._nvlinks),
            ("fabric", self._fabric),
            ("mig", self._mig),
            ("power_limit_w", partial(self._watts, "nvmlDeviceGetPowerManagementLimit")),
            ("power_limit_default_w", partial(self._watts, "nvmlDeviceGetPowerManagementDefaultLimit")),
        ):
            yield fact, partial(ask, handle)

    def _text(self, function: str, size: int, *handles: ctypes.c_void_p) -> str | None:
        buffer = ctypes.create_string_buffer(size + 1)  # one more: the text ends, whatever the library writes
        self.call(function, *handles, buffer, _UINT(size))
        text = buffer.value.decode("ascii", "replace").strip()
        if re.search(r"[^\w .,:;/()+-]", text, re.ASCII):
            raise _NvmlError(0, "its answer is not text")
        return text or None

    def _number(self, handle: ctypes.c_void_p, function: str, more: tuple[int, ...], kind: Any, most: int) -> int:
        value = kind()
        self.call(function, handle, *map(_UINT, more), ctypes.byref(value))
        return _at_most(value.value, most)

    def _watts(self, function: str, handle: ctypes.c_void_p) -> int:
        """Return a power limit, rounded; the library gives mW."""
        return round(self._number(handle, function, (), _UINT, 100_000_000) / 1000)

    def _bus_id(self, handle: ctypes.c_void_p) -> str:
        """Return the address in the kernel's form, 0000:9b:00.0."""
        info = _PciInfo()
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(info))
        bus, device = _at_most(info.bus, 0xFF), _at_most(info.device, 31)
        return f"{_at_most(info.domain, 1 << 32):04x}:{bus:02x}:{device:02x}.0"

    def _memory_mib(self, handle: ctypes.c_void_p) -> int:
        memory = _Memory()
        self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        return _at_most(memory.total >> 20, 1 << 24)

    def _pair(self, handle: ctypes.c_void_p, function: str) -> tuple[bool, bool]:
        current, pending = _UINT(), _UINT()
        self.call(function, handle, ctypes.byref(current), ctypes.byref(pending))
        return bool(_at_most(current.value, 1)), bool(_at_most(pending.value, 1))

    def _ecc(self, handle: ctypes.c_void_p) -> bool:
        return self._pair(handle, "nvmlDeviceGetEccMode")[0]

    def _remapped(self, handle: ctypes.c_void_p) -> dict[str, Any]:
        """Return remapped rows. With MIG instances NVML does not report them."""
        correctable, uncorrectable, pending, failed = (_UINT() for _ in range(4))
        values = (correctable, uncorrectable, pending, failed)
        self.call("nvmlDeviceGetRemappedRows", handle, *map(ctypes.byref, values))
        return {
            "correctable": _at_most(correctable.value, 1 << 20),
            "uncorrectable": _at_most(uncorrectable.value, 1 << 20),
            "pending": bool(_at_most(pending.value, 1)),
            "failed": bool(_at_most(failed.value, 1)),
        }

    def _nvlinks(self, handle: ctypes.c_void_p) -> dict[str, int]:
        """Return the number of active links, and of the GPU's links; a missing link answers with an error.

        Links without a peer answer that they are off: 12 of an A100 PCIe without a bridge (NVIDIA/NVSentinel, pull
        request 1481), 6 of the 18 of an H100 PCIe in pairs (Azure/azurehpc-health-checks, issue 162). Links above the
        GPU's own are invalid arguments (18 of 36 of a B200: NVIDIA/TensorRT-LLM, pull request 19210). Where NVLink is
        off for the driver no link answers, as on an H200 passed alone into a virtual machine (2026-11-27).
        """
        states = []
        for link in range(_MOST_LINKS):
            try:
                states.append(self._number(handle, "nvmlDeviceGetNvLinkState", (link,), _UINT, 1))
            except _NvmlError as error:
                if error.code not in (*_SILENT, _INVALID_ARGUMENT):
                    raise
        return {"active": sum(states), "total": len(states)}

    def _fabric(self, handle: ctypes.c_void_p) -> dict[str, object] | None:
        """Return how far the GPU's registration with the fabric of its NVSwitches is; None without a fabric.

        Version 3 of the answer came with nvml.h 13.0 (driver 580), version 2 with 12.4 (550); the first has no health.
        """
        for function, version, begin in _FABRIC_VERSIONS:
            info = _FabricInfo(version=version)
            try:
                self.call(function, handle, ctypes.byref(info, begin))
                break
            except _NvmlError as error:
                if error.code not in (_INVALID_ARGUMENT, _NO_FUNCTION, _OTHER_VERSION):
                    raise
        state = _FABRIC_STATES[_at_most(info.state, len(_FABRIC_STATES) - 1)]
        if state == _FABRIC_STATES[0]:
            return None
        health = [word for word, bit, places, faults in _FABRIC_FAULTS if info.health >> bit & places in faults]
        if info.summary in (2, 3) and not health:
            health = ["unhealthy" if info.summary == 2 else "limited capacity"]
        return {"state": state, "status": _at_most(info.status, 999), "health": health}

    def _mig(self, handle: ctypes.c_void_p) -> list[str] | None:
        """Return the instances by the ends of their names (`1g.10gb`); None if MIG is off."""
        if not self._pair(handle, "nvmlDeviceGetMigMode")[0]:
            return None
        most = self._number(handle, "nvmlDeviceGetMaxMigDeviceCount", (), _UINT, _MOST_GPUS)
        names = []
        for index in range(most):
            instance = ctypes.c_void_p()
            with suppress(_NvmlError):  # no instance has this index
                self.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, _UINT(index), ctypes.byref(instance))
                name = self._text("nvmlDeviceGetName", 96, instance) or ""
                names.append(name.rpartition(" MIG ")[2] or "unnamed")
        return names


def _at_most(value: int, most: int) -> int:
    if not 0 <= value <= most:
        raise _NvmlError(0, f"{value} is not valid: the highest value is {most}")
    return value


def _describe(error: Exception) -> str:
    """Return the error as one printable line, which the operator host requires."""
    return "".join(letter if letter.isprintable() else " " for letter in readable(str(error), _MESSAGE_LIMIT))
