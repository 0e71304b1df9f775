"""What the Vagrantfile is given, and the names under which libvirt has what it makes of that. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpcforge.lab.vm import qemu

_STEP = re.compile(r"==> ([A-Za-z0-9-]{1,63}): (\S.*)")


@dataclass(frozen=True)
class VagrantBox:
    """What Vagrant calls the disk that machines are made on: a name of its own, and where it is fetched from."""

    name: str
    url: str


@dataclass(frozen=True)
class NetworkCard:
    """A network card on a bridge of the lab's."""

    bridge: str
    mac: str


@dataclass(frozen=True)
class VagrantMachine:
    """One machine. It boots the kernel with an initrd of its own, in which its identity is (decision 38)."""

    memory_mib: int
    cpus: int
    mac: str  # of the card that Vagrant adds, before all others, to reach it
    cards: tuple[NetworkCard, ...]
    box: VagrantBox
    kernel: str
    initrd: str
    console: str


def document(
    *,
    tag: str,
    driver: str,
    user: str,
    key: Path,
    state: str,
    machines: Mapping[str, VagrantMachine],
) -> dict[str, Any]:
    """What `vagrant.json` in a lab's folder says.

    `schema_version` 1; `prefix` of libvirt's domains; `driver`: kvm or qemu; `kernel_says`: its command line; `ssh`: how one
    gets in; `state`: the folder in which Vagrant keeps what it knows of these machines; `machines` by name.
    """
    return {
        "schema_version": 1,
        "prefix": f"{tag}-",
        "driver": driver,
        "kernel_says": qemu.KERNEL_SAYS,
        "ssh": {"user": user, "key": str(key)},
        "state": state,
        "machines": {name: asdict(machine) for name, machine in machines.items()},
    }


def box_metadata(disk_bytes: int) -> dict[str, Any]:
    """metadata.json of a box for libvirt; whole GiB, as the provider wants them."""
    return {"provider": "libvirt", "format": "qcow2", "virtual_size": -(-disk_bytes // (1 << 30))}


def domain_in(words: Sequence[str]) -> str:
    """Of which of libvirt's domains a QEMU's command line is; "" if it is of none.

    libvirt 9 writes `-name guest=DOMAIN,debug-threads=on`.
    """
    if not words or Path(words[0]).name != qemu.PROGRAM or "-name" not in words[:-1]:
        return ""
    said = words[words.index("-name") + 1]
    return said.removeprefix("guest=").partition(",")[0] if said.startswith("guest=") else ""


def step_in(line: str) -> str | None:
    """Return the step that a line of Vagrant's output reports; None for a setting or the rest of a message."""
    found = _STEP.fullmatch(line.rstrip())
    return None if found is None else f"{found[1]}: Vagrant: {found[2]}"
