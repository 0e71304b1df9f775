"""Read a machine from its Redfish service. Every list and text is bounded; odd values are left out."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcforge.blueprint import suggestions
from hpcforge.blueprint.values import may_be_mac_of_port, may_be_serial
from hpcforge.metal.bmc import BmcError, JsonObject, lazy_property
from hpcforge.metal.bmc.quirk_table import fitting
from hpcforge.metal.bmc.redfish import Redfish
from hpcforge.metal.bmc.service import before, link, links, mapping, number, text
from hpcforge.metal.machine_matching import Machine

# The network interfaces of a machine by Redfish: bootable ones, by MAC address.
PORTS_S = 60.0  # limit for the ports of network adapters
_MAC = re.compile(
    r"[0-9a-f]{2}(?:([:-]?)[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}", re.IGNORECASE
)
_MAC_OF_PATH = re.compile(r"MAC\(([0-9a-fA-F]{12})")  # address in a UEFI device path
# Interfaces between a machine and its own controller: names of Lenovo, Supermicro, DMTF's example, OpenBMC and AMI.
_TO_MANAGER = re.compile(r"tomanager|(host|manager) (ethernet|network) interface|\busb|usb\d|rndis", re.IGNORECASE)
_LOCAL = 2  # a bit of the first octet (IEEE 802)


@dataclass(frozen=True)
class Nics:
    """Links of network interfaces, by MAC address."""

    linked: Mapping[str, bool]
    complete: bool = True  # False: an interface could not be read


@dataclass(frozen=True)
class _Nic:
    mac: str
    linked: bool = False
    local: bool = False  # a locally administered address, and no other


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
        # The current address is the one that boots, even if a blade's enclosure assigned it.
        current, own = (mac_address(text(part, key)) for key in ("MACAddress", "PermanentMACAddress"))
        if (mac := current or own) and not _leads_to_manager(part) and text(part, "EthernetInterfaceType") != "Virtual":
            yield _Nic(mac, text(part, "LinkStatus") == "LinkUp", _local(mac) and _local(own))


def _leads_to_manager(data: JsonObject) -> bool:
    """Return whether an interface leads to the machine's own controller."""
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
    for adapter in before(until, (adapter for of_chassis in adapters for adapter in of_chassis)):
        path = link(mapping(adapter, "Ports")) or link(mapping(adapter, "NetworkPorts"))
        for port in before(until, bmc.each(bmc.members(path))):
            addresses = mapping(port, "Ethernet").get("AssociatedMACAddresses") or port.get(
                "AssociatedNetworkAddresses"
            )
            for address in addresses if isinstance(addresses, list) else ():
                if mac := mac_address(text({"": address}, "")):
                    yield _Nic(mac, text(port, "LinkStatus") in ("LinkUp", "Up"), _local(mac))
                    break  # further addresses belong to its virtual functions
    if time.monotonic() >= until:
        bmc.unread[f"network adapters: to read them takes more than {PORTS_S:g} s"] = None


_ENCLOSURES = ("RackMount", "Sled", "Blade", "StandAlone", "Shelf", "Drawer", "Enclosure", "Other")
_GPU_VENDORS = ("0x10de", "0x1002", "0x1da3")  # PCI: NVIDIA, AMD, Habana. Others' display controllers are consoles.
_GPU_CLASSES = ("DisplayController", "ProcessingAccelerators")
_GPU_NAME = re.compile(r"(?<![a-z])gpu(?![a-z])", re.IGNORECASE)
# Models of GPUs that are listed as accelerators, by AMD, Intel, Habana and NVIDIA.
_GPU_MODEL = re.compile(
    r"instinct|(?<![a-z0-9])mi\d{3}|gaudi|habana|gpu|nvidia|(?<![a-z0-9])[abhl]\d{2,3}s?(?![a-z0-9])",
    re.IGNORECASE,
)
# Kinds of equipment whose controllers have no processors and memory, by their names and by lists of the service root.
_EQUIPMENT: Mapping[str, re.Pattern[str]] = {
    "DPU": re.compile(r"bluefield|smartnic|(?<![a-z])dpu(?![a-z])", re.IGNORECASE),
    "virtual system": re.compile(r"^(Virtual|OS)\b"),
    "NVSwitch tray": re.compile(r"nv-?switch|nvlink ?switch", re.IGNORECASE),
    "power shelf": re.compile(r"power ?shel[fv]|powerequipment|(?<![a-z])(pdu|pmc|psu)(?![a-z])", re.IGNORECASE),
    "cooling unit": re.compile(r"thermalequipment|cool(ing|ant)|(?<![a-z])cdu(?![a-z])", re.IGNORECASE),
}


