"""Compare a node with what the blueprint declares of it, part by part; each difference is reported by its name.

    python3 smoke_tests/node_health/node_health.py --declared declared.json

hpcforge writes `declared.json` beside this program. Compared are the number and model of GPUs, hardware threads,
memory and how much of it is free, the links' state, rate and MTU, mounts, and the clock. Less than declared is wrong,
and for an MTU any other value. Interfaces that are no hardware, as in a rehearsal, have no rate. The clock is asked of
the time server by SNTP (RFC 4330), whatever the node's own time service reports. The node has no other job, so
processes that together keep half a core busy for twenty seconds were left behind: ranks would wait for theirs. So was
a process on an NVIDIA GPU, whatever it does there: it holds memory, and takes time from the tests that follow. Where
NVSwitches connect GPUs, each is to be registered, Fabric Manager runs, and no switch had a fatal error since. What a
job sees besides (`job_view`) are devices that open, /dev/null and its like, room, names of other nodes, name servers
and account numbers.

Versions of kernel, GPU driver, firmware and BIOS, of PyTorch, its wheels and packages that jobs depend on, MTUs,
limits, Slurm's configuration, how /tmp, /dev/shm and the home are mounted, and /etc/ld.so.preload are texts: hpcforge
compares them among nodes of the same hardware. Standard library alone, Python 3.9.
"""

from __future__ import annotations

import argparse
import fcntl
import ipaddress
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import job_view
from job_view import Part

NTP_PORT = 123
_NTP_EPOCH = 2_208_988_800  # seconds from 1900, where NTP begins, to 1970
_TRIES = 3
_ANSWER_S = 1.0
_MOUNT_S = 10.0  # a mount that has not answered by then hangs
_AMD = "0x1002"  # PCI vendor
_WINDOWS, _WINDOW_S = 20, 1.0  # busy in each of these in a row: what a timer starts has ended by then
_GPU_S = 20.0  # without persistence mode the driver sets each GPU up first
_GPU_USERS = 4  # that are named
_FREE = 0.75  # of the memory that jobs may have: buffers and daemons take some, a process left behind takes more

# Packages of which jobs notice another version, by what they are reported as.
PACKAGES = {
    "libc": ("libc6",),
    "slurm": ("slurmd", "libmunge2"),
    "mpi": ("openmpi-bin", "libpmix2", "libpmix2t64", "libucx0"),
    "rdma": ("libibverbs1", "librdmacm1"),
}
PYTORCH = ("opt/hpcforge/pytorch/lib/python3*/site-packages/torch", "usr/lib/python3/dist-packages/torch")

# A process of another job, or one that a job left behind. Persistence mode and DCGM have none.
GPU_PROCESSES = ("nvidia-smi", "--query-compute-apps=gpu_bus_id,pid,process_name,used_memory", "--format=csv,noheader")


GPU_FABRIC = ("nvidia-smi", "--query-gpu=index,fabric.state,fabric.status", "--format=csv,noheader")
_REGISTERED = "Completed, Success"
_MOST_GPUS = 64
NVSWITCHES = "proc/driver/nvidia-nvswitch/devices"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
METRICS = "var/lib/hpcforge_metrics/gpus.prom"
_FATAL_SXID = re.compile(
    r'^nvswitch_sxid_seconds\{bus="([0-9a-f:]{7,16})",sxid="(\d{1,6})",kind="fatal"\} ([0-9.]{1,20})$', re.MULTILINE
)


def text(path: Path) -> str:
    """A file's content on one line; empty where there is none."""
    try:
        return " ".join(path.read_text(errors="replace").split())
    except OSError:
        return ""


def at_least(name: str, expected: float, got: float) -> Part:
    """A number that may be more."""
    return Part(name, expected, got, got >= expected)


def gpus(declared: Mapping[str, Any], root: Path) -> Iterator[Part]:
    """Device files, and with a driver the number and the models."""
    for device in declared["devices"]:
        there = (root / device.lstrip("/")).exists()
        yield Part(f"GPU {device}", "there", "there" if there else "missing", there)
    if declared["kind"] == "nvidia":
        lines = [path.read_text() for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))]
        models = [line.partition(":")[2].strip() for text in lines for line in text.splitlines() if "Model:" in line]
    elif declared["kind"] == "amd":
        devices = [path.parent for path in sorted((root / "sys/class/drm").glob("renderD*/device/vendor"))]
        models = [text(device / "product_name") for device in devices if text(device / "vendor") == _AMD]
    else:
        return
    yield at_least("number of GPUs", len(declared["devices"]), len(models))
    for number, model in enumerate(models):
        if declared["models"] and model:
            yield Part(f"model of GPU {number}", " or ".join(declared["models"]), model, model in declared["models"])


