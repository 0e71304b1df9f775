"""What a lab has: all that stand-ins depend on beside the cluster itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class LabMachine:
    """One node of the lab. `host_keys` are OpenSSH public keys."""

    address: str
    host_keys: tuple[str, ...]


@dataclass(frozen=True)
class LabFacts:
    """A lab: its machines by node name, the subnet that they are on, how to get in, and what each has.

    All nodes share the processors of their host; `memory_mib` is a node's share of its memory.
    """

    machines: Mapping[str, LabMachine]
    cidr: str
    user: str
    key: Path | None  # None: the lab is not there
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int

    @property
    def cpus(self) -> int:
        """Hardware threads."""
        return self.sockets * self.cores_per_socket * self.threads_per_core


_CONTROL = ("198", "18")  # of the block that RFC 2544 keeps for tests of devices


def elsewhere(lab: LabFacts) -> LabFacts:
    """The same lab in another subnet and with other keys: what is said of it differs from the lab's in these alone."""
    machines = {
        name: LabMachine(_moved(lab, one.address), tuple(f"{key}elsewhere" for key in one.host_keys))
        for name, one in lab.machines.items()
    }
    return replace(lab, machines=machines, cidr=_moved(lab, lab.cidr), key=Path("/elsewhere"))


def as_elsewhere(lab: LabFacts, text: str) -> str:
    """A text about the lab, with the subnet that `elsewhere` gives it."""
    first, second = lab.cidr.split(".")[:2]
    for dot in (".", "[.]", "\\."):  # as addresses stand in regular expressions, too
        text = re.sub(rf"(?<![\d.]){first}{re.escape(dot)}{second}(?={re.escape(dot)})", dot.join(_CONTROL), text)
    return re.sub(rf"(?<=\.){second}\.{first}(?=\.in-addr\.arpa)", ".".join(reversed(_CONTROL)), text)


def _moved(lab: LabFacts, address: str) -> str:
    return as_elsewhere(lab, address)