_OFF = ("Off", "PoweringOn", "PoweringOff")
PART_S = 60.0  # limits for chassis, for GPUs and for memory: later parts are ignored
_MOST_GIB = 65536.0  # memory of one machine
_DIMM_GIB = 8  # the sum of a server's DIMMs is a multiple of it
_ROUNDING = 0.002  # tolerance of their ratio to the DIMMs


def read_service(bmc: Redfish) -> str:
    """Read the service root, which Redfish (DSP0266) gives without a login; return maker and product.

    Raises `BmcError`, with reason `service` if there is no Redfish.
    """
    try:
        data = bmc.read_root()
    except BmcError as error:
        if error.reason in ("unreachable", "certificate"):
            raise
        message = str(error).removeprefix(f"{bmc.access.address}: ")
        raise BmcError(f"{bmc.access.address}: no management controller by Redfish: {message}", "service") from None
    if not text(data, "@odata.type").startswith("#ServiceRoot."):
        raise BmcError(f"{bmc.access.address}: no management controller by Redfish: no service root", "service")
    return " ".join(filter(None, (text(data, "Vendor"), text(data, "Product"))))


def read_machine(bmc: Redfish, certificate: str | None) -> Machine:
    """Ask a controller for its machine; some ten requests and one for each part. Raises `BmcError`."""
    return _MachineReader(bmc).machine(certificate)