def output(command: Sequence[str]) -> tuple[list[str], int | None]:
    """The lines that a command prints, and its exit status: None if it hangs. Raises OSError if there is none."""
    child: Any = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        printed = child.communicate(timeout=_GPU_S)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        child.stdout.close()
        child.returncode = -signal.SIGKILL  # so that Python does not wait for one that hangs in the driver
        return [], None
    return [" ".join(line.split()) for line in printed.splitlines() if line.strip()], child.returncode


def gpus_unused(declared: Mapping[str, Any], command: Sequence[str] = GPU_PROCESSES) -> Iterator[Part]:
    """Whether no process uses NVIDIA's GPUs; nothing where there is no nvidia-smi. The job itself uses none."""
    if declared["kind"] != "nvidia":
        return
    try:
        users, status = output(command)
    except OSError:
        return
    if status is None:
        users = [f"nvidia-smi gave no answer within {_GPU_S:g} s"]
    more = [f"{len(users) - _GPU_USERS} more"] if users[_GPU_USERS:] else []
    got = "; ".join([*users[:_GPU_USERS], *more]) or ("none" if status == 0 else "nvidia-smi failed")
    yield Part("processes on GPUs", "none", got, got == "none")


def fabric(declared: Mapping[str, Any], root: Path) -> Iterator[Part]:
    """What NVSwitches need: each GPU registered, Fabric Manager, no fatal error. Nothing where there are none.

    A driver without the question, or a GPU without NVSwitches (N/A), is not compared. Jobs cannot read the kernel's
    log: the node's metrics have its SXids, if there are metrics.
    """
    if declared["kind"] != "nvidia":
        return
    with suppress(OSError):
        registered, status = output(GPU_FABRIC)
        for line in registered[:_MOST_GPUS] if status == 0 else ():
            index, _, got = line.partition(", ")
            if not got.strip("[").startswith("N/A"):
                yield Part(f"NVLink fabric of GPU {index[:8]}", _REGISTERED, got[:80], got == _REGISTERED)
    if not (root / NVSWITCHES).is_dir():
        return
    with suppress(OSError):
        state = "".join(output(("systemctl", "is-active", FABRIC_MANAGER))[0][:1])[:80]
        yield Part("Fabric Manager", "active", state or "unknown", state == "active")
        show = ("systemctl", "show", "--property=InactiveExitTimestampMonotonic", FABRIC_MANAGER)
        uptime_us = "".join(output(show)[0]).partition("=")[2]
        since_s = time.time() - time.monotonic() + (int(uptime_us) / 1e6 if uptime_us.isdecimal() else 0)
        metrics = (root / METRICS).read_text(errors="replace")
        fatal = [f"{sxid} on {bus}" for bus, sxid, at_s in _FATAL_SXID.findall(metrics) if float(at_s) >= since_s]
        more = f" and {len(fatal) - _GPU_USERS} more" if fatal[_GPU_USERS:] else ""
        yield Part("fatal SXids of NVSwitches", "none", ", ".join(fatal[:_GPU_USERS]) + more or "none", not fatal)


def memory_mib(meminfo: str, of: str = "MemTotal") -> int:
    """A number of /proc/meminfo; 0 if it has none of this name."""
    found = next((line.split()[1] for line in meminfo.splitlines() if line.startswith(f"{of}:")), "0")
    return int(found) // 1024


