"""Ports that daemons of roles need and other programs of the host listen on.

The kernel lists the listening sockets of this program's network namespace: a container's own ports do not count. The
list has only a socket's inode; its process is read only for an occupied port: proc(5).
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hpcforge.node import commands, package_manager
from hpcforge.node.inspection import Conflict, Inspection

if TYPE_CHECKING:
    from hpcforge.node.requests import DesiredRoleRequest, ListenRequest

_LISTENS = {"tcp": "0A", "udp": "07"}  # the state of a socket, see include/net/tcp_states.h
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
_CONTAINER = re.compile(r"docker-([0-9a-f]{12})[0-9a-f]*\.scope")
_QUERY_S = 20


class _Listener(NamedTuple):
    protocol: str
    address: str
    port: int
    inode: str

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port} ({self.protocol})"


class _Owner(NamedTuple):
    """A process, and the units that it is part of, from the outermost."""

    pid: int
    program: str
    units: tuple[str, ...]


def search(inspection: Inspection, proc: Path = Path("/proc")) -> Iterator[Conflict]:
    """Yield the programs that have a port of a role, each with all such ports."""
    needs = [
        (role["role"], need)
        for role in inspection.roles
        if not _is_its_own(inspection, role)
        for need in role.get("listens", ())
    ]
    occupied = [
        (role, listener) for listener in _listeners(proc, needs) for role, need in needs if _clash(need, listener)
    ]
    if not occupied:
        return
    own = (unit for entry in inspection.receipt.roles.values() for unit in entry["units"])
    units = {*inspection.units(), *own, *_going(inspection)}
    owners = _owners(proc, {listener.inode for _, listener in occupied}, units)
    ports: dict[tuple[str, _Owner | None], list[_Listener]] = {}
    for role, listener in occupied:
        owner = owners.get(listener.inode)
        if owner is None or not units.intersection(owner.units):
            ports.setdefault((role, owner), []).append(listener)
    for (role, owner), listeners in ports.items():
        numbers = dict.fromkeys(str(listener.port) for listener in listeners)
        places = ", ".join(dict.fromkeys(map(str, listeners)))
        holder, remedy = _describe(owner, listeners[0])
        yield Conflict(role, "port", " and ".join(numbers), f"{holder} listens on {places}", remedy)


def _is_its_own(inspection: Inspection, role: DesiredRoleRequest) -> bool:
    """Return whether an Ansible step of an earlier role starts its daemon: that unit is unknown."""
    entry = inspection.receipt.roles.get(role["role"])
    return entry is not None and not entry["units"]


def _going(inspection: Inspection) -> Iterator[str]:
    """Yield the units of packages that roles' packages replace, such as ntpsec for chrony."""
    differences = inspection.differences.values()
    for name in [removal["name"] for difference in differences for removal in difference.get("removes", ())]:
        paths = package_manager.of_node().files(name)
        yield from (path.rpartition("/")[2] for path in paths if path.endswith(".service"))


def _listeners(proc: Path, needs: Sequence[tuple[str, ListenRequest]]) -> Iterator[_Listener]:
    """Yield the listeners on one of these ports."""
    for protocol in sorted({need["protocol"] for _, need in needs}):
        ports = {f"{need['port']:04X}" for _, need in needs if need["protocol"] == protocol}
        for family in ("", "6"):
            try:
                lines = (proc / f"net/{protocol}{family}").read_text("ascii").splitlines()[1:]
            except OSError:  # a kernel without IPv6
                continue
            for line in lines:
                _, local, _, state, *rest = line.split()
                address, _, port = local.partition(":")
                if state == _LISTENS[protocol] and port in ports:
                    yield _Listener(protocol, _address(address), int(port, 16), rest[5])


def _address(text: str) -> str:
    """Parse an address that the kernel writes as words of 32 bits, in the machine's byte order."""
    packed = b"".join(struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8))
    address = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return address[7:] if address.startswith("::ffff:") else address


def _clash(need: ListenRequest, listener: _Listener) -> bool:
    if (need["protocol"], need["port"]) != (listener.protocol, listener.port):
        return False
    if listener.address in _ANY:
        return True
    return listener.address == need["address"] if need["address"] else ":" not in listener.address


def _owners(proc: Path, inodes: Collection[str], units: Collection[str]) -> dict[str, _Owner]:
    """Return the process that has each socket open; processes of the given units are searched first."""
    groups = [Path(f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs") for unit in units]
    first = [pid for group in groups if group.exists() for pid in group.read_text("ascii").split()]
    others = [entry.name for entry in proc.iterdir() if entry.name.isdigit()]
    owners: dict[str, _Owner] = {}
    for pid in (*first, *others):
        for inode in _sockets(proc / pid / "fd") & set(inodes) - owners.keys():
            owners[inode] = _owner(proc, pid)
        if len(owners) == len(inodes):
            break
    return owners


def _sockets(folder: Path) -> set[str]:
    """Return the inodes of a process's open sockets; the list is partial if it ends meanwhile."""
    inodes = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - there may be thousands
            target = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - likewise
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    return inodes


def _owner(proc: Path, pid: str) -> _Owner:
    try:
        program = (proc / pid / "comm").read_text("utf-8", "replace").strip()
        group = (proc / pid / "cgroup").read_text("utf-8", "replace")
    except OSError:
        program, group = "a program that has just ended", ""
    parts = (part for line in group.splitlines() for part in line.rpartition(":")[2].split("/"))
    return _Owner(
        int(pid), program, tuple(dict.fromkeys(part for part in parts if part.endswith((".service", ".scope"))))
    )


def _describe(owner: _Owner | None, listener: _Listener) -> tuple[str, tuple[str, ...]]:
    """Describe a listening program, and return the commands that end it permanently."""
    if owner is None:
        return "the kernel or a program that it does not show", ()
    if owner.pid == 1:
        unit = _socket_unit(listener)
        return f"systemd (for {unit or 'a socket unit'})", (f"systemctl disable --now {unit}",) if unit else ()
    process = f"{owner.program} (process {owner.pid})"
    container = next(filter(None, map(_CONTAINER.fullmatch, owner.units)), None)
    if container:
        remedy = f"docker update --restart=no {container[1]} && docker stop {container[1]}"
        return f"{process} in container {container[1]}", (remedy,)
    unit = next((name for name in owner.units if name.endswith(".service")), "")
    if not unit or unit.startswith("user@"):
        return process, (f"kill {owner.pid}",)
    lasting = not Path("/run/systemd/transient", unit).exists()
    verb = "disable --now" if lasting else "stop"
    return f"{unit} ({owner.program}, process {owner.pid})", (f"systemctl {verb} {shlex.quote(unit)}",)


def _socket_unit(listener: _Listener) -> str:
    """Return the socket unit for which systemd itself listens there."""
    argv = ["systemctl", "list-sockets", "--no-legend", "--no-pager", "--full"]
    rows = map(str.split, commands.run(argv, _QUERY_S).stdout.splitlines())
    return next((row[1] for row in rows if len(row) > 1 and row[0].endswith(f":{listener.port}")), "")