class _MachineReader:
    def __init__(self, bmc: Redfish) -> None:
        self.bmc = bmc
        self.data: JsonObject = bmc.system().data if bmc.systems.host else {}
        if bmc.systems.host and not self.data:
            raise BmcError(f"{bmc.access.address}: {bmc.systems.host} is empty", "answer")
        self.memory_gib = number(mapping(self.data, "MemorySummary"), "TotalSystemMemoryGiB")
        self.sockets = number(mapping(self.data, "ProcessorSummary"), "Count")
        self.notes: list[str] = []
        self.off = text(self.data, "PowerState") in _OFF

    def machine(self, certificate: str | None) -> Machine:
        """Read all of it."""
        nics, gpus = read_nics(self.bmc, self.data, lambda: self.chassis), self.gpus()
        memory_gib = self.memory()
        serial, maker, model = self.names()
        equipment = "" if gpus else self.equipment()
        self.notes += () if equipment else self.missing(serial, bool(nics.linked), memory_gib)
        return Machine(
            address=self.bmc.access.address,
            certificate=certificate,
            serial=serial,
            maker=maker,
            model=model,
            macs=tuple(nics.linked),
            linked=tuple(mac for mac, linked in nics.linked.items() if linked),
            more_macs=not nics.complete,
            memory_gib=memory_gib or None,
            sockets=int(self.sockets) if self.sockets else None,
            gpus=gpus or (None if self.off else gpus),
            equipment=equipment,
            notes=(*self.notes, *list(self.bmc.unread)[:8]),
        )

    def missing(self, serial: str, macs: bool, memory_gib: float | None) -> Iterator[str]:
        """Yield missing facts; 0 is missing too, as on a machine that is off or still starting."""
        counts = {"memory": memory_gib, "processors": self.sockets}
        if names := [name for name, count in counts.items() if not count]:
            yield f"{' and '.join(names)}: not told{' while it is off' if self.off else ''}"
        if not serial:
            yield "serial number: not reported"
        if not macs and not self.bmc.unread:  # an unread part is the reason
            yield "MAC addresses: not reported"

    def memory(self) -> float | None:
        """Return GiB: of the summary, or of the DIMMs where it cannot be their sum."""
        total_gib = self.memory_gib
        if total_gib and total_gib % _DIMM_GIB == 0 and total_gib <= _MOST_GIB:
            return total_gib
        dimms = self.dimms()
        if total_gib and total_gib <= _MOST_GIB:
            for quirk in fitting(self.bmc.table, "sum-dimms"):
                if dimms is not None and dimms % _DIMM_GIB == 0 and abs(total_gib / dimms - quirk.ratio) < _ROUNDING:
                    self.bmc.note(quirk)
                    return dimms
            return total_gib
        if total_gib:
            self.notes.append(f"memory: {total_gib:g} GiB is more than a machine has")
        return dimms or (0.0 if total_gib == 0 else None)

    def dimms(self) -> float | None:
        """Return the sum of the DIMMs in GiB; None where none is listed, or not all could be read."""
        until, unread = time.monotonic() + PART_S, len(self.bmc.unread)
        parts = before(until, self.bmc.each(self.bmc.members(link(mapping(self.data, "Memory")))))
        sizes = [number(part, "CapacityMiB") or 0.0 for part in parts if _is_dimm(part)]
        if time.monotonic() >= until:
            self.bmc.unread[f"memory: to read it takes more than {PART_S:g} s"] = None
        return sum(sizes) / 1024 or None if len(self.bmc.unread) == unread else None

    @lazy_property
    def chassis(self) -> Sequence[JsonObject]:
        """Return the chassis, those of the system first."""
        own = links(mapping(self.data, "Links").get("Chassis"))
        every = self.bmc.members(link(mapping(self.bmc.root, "Chassis")))
        paths = dict.fromkeys([*own, *self.bmc.tried(every)])
        return list(before(time.monotonic() + PART_S, self.bmc.each(paths)))

    def names(self) -> tuple[str, str, str]:
        """Return serial number, maker and model: of the system, else of its enclosure, else of its own board."""
        source = self.data
        if not _serial(source):
            enclosures = [part for part in self.chassis if text(part, "ChassisType") in _ENCLOSURES]
            source = next((part for part in (*enclosures, *self.chassis[:1]) if _serial(part)), source)
        maker, model = (text(self.data, key) or text(source, key) for key in ("Manufacturer", "Model"))
        return _serial(source), maker, model

    def gpus(self) -> tuple[str, ...] | None:
        """Return models of GPUs: of the systems' processors, else of chassis' PCIe devices; None for no whole list."""
        bmc, lists, unread = self.bmc, 0, len(self.bmc.unread)
        until = time.monotonic() + PART_S
        gpus: list[JsonObject] = []
        for system in (self.data, *bmc.each(bmc.systems.others)):
            if not gpus and (path := link(mapping(system, "Processors"))):
                lists += 1
                processors = [part for part in before(until, bmc.each(bmc.members(path))) if _is_present(part)]
                gpus = [part for part in processors if _is_gpu_processor(part)]
                if system is self.data and len(bmc.unread) == unread and time.monotonic() < until:
                    self.count_processors(processors)
        for part in () if gpus else self.chassis:
            if not gpus and (path := link(mapping(part, "PCIeDevices"))):
                lists += 1
                devices = list(before(until, bmc.each(bmc.members(path))))
                # Reading each device's functions takes long, so it is done only if no name shows a GPU.
                by_name = [device for device in devices if _is_gpu_by_name(device)]
                gpus = by_name or [device for device in before(until, devices) if _is_gpu(bmc, device)]
        if time.monotonic() >= until:
            bmc.unread[f"GPUs: to read them takes more than {PART_S:g} s"] = None
        complete = lists and len(bmc.unread) == unread
        return tuple(map(_model, gpus)) if complete else None

    def count_processors(self, processors: Sequence[JsonObject]) -> None:
        """Correct the number of processors where it counts GPUs, too, and name accelerators that are none."""
        for quirk in fitting(self.bmc.table, "count-processors"):
            sockets = sum(text(part, "ProcessorType") in quirk.types for part in processors)
            if sockets and self.sockets and sockets < self.sockets:
                self.bmc.note(quirk)
                self.sockets = sockets
        accelerators = [part for part in processors if text(part, "ProcessorType") == "Accelerator"]
        if others := Counter(_model(part, "no model") for part in accelerators if not _is_gpu_processor(part)):
            names = ", ".join(f"{count} x {model}" for model, count in others.most_common(4))
            self.notes.append(f"accelerators that do not count as GPUs: {names}")

    def equipment(self) -> str:
        """Return the kind of equipment of a controller; "" for a server, even one that is off."""
        own = f"{text(self.data, 'SystemType')} {text(self.data, 'Model', 100)}"
        for name in ("DPU", "virtual system"):
            if _EQUIPMENT[name].search(own):
                return name
        # A tray's own switches. A server has the switches of its GPU baseboard, named HGX_NVSwitch_0.
        if any(text(part, "Id").startswith("MGX_NVSwitch") for part in self.chassis):
            return "NVSwitch tray"
        if self.off or (self.data and (self.memory_gib != 0 or self.sockets != 0)):
            return ""
        root = " ".join((text(self.bmc.root, "Product", 100), *self.bmc.root))
        parts = (text(part, key, 100) for part in self.chassis for key in ("Id", "Name", "Model"))
        names = " ".join((own, text(self.data, "Name"), root, *parts))
        return next((name for name, pattern in _EQUIPMENT.items() if pattern.search(names)), "no server")