def interfaces() -> dict[str, str]:
    """Interfaces by IPv4 address."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:  # it has no IPv4 address
                continue
            found[socket.inet_ntoa(answer[20:24])] = name
    return found


def interface_on(network: str, by_address: Mapping[str, str]) -> str | None:
    """The interface that has an address of a network."""
    addresses = ipaddress.ip_network(network)
    return next((name for own, name in by_address.items() if ipaddress.ip_address(own) in addresses), None)


def hardware_below(interface: Path) -> list[Path]:
    """The interfaces that are hardware: this one, or those below a bond or VLAN."""
    if (interface / "device").exists():
        return [interface]
    below = [interface.parent / link.name[len("lower_") :] for link in sorted(interface.glob("lower_*"))]
    return [found for one in below for found in hardware_below(one)]


def link(declared: Mapping[str, Any], by_address: Mapping[str, str], root: Path) -> Iterator[Part]:
    """State, rate and MTU of an interface or adapter."""
    name = declared["interface"] or interface_on(declared["network"], by_address)
    if name is None:
        yield Part(f"interface of {declared['of']}", declared["network"], "no interface has an address of it", False)
        return
    port = root / "sys/class/infiniband" / name / "ports/1"
    if port.is_dir():
        state = text(port / "state").partition(":")[2].strip() or "unknown"
        yield Part(f"adapter {name}", "ACTIVE", state, state == "ACTIVE")
        rate_gbps = text(port / "rate").partition(" ")[0]
        yield at_least(f"rate of {name}, Gb/s", declared["rate_gbps"], float(rate_gbps or 0))
        return
    interface = root / "sys/class/net" / name
    up = text(interface / "carrier") == "1"
    yield Part(f"link of {name}", "up", "up" if up else "down" if interface.exists() else "missing", up)
    for port in hardware_below(interface) if up and declared["rate_gbps"] else ():
        mbps = text(port / "speed")
        if mbps.isdigit():  # not of a virtual machine's
            yield at_least(f"rate of {port.name}, Gb/s", declared["rate_gbps"], int(mbps) / 1000)
    if declared["mtu"]:
        mtu = text(interface / "mtu")
        yield Part(f"MTU of {name}", declared["mtu"], mtu, mtu == str(declared["mtu"]))


def mounted(mountinfo: str) -> dict[str, tuple[str, bool]]:
    """The type of what is mounted at each path, and whether it can be written to; the last mount there counts."""
    found = {}
    for line in mountinfo.splitlines():
        own, _, of_system = line.partition(" - ")
        path, options = own.split()[4:6]
        type_, _, *rest = of_system.split()
        writable = not {"ro"} & {*options.split(","), *(rest[0].split(",") if rest else ())}
        found[path.encode().decode("unicode_escape")] = type_, writable
    return found


_ASK = """
import os, sys
try:
    os.statvfs(sys.argv[1])
except FileNotFoundError:
    pass  # the list of mounts has the answer
except OSError as error:
    sys.exit(error.errno)
"""


def trouble(path: Path) -> str:
    """Return the error of a file system, "" for none, "no answer" for one that hangs.

    A process that contacts a hung file system hangs, too: a child does, and Python does not wait for it.
    """
    asked = [sys.executable, "-I", "-c", _ASK, str(path)]
    quiet = subprocess.DEVNULL if os.access(os.devnull, os.R_OK | os.W_OK) else None  # None: this program's own
    child = subprocess.Popen(asked, stdin=quiet, stdout=quiet, stderr=quiet)
    until = time.monotonic() + _MOUNT_S
    while child.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    if child.returncode is None:
        child.kill()
        child.returncode = -signal.SIGKILL  # so that Python does not wait for it either
    if child.returncode < 0:
        return "no answer"
    return os.strerror(child.returncode) if child.returncode else ""


def mount(path: str, root: Path) -> Part:
    """Whether something is mounted at a path, answers, and can be written to."""
    error = trouble(root / path.lstrip("/"))  # asked first: it may mount on demand
    type_, writable = mounted(text_of_lines(root / "proc/self/mountinfo")).get(path, ("", True))
    got = "not mounted" if not type_ or type_ == "autofs" else error or "mounted"
    got = "read only" if got == "mounted" and not writable else got
    return Part(f"mount {path}", "mounted", got, got == "mounted")


def text_of_lines(path: Path) -> str:
    """A file's content as it is."""
    return path.read_text(errors="replace")


