"""The facts of a lab: with the cluster, the input of all stand-ins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

SHARED_FOLDER = "/media/rehearsal-shared"  # on nodes that are containers: a folder of their host, the same on all


@dataclass(frozen=True)
class Card:
    """A network card: its name on the machine ("": the kernel's), and its segment of the lab.

    A segment has the name of a fabric or a port and connects cards of this lab alone; "" is the lab's own segment, for
    connections to its machines.
    """

    name: str = ""
    segment: str = ""


@dataclass(frozen=True)
class LabMachine:
    """One node of the lab. `host_keys` are OpenSSH public keys."""

    address: str
    host_keys: tuple[str, ...]


@dataclass(frozen=True)
class LabFacts:
    """A lab: its machines by node name, their subnet, the login, and the hardware of each.

    All nodes share the processors of their host; `memory_mib` is a node's share of its memory.
    """

    machines: Mapping[str, LabMachine]
    cidr: str
    user: str
    key: Path | None  # None: the lab does not exist
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    boots: bool  # each node has a kernel of its own
    controllers: frozenset[str] = frozenset()  # of cgroup v2, on this machine
    sources: Mapping[str, bool] | None = None  # whether this machine reaches package sources; None: not tried

    @property
    def cpus(self) -> int:
        """Hardware threads."""
        return self.sockets * self.cores_per_socket * self.threads_per_core


_CONTROL = ("198", "18")  # of the block that RFC 2544 keeps for tests of devices
# The beginning of an address, with plain dots or those of a regular expression; the end of its name in DNS.
_FORWARD = r"(?<![\d.])(\d{1,3})(\.|\[\.\]|\\\.)(\d{1,3})(?=\2)"
_REVERSE = r"(?<=\.)(\d{1,3})\.(\d{1,3})(?=\.in-addr\.arpa)"


def elsewhere(lab: LabFacts) -> LabFacts:
    """Return the same lab in another subnet and with other keys, the only differences in texts about it."""
    machines = {
        name: LabMachine(as_elsewhere(lab, machine.address), tuple(f"{key}elsewhere" for key in machine.host_keys))
        for name, machine in lab.machines.items()
    }
    return replace(lab, machines=machines, cidr=as_elsewhere(lab, lab.cidr), key=Path("/elsewhere"))


def as_elsewhere(lab: LabFacts, text: str) -> str:
    """Return a text about the lab, with the subnet that `elsewhere` gives it."""
    lab_prefix = tuple(lab.cidr.split(".")[:2])

    def forward(match: re.Match[str]) -> str:
        return match[2].join(_CONTROL) if (match[1], match[3]) == lab_prefix else match[0]

    def reverse(match: re.Match[str]) -> str:
        return ".".join(reversed(_CONTROL)) if (match[2], match[1]) == lab_prefix else match[0]

    return re.sub(_REVERSE, reverse, re.sub(_FORWARD, forward, text))
