"""This machine's resources: memory and processors."""

from __future__ import annotations

import re
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_MOUNTS = Path("/proc/self/mounts")
_SYSFS = Path("/sys/devices/system/cpu")


def total_mib() -> int:
    """Return its total memory."""
    return _mib("MemTotal")


def available_mib() -> int:
    """Return the memory that programs can use now without evicting anything else."""
    return _mib("MemAvailable")


def processors(sysfs: Path = _SYSFS) -> tuple[int, int, int]:
    """Return sockets, cores of each and threads of each core, as slurmd counts them on a node of this machine."""
    threads: dict[tuple[str, str], int] = {}
    for topology in sysfs.glob("cpu[0-9]*/topology"):
        core = (
            (topology / "physical_package_id").read_text().strip(),
            (topology / "core_id").read_text().strip(),
        )
        threads[core] = threads.get(core, 0) + 1
    sockets = {socket for socket, _ in threads}
    cores = min((sum(core_socket == socket for core_socket, _ in threads) for socket in sockets), default=1)
    return max(1, len(sockets)), cores, min(threads.values(), default=1)


def controllers(mounts: Path = _MOUNTS) -> frozenset[str]:
    """Return the controllers of cgroup v2 that containers can have here; none if cgroup v1 has them all."""
    for line in mounts.read_text().splitlines():
        _, mount_point, kind, *_ = line.split()
        if kind == "cgroup2":
            return frozenset((Path(mount_point) / "cgroup.controllers").read_text().split())
    return frozenset()


def _mib(key: str) -> int:
    values = dict(re.findall(r"^(\w+):\s+(\d+) kB", _MEMINFO.read_text(), flags=re.MULTILINE))
    if key not in values:
        raise OSError(f"{_MEMINFO} has no {key}")
    return int(values[key]) // 1024
