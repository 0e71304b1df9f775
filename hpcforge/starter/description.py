"""A machine's description of itself, which needs no Python there: the script, and its output parsed. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_GPU_VENDORS = {"0x10de": "nvidia", "0x1002": "amd"}
_GPU_CLASSES = {"nvidia": ("0x0300", "0x0302"), "amd": ("0x0300", "0x0302", "0x0380", "0x1200")}
_MOST_LINES = 20_000
# Each line of output is a key and a value; "$@" has names and numbers of accounts. For `sh -s` of any POSIX shell.
SCRIPT = """\
lines() { sed "s/^/$1 /" 2>/dev/null; }
getent passwd "$@" | lines passwd
getent group "$@" | lines group
cat /etc/machine-id 2>/dev/null | lines machine-id
cat /proc/sys/kernel/random/boot_id 2>/dev/null | lines boot-id
cat /sys/class/dmi/id/product_serial 2>/dev/null | lines serial
cat /sys/class/net/*/address 2>/dev/null | lines mac
ip -o -4 addr show 2>/dev/null | lines address
systemd-detect-virt --container 2>/dev/null | lines container
lscpu --parse=SOCKET,CORE,CPU 2>/dev/null | lines cpu
for device in /sys/bus/pci/devices/*; do
    read -r vendor <"$device/vendor" && read -r class <"$device/class" && echo "pci $vendor $class"
done 2>/dev/null
exit 0
"""


@dataclass(frozen=True)
class UnixAccount:
    """A line of the passwd database."""

    uid: int
    gid: int
    home: str
    shell: str


@dataclass(frozen=True)
class Description:
    """The output of the script on one machine. `networks` are those of its IPv4 addresses, by address."""

    users: Mapping[str, UnixAccount] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    macs: frozenset[str] = frozenset()
    networks: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    machine_id: str = ""
    boot_id: str = ""
    serial: str = ""
    container: str = ""  # kind of the container; "": a machine of its own
    topology: str = ""


def parsed(text: str) -> Description:
    """Return the description that is in the script's output; lines of another form are ignored."""
    lines: dict[str, list[str]] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        key, _, value = line.partition(" ")
        lines.setdefault(key, []).append(re.sub(r"[^ -~]", "?", value.strip()[:4096]))

    def first(key: str) -> str:
        return lines.get(key, [""])[0]

    macs = {mac.lower() for mac in lines.get("mac", ()) if re.fullmatch(r"(?i)[0-9a-f]{2}(:[0-9a-f]{2}){5}", mac)}
    return Description(
        users=dict(_users(lines.get("passwd", ()))),
        groups=dict(_groups(lines.get("group", ()))),
        macs=frozenset(macs - {"00:00:00:00:00:00"}),
        networks=dict(_networks(lines.get("address", ()))),
        gpus=_gpus(lines.get("pci", ())),
        machine_id=first("machine-id"),
        boot_id=first("boot-id"),
        serial=first("serial"),
        container=kind if re.fullmatch(r"[a-z-]{1,40}", kind := first("container")) and kind != "none" else "",
        topology="".join(f"{line}\n" for line in lines.get("cpu", ())),
    )


def _users(lines: Sequence[str]) -> Iterator[tuple[str, UnixAccount]]:
    for line in lines:
        fields = line.split(":")
        if len(fields) == 7 and re.fullmatch(r"\d{1,10}", fields[2]) and re.fullmatch(r"\d{1,10}", fields[3]):
            yield fields[0], UnixAccount(int(fields[2]), int(fields[3]), fields[5], fields[6])


def _groups(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        fields = line.split(":")
        if len(fields) == 4 and re.fullmatch(r"\d{1,10}", fields[2]):
            yield fields[0], int(fields[2])


def _networks(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if match := re.search(r" inet ([0-9.]{7,15}/\d{1,2}) ", f"{line} "):
            try:
                interface = ipaddress.IPv4Interface(match[1])
            except ValueError:
                continue
            yield str(interface.ip), str(interface.network)


def _gpus(lines: Sequence[str]) -> dict[str, int]:
    """Display controllers on the PCI bus, as the node program counts them."""
    counts = dict.fromkeys(_GPU_CLASSES, 0)
    for line in lines:
        vendor, _, pci_class = line.partition(" ")
        name = _GPU_VENDORS.get(vendor)
        if name and pci_class.startswith(_GPU_CLASSES[name]):
            counts[name] += 1
    return counts


def second_addresses(described: Mapping[str, Description]) -> dict[str, str]:
    """Return the addresses at which a machine answered that had answered before, with its first address.

    A machine has one boot id, which no copy of its disk shares; where it shows none, its MAC addresses decide.
    """
    first: dict[str, str] = {}
    for address, description in described.items():
        same = (earlier for earlier in described if earlier not in first and _is_same(described[earlier], description))
        if (earlier := next(same)) != address:
            first[address] = earlier
    return first


def _is_same(first: Description, second: Description) -> bool:
    if first is second:
        return True
    shared = bool(first.macs & second.macs)
    if first.boot_id or second.boot_id:
        return first.boot_id == second.boot_id and (shared or not (first.macs and second.macs))
    return shared and first.serial == second.serial


def clones(described: Mapping[str, Description], keys: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Return the different machines that share an identity, by address, with what they share."""
    by_addresses: dict[tuple[str, ...], list[str]] = {}
    for shared, values in (
        ("host key", keys),
        ("machine-id", {address: description.machine_id for address, description in described.items()}),
    ):
        by_value: dict[str, list[str]] = {}
        for address in described:
            if values.get(address):
                by_value.setdefault(values[address], []).append(address)
        for addresses in by_value.values():
            if len(addresses) > 1:
                by_addresses.setdefault(tuple(addresses), []).append(shared)
    return {addresses: " and ".join(shared) for addresses, shared in by_addresses.items()}