def clock_offset_s(server: str, port: int = NTP_PORT) -> float:
    """How far this clock is ahead of a server's, s: the least of some tries. Raises OSError if none is answered."""
    found: list[float] = []
    for _ in range(_TRIES):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.settimeout(_ANSWER_S)
            asked.connect((server, port))
            sent_s = time.time()
            try:
                asked.send(b"\x23" + 47 * b"\0")  # version 4, client
                answer = asked.recv(256)
            except OSError:
                continue
            back_s = time.time()
        if len(answer) < 48 or answer[0] & 7 != 4:
            continue
        received_s, answered_s = (_seconds(answer[at : at + 8]) for at in (32, 40))
        found.append(((sent_s - received_s) + (back_s - answered_s)) / 2)
    if not found:
        raise OSError(f"{server} gives no time")
    return min(found, key=abs)


def _seconds(stamp: bytes) -> float:
    whole, part = struct.unpack("!II", stamp)
    return float(whole - _NTP_EPOCH + part / 2**32)


def clock(servers: Sequence[str], limit_s: float, port: int = NTP_PORT) -> tuple[Part, float]:
    """The clock beside the first server that answers; and how far it is off, s."""
    why = ""
    for server in servers:
        try:
            offset_s = clock_offset_s(server, port)
        except OSError as error:
            why = f"{why}; {error}" if why else str(error)
            continue
        right = abs(offset_s) <= limit_s
        return Part("clock", f"within {limit_s:g} s of {server}", f"{offset_s:+.3f} s", right), abs(offset_s)
    return Part("clock", "an answer of a time server", why, not servers), 0.0


def parts(declared: Mapping[str, Any], by_address: Mapping[str, str], root: Path = Path("/")) -> Iterator[Part]:
    """Every part but the clock and other processes."""
    if declared["gpus"]:
        yield from gpus(declared["gpus"], root)
    yield at_least("hardware threads", declared["cpus"], os.cpu_count() or 0)
    meminfo = text_of_lines(root / "proc/meminfo")
    yield at_least("memory, MiB", declared["memory_mib"], memory_mib(meminfo))
    yield at_least("free memory, MiB", int(_FREE * declared["memory_mib"]), memory_mib(meminfo, "MemAvailable"))
    for each in declared["links"]:
        yield from link(each, by_address, root)
    for each in declared["mounts"]:
        yield mount(each["path"], root)


def cpu_s(root: Path) -> dict[tuple[str, str], tuple[str, float]]:
    """Name and CPU seconds so far of each process, by its number and start."""
    found = {}
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    for path in (root / "proc").glob("[0-9]*/stat"):
        number, _, rest = text(path).partition(" (")
        name, _, rest = rest.rpartition(") ")
        fields = rest.split()  # proc(5): the third is the first of these
        if len(fields) > 19:
            found[number, fields[19]] = name, (int(fields[11]) + int(fields[12])) * tick_s
    return found


def busy_cores(limit: float, root: Path = Path("/")) -> tuple[float, str]:
    """The cores that other processes kept busy in each of some windows in a row, and the busiest's name.

    The first window that is within the limit is the last: daemons take some hundredths of a core.
    """
    least, busiest = float("inf"), ""
    before, began = cpu_s(root), time.monotonic()
    for _ in range(_WINDOWS):
        time.sleep(_WINDOW_S)
        after, now = cpu_s(root), time.monotonic()
        took = {which: after[which][1] - before[which][1] for which in after.keys() & before.keys()}
        took = {which: used for which, used in took.items() if which[0] != str(os.getpid())}
        cores = sum(took.values()) / (now - began)
        if cores < least:
            least, busiest = cores, after[max(took, key=lambda which: took[which])][0] if took else ""
        if least <= limit:
            break
        before, began = after, now
    return least, busiest


def left_alone(limit: float, root: Path = Path("/")) -> Part:
    """Whether other processes leave the node's cores to its jobs."""
    cores, busiest = busy_cores(limit, root)
    got = f"{cores:.1f}, most by {busiest}"
    return Part("cores busy outside of the job", f"at most {limit:g}", got, cores <= limit)


def packages(names: Sequence[str], root: Path) -> str:
    """The versions of those that are installed."""
    show = "${Package} ${Version}\n"  # a package that was removed has no version
    asked = ["dpkg-query", f"--admindir={root / 'var/lib/dpkg'}", "--show", f"--showformat={show}", *names]
    with suppress(OSError):  # a distribution without dpkg
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        return ", ".join(sorted(line for line in said.splitlines() if line[-1] != " ")) or "none"
    return "none"


