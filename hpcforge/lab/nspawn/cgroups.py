"""A node's own control groups.

Nodes that are started from one cgroup share systemd's hierarchy on the host, and services in them then fail at random.
So on hosts with the name=systemd hierarchy or a plain cgroup2 mount each node gets a directory there; a host that runs
systemd on the unified hierarchy does it with a service unit instead (see `machines.launch`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from hpcforge.lab import processes

_PREFIX = "hpcforge-"


def _hierarchies() -> list[Path]:
    """Mount points of name=systemd and of cgroup2, in /sys/fs/cgroup."""
    found = []
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if not where.startswith("/sys/fs/cgroup"):
            continue
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(where))
    return found


def make(machine: str) -> list[Path]:
    """A machine's control groups, made if need be."""
    groups = [hierarchy / f"{_PREFIX}{machine}" for hierarchy in _hierarchies()]
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def remove(machine: str) -> None:
    """Kill what is left in a machine's control groups and remove them."""
    for hierarchy in _hierarchies():
        group = hierarchy / f"{_PREFIX}{machine}"
        if group.is_dir():
            processes.wait_until(partial(_remove_tree, group), timeout_s=5)


def machines_of(tags: Iterable[str]) -> set[str]:
    """Machines of these labs that have control groups."""
    groups = [group.name for tag in tags for top in _hierarchies() for group in top.glob(f"{_PREFIX}{tag}-*")]
    return {name.removeprefix(_PREFIX) for name in groups}


def _remove_tree(group: Path) -> bool:
    """Whether the group is gone now."""
    for directory, _, _ in os.walk(group, topdown=False):
        for pid in (Path(directory) / "cgroup.procs").read_text().split():
            _kill(int(pid))
        try:
            Path(directory).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # a killed process is still leaving
            return False
    return True


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