def _serial(data: JsonObject) -> str:
    serial = text(data, "SerialNumber")
    return serial if may_be_serial(serial) else ""


def _is_present(data: JsonObject) -> bool:
    return text(mapping(data, "Status"), "State") != "Absent"


def _is_dimm(data: JsonObject) -> bool:
    """Return whether a module is main memory: DRAM, and not HBM of GPUs."""
    kinds = text(data, "MemoryType"), text(data, "MemoryDeviceType")
    state = text(mapping(data, "Status"), "State")
    return state not in ("Absent", "Disabled") and kinds[0] in ("", "DRAM") and not kinds[1].startswith("HBM")


def _is_gpu_processor(data: JsonObject) -> bool:
    """Return whether a processor is a GPU; some are listed as accelerators, which DSP2046 does not define further."""
    kind, names = (
        text(data, "ProcessorType"),
        " ".join(text(data, key, 100) for key in ("Manufacturer", "Model", "Name")),
    )
    if kind not in ("Accelerator", "OEM"):
        return kind == "GPU"
    return bool(_GPU_MODEL.search(names)) and not _EQUIPMENT["DPU"].search(names)


def _is_gpu_by_name(device: JsonObject) -> bool:
    names = (text(device, key, 100) for key in ("Id", "Name", "Description"))
    return _is_present(device) and any(map(_GPU_NAME.search, names))


def _is_gpu(bmc: Redfish, device: JsonObject) -> bool:
    """Return whether a PCIe device is a GPU, by its functions' vendor and class."""
    paths = links(mapping(device, "Links").get("PCIeFunctions"))
    functions = bmc.each(paths or bmc.members(link(mapping(device, "PCIeFunctions"))))
    return any(
        text(function, "VendorId").lower() in _GPU_VENDORS and text(function, "DeviceClass") in _GPU_CLASSES
        for function in functions
    )


def _model(data: JsonObject, unnamed: str = "GPU") -> str:
    model = text(data, "Model")
    return model if model and model.upper() != "N/A" else unnamed
