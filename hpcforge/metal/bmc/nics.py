"""The network interfaces of a machine by Redfish: those that can boot, by MAC address."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcforge.blueprint import suggestions
from hpcforge.blueprint.values import may_be_mac_of_port
from hpcforge.metal.bmc import JsonObject
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.service import before, link, mapping, text

PORTS_S = 60.0  # for the ports of network adapters
_MAC = re.compile(
    r"[0-9a-f]{2}(?:([:-]?)[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}", re.IGNORECASE
)
_MAC_OF_PATH = re.compile(r"MAC\(([0-9a-fA-F]{12})")  # of a UEFI device path
# Interfaces between a machine and its own controller: names of Lenovo, Supermicro, DMTF's example, OpenBMC and AMI.
_TO_MANAGER = re.compile(r"tomanager|(host|manager) (ethernet|network) interface|\busb|usb\d|rndis", re.IGNORECASE)
_LOCAL = 2  # a bit of the first octet (IEEE 802)


@dataclass(frozen=True)
class Nics:
    """Whether each has a link, by its MAC address."""

    linked: Mapping[str, bool]
    whole: bool = True  # False: one could not be read


@dataclass(frozen=True)
class _Nic:
    mac: str
    linked: bool = False
    local: bool = False  # its address is administered locally, and it has no other


def read_nics(bmc: Redfish, system: JsonObject, chassis: Callable[[], Iterable[JsonObject]]) -> Nics:
    """Read the system's interfaces; where none is listed, the firmware's boot options, else ports of network adapters.

    An address that is administered locally counts only where all are: beside others it is a USB link's, or a bridge's.
    Raises `BmcError`.
    """
    nics: list[_Nic] = []
    unread = 0
    for read in (_interfaces, _boot_options, lambda bmc, _: _ports(bmc, chassis())):
        unread = len(bmc.unread)
        if nics := list(read(bmc, system)):
            break
    linked: dict[str, bool] = {}
    for nic in [nic for nic in nics if not nic.local] or nics:
        linked[nic.mac] = linked.get(nic.mac, False) or nic.linked
    return Nics(linked, len(bmc.unread) == unread)


def mac_address(value: str) -> str | None:
    """Return the MAC address of one interface as `02:00:00:00:00:01`; None for any other text, and for a group's."""
    if not _MAC.fullmatch(value):
        return None
    mac = suggestions.mac(value)
    return mac if may_be_mac_of_port(mac) else None


def _local(mac: str | None) -> bool:
    return mac is None or bool(int(mac[:2], 16) & _LOCAL)


def _interfaces(bmc: Redfish, system: JsonObject) -> Iterator[_Nic]:
    for part in bmc.each(bmc.members(link(mapping(system, "EthernetInterfaces")))):
        # The current address is the one that boots, also where a blade's enclosure gave it another than its own.
        current, own = (mac_address(text(part, key)) for key in ("MACAddress", "PermanentMACAddress"))
        if (mac := current or own) and not _of_manager(part) and text(part, "EthernetInterfaceType") != "Virtual":
            yield _Nic(mac, text(part, "LinkStatus") == "LinkUp", _local(mac) and _local(own))


def _of_manager(data: JsonObject) -> bool:
    """Whether an interface leads to the machine's own controller."""
    names = " ".join(text(data, key, 100) for key in ("Id", "Name", "Description"))
    path = text(data, "UefiDevicePath", 500)
    return bool(link(mapping(mapping(data, "Links"), "HostInterface")) or _TO_MANAGER.search(names) or "USB(" in path)


def _boot_options(bmc: Redfish, system: JsonObject) -> Iterator[_Nic]:
    for option in bmc.each(bmc.members(link(mapping(mapping(system, "Boot"), "BootOptions")))):
        path = text(option, "UefiDevicePath", 500)
        match = _MAC_OF_PATH.search(path)
        if match and "USB(" not in path and (mac := mac_address(match[1])):
            yield _Nic(mac, local=_local(mac))


def _ports(bmc: Redfish, chassis: Iterable[JsonObject]) -> Iterator[_Nic]:
    """Yield the Ethernet ports of the chassis' network adapters, in the form of today and in that before 2021."""
    until = time.monotonic() + PORTS_S
    adapters = (bmc.each(bmc.members(link(mapping(part, "NetworkAdapters")))) for part in chassis)
    for adapter in before(until, (adapter for each in adapters for adapter in each)):
        path = link(mapping(adapter, "Ports")) or link(mapping(adapter, "NetworkPorts"))
        for port in before(until, bmc.each(bmc.members(path))):
            addresses = mapping(port, "Ethernet").get("AssociatedMACAddresses") or port.get(
                "AssociatedNetworkAddresses"
            )
            for address in addresses if isinstance(addresses, list) else ():
                if mac := mac_address(text({"": address}, "")):
                    yield _Nic(mac, text(port, "LinkStatus") in ("LinkUp", "Up"), _local(mac))
                    break  # the others are those of its virtual functions
    if time.monotonic() >= until:
        bmc.unread[f"network adapters: to read them takes more than {PORTS_S:g} s"] = None
