"""QEMU's command line for a machine, and values parsed from one. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from hpcforge.lab.errors import LabError
from hpcforge.rehearsal.lab_facts import Card

PROGRAM = "qemu-system-x86_64"
# The kernel's command line. An emulated timer is late on a busy host: the kernel's test of it would end in a panic.
KERNEL_SAYS = "root=/dev/vda rw console=ttyS0,115200 loglevel=5 mitigations=off no_timer_check"
Accelerator = Literal["kvm", "tcg"]

MOST_MIB = 4096  # limit of a machine: a rehearsal needs no more
LEAST_MIB = 1024  # Slurm's daemons and a job fit
_STEP_MIB = 256
_HOST_MIB = 2048  # reserve for the host itself
_OWN_MTU = 1_500  # bytes, of the lab's own bridge
_MOST_CARDS = 10  # a digit for each but the first in the name of its cable
OVERHEAD_MIB = 384  # memory of QEMU itself, most of it translated code

# Without KVM a processor with few features is emulated fastest; distributions begin to require x86-64-v2.
_ACCELERATION: dict[Accelerator, tuple[str, ...]] = {
    "kvm": ("-accel", "kvm", "-cpu", "host"),
    "tcg": ("-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem"),
}


@dataclass(frozen=True)
class VirtualCable:
    """A network card and its tap interface on the host."""

    mac: str
    tap: str
    most_bytes: int | None = None  # the largest packet; None: no limit


@dataclass(frozen=True)
class VirtualMachine:
    """A virtual machine to be started."""

    name: str  # `Lab.machine`
    memory_mib: int
    topology: tuple[int, int, int]  # sockets, cores of each, threads of each core
    disk: Path
    kernel: Path
    initrd: Path
    cables: tuple[VirtualCable, ...]
    console: Path
    monitor: Path
    drives: tuple[Path, ...] = ()  # beside its disk


def argv(machine: VirtualMachine, accelerator: Accelerator) -> list[str]:
    """Return the command line. Nothing secret is on it: the machine's identity is in the initrd."""
    sockets, cores, threads = machine.topology
    cpus = sockets * cores * threads
    return [
        PROGRAM,
        *("-name", machine.name),
        *("-machine", "q35"),
        *_ACCELERATION[accelerator],
        *("-m", str(machine.memory_mib)),
        *("-smp", f"cpus={cpus},sockets={sockets},cores={cores},threads={threads}"),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *("-kernel", str(machine.kernel)),
        *("-initrd", str(machine.initrd)),
        *("-append", KERNEL_SAYS),
        *("-drive", f"file={_quoted(machine.disk)},if=virtio,format=qcow2,discard=unmap"),
        *_card("lab", machine.cables[0]),
        *("-device", "virtio-rng-pci"),
        # After the devices of every machine: names in the machine follow from the order.
        *(word for number, cable in enumerate(machine.cables[1:], start=1) for word in _card(f"card{number}", cable)),
        *(word for number, drive in enumerate(machine.drives) for word in _drive(f"drive{number}", drive)),
        *("-serial", f"file:{_quoted(machine.console)}"),
        *("-monitor", f"unix:{_quoted(machine.monitor)},server=on,wait=off"),
    ]


def _card(name: str, cable: VirtualCable) -> tuple[str, ...]:
    most = f",host_mtu={cable.most_bytes}" if cable.most_bytes else ""
    return (
        *("-netdev", f"tap,id={name},ifname={cable.tap},script=no,downscript=no"),
        *("-device", f"virtio-net-pci,netdev={name},mac={cable.mac}{most}"),
    )


def _drive(name: str, file: Path) -> tuple[str, ...]:
    return (
        *("-drive", f"file={_quoted(file)},if=none,id={name},format=qcow2,discard=unmap"),
        *("-device", f"nvme,drive={name},serial={name}"),
    )


def cables(machine: str, cards: Sequence[Card]) -> tuple[VirtualCable, ...]:
    """Return the cables of a machine's cards. `LabError` for too many."""
    if len(cards) > _MOST_CARDS:
        message = f"a virtual machine has {_MOST_CARDS} network cards at most, and {machine} would have {len(cards)}"
        raise LabError(message)
    return tuple(
        VirtualCable(mac(machine, number), tap(machine, number), None if card.segment else _OWN_MTU)
        for number, card in enumerate(cards)
    )


def mac(machine: str, number: int = 0) -> str:
    """Return the address of a machine's network card: in QEMU's block, and unique on this host."""
    digest = hashlib.sha256(f"{machine}/{number}".encode() if number else machine.encode()).digest()
    return ":".join(f"{part:02x}" for part in (0x52, 0x54, 0x00, *digest[:3]))


def tap(machine: str, number: int = 0) -> str:
    """Return the tap interface of a machine's card on the host; at most 15 characters."""
    return f"v{number or 't'}-{machine}"


def name_in(words: Sequence[str]) -> str:
    """Return the machine of a command line; "" if it is not one of the lab's."""
    return _after("-name", words) if words and Path(words[0]).name == PROGRAM else ""


def memory_in(words: Sequence[str]) -> int:
    """Return the memory in MiB that a command line gives a machine; 0 if it is not in hpcforge's form."""
    value = _after("-m", words)
    return int(value) if value.isdigit() else 0


def share_mib(total_mib: int, used: Sequence[int], machines: int) -> int:
    """Return the memory for each of `machines` new machines, beside others with the memory `used`.

    Raise `LabError` if that is too little.
    """
    free = total_mib - _HOST_MIB - sum(taken_mib + OVERHEAD_MIB for taken_mib in used)
    share = min(MOST_MIB, (free // machines - OVERHEAD_MIB) // _STEP_MIB * _STEP_MIB)
    if share < LEAST_MIB:
        need = machines * (LEAST_MIB + OVERHEAD_MIB) + total_mib - free
        raise LabError(
            f"this machine's memory, {total_mib} MiB, is too small for {machines} more virtual machines of "
            f"{LEAST_MIB} MiB: with the running ones they need {need} MiB",
            "rehearse fewer nodes, take another rehearsal down, or use containers: `--on nspawn`",
        )
    return share


def _after(option: str, words: Sequence[str]) -> str:
    return next((value for word, value in pairwise(words) if word == option), "")


def _quoted(path: Path) -> str:
    """Return a path as a value of QEMU's options: with doubled commas."""
    return str(path).replace(",", ",,")