def pytorch(root: Path) -> str:
    """The build of the PyTorch that hpcforge or the distribution installed: its version and the begin of its commit."""
    for pattern in PYTORCH:
        for path in root.glob(f"{pattern}/version.py"):
            told = dict(re.findall(r"^(\w+)(?:: .*)? = '([^']*)'$", path.read_text(errors="replace"), re.MULTILINE))
            return f"{told.get('__version__', 'unknown')} {told.get('git_version', '')[:10]}".strip()
    return "none"


def versions(declared: Mapping[str, Any], by_address: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """What nodes of the same hardware must have alike."""
    firmware = Counter(text(path) for path in sorted((root / "sys/class/infiniband").glob("*/fw_ver")))
    networks = {each["of"]: each["network"] for each in declared["links"] if each["network"]}
    names = {of: interface_on(network, by_address) or "" for of, network in networks.items()}
    mtus = {of: text(root / "sys/class/net" / name / "mtu") or "unknown" for of, name in names.items()}
    return {
        "kernel": os.uname().release,
        "gpu_driver": text(root / "sys/module/nvidia/version") or text(root / "sys/module/amdgpu/version") or "none",
        "firmware": ", ".join(f"{count} x {version}" for version, count in sorted(firmware.items())) or "none",
        "bios": text(root / "sys/class/dmi/id/bios_version") or "none",
        "mtu": ", ".join(f"{of} {mtu}" for of, mtu in mtus.items()) or "none",
        "pytorch": pytorch(root),
        **{what: packages(names, root) for what, names in PACKAGES.items()},
        "wheels": job_view.wheels(root),
        "limits": job_view.limits(),
        "slurm_conf": job_view.slurm_conf(root),
        "folders": job_view.folders(job_view.home_of(os.geteuid()), root),
        "preload": job_view.preload(root),
    }


def say(as_json: bool, line: str, **event: object) -> None:
    """One event, as a line of JSON or of text."""
    if as_json or line:
        print(json.dumps(event) if as_json else line, flush=True)


def report(as_json: bool, part: Part) -> None:
    """What was compared, and whether it is wrong."""
    if isinstance(part.expected, (int, float)) and isinstance(part.got, (int, float)):
        error = max(0.0, (part.expected - part.got) / max(part.expected, 1e-9))
        compared = {"expected": part.expected, "got": part.got, "error": error, "tolerance": 0.0}
        say(as_json, "", event="assertion", what=part.name, **compared)
    if not part.right:
        line = f"{part.name}: expected {part.expected}, got {part.got}"
        said = {"where": part.name, "expected": str(part.expected), "got": str(part.got)}
        say(as_json, f"wrong: {line}", event="wrong", **said)


def main() -> int:
    """Compare and report; 0 if all is as declared, 3 if not."""
    options = argparse.ArgumentParser(description="This node beside what the blueprint declares of it.")
    options.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    options.add_argument("--clock-s", type=float, default=0.1, help="how far the clock may be off, s (default: 0.1)")
    options.add_argument("--busy-cores", type=float, default=0.5, help="what other processes may take (default: 0.5)")
    beside = Path(__file__).with_name("declared.json")
    options.add_argument("--declared", type=Path, default=beside, help="what is declared (default: declared.json here)")
    asked = options.parse_args()
    declared = json.loads(asked.declared.read_text(encoding="utf-8"))
    by_address = interfaces()
    on_time, offset_s = clock(declared["time_servers"], asked.clock_s)
    own = (*gpus_unused(declared["gpus"]), *fabric(declared["gpus"], Path("/"))) if declared["gpus"] else ()
    seen = job_view.compared(declared, os.geteuid())
    compared = [*parts(declared, by_address), *own, *seen, on_time, left_alone(asked.busy_cores)]
    for part in compared:
        report(asked.json, part)
    found = versions(declared, by_address)
    measured = {"checks": len(compared), "clock_offset_ms": round(offset_s * 1e3, 3)}
    say(
        asked.json,
        ", ".join(f"{name} {text}" for name, text in found.items()),
        event="measurement",
        **measured,
        **found,
    )
    if not all(part.right for part in compared):
        return 3
    say(asked.json, f"{len(compared)} parts are as declared", event="result")
    return 0


if __name__ == "__main__":
    sys.exit(main())
