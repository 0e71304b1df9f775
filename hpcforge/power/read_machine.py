"""Read what a machine is from its Redfish service. Every list and text is bounded; what is odd is left out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from hpcforge.cluster.discovered import Machine
from hpcforge.power import BmcError, JsonObject, lazy_property
from hpcforge.power.redfish import Redfish
from hpcforge.power.service import link, links, mapping, number, text

_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_MAC_OF_PATH = re.compile(r"MAC\(([0-9a-fA-F]{12})")  # of a UEFI device path
# Interfaces between a machine and its own controller: names of Lenovo, Supermicro, DMTF's example, OpenBMC and AMI.
_TO_MANAGER = re.compile(r"tomanager|(host|manager) (ethernet|network) interface|\busb|rndis", re.IGNORECASE)
# Serial numbers that mainboards have when no maker wrote one.
_NO_SERIAL = re.compile(
    r"|0+|n/?a|none|null|unknown|not ?(specified|available|set)|to be filled.*|default string|\w*serial ?number|"
    r"(system|chassis|board) serial.*|0?123456789?|x+",
    re.IGNORECASE,
)
_ENCLOSURES = ("RackMount", "Sled", "Blade", "StandAlone", "Shelf", "Drawer", "Enclosure", "Other")
_GPU_VENDORS = ("0x10de", "0x1002", "0x1da3")  # PCI: NVIDIA, AMD, Habana. Others' display controllers are consoles.
_GPU_CLASSES = ("DisplayController", "ProcessingAccelerators")
_GPU_NAME = re.compile(r"(?<![a-z])gpu(?![a-z])", re.IGNORECASE)
# What a controller without processors and memory belongs to, by its names and by the lists of its service root.
_EQUIPMENT: Mapping[str, re.Pattern[str]] = {
    "DPU": re.compile(r"bluefield|smartnic|(?<![a-z])dpu(?![a-z])", re.IGNORECASE),
    "NVSwitch tray": re.compile(r"nv-?switch|nvlink ?switch", re.IGNORECASE),
    "power shelf": re.compile(r"power ?shel[fv]|powerequipment|(?<![a-z])(pdu|pmc|psu)(?![a-z])", re.IGNORECASE),
    "cooling unit": re.compile(r"thermalequipment|cool(ing|ant)|(?<![a-z])cdu(?![a-z])", re.IGNORECASE),
}


_OFF = ("Off", "PoweringOn", "PoweringOff")
PART_S = 60.0  # for chassis, and for GPUs: what is read by then has to do


def read_service(bmc: Redfish) -> str:
    """Read the service root, which Redfish (DSP0266) gives without a login; return maker and product.

    Raises `BmcError`, of reason `service` where there is no Redfish.
    """
    try:
        data = bmc.read_root()
    except BmcError as error:
        if error.reason in ("unreachable", "certificate"):
            raise
        why = str(error).removeprefix(f"{bmc.access.address}: ")
        raise BmcError(f"{bmc.access.address}: no management controller by Redfish: {why}", "service") from None
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
        self.memory_gib = number(mapping(self.data, "MemorySummary"), "TotalSystemMemoryGiB")
        self.sockets = number(mapping(self.data, "ProcessorSummary"), "Count")
        self.off = text(self.data, "PowerState") in _OFF

    def machine(self, certificate: str | None) -> Machine:
        """Read all of it."""
        nics, more_macs, gpus = self.nics(), bool(self.bmc.unread), self.gpus()
        serial, maker, model = self.names()
        equipment = "" if gpus else self.equipment()
        return Machine(
            address=self.bmc.access.address,
            certificate=certificate,
            serial=serial,
            maker=maker,
            model=model,
            macs=tuple(nics),
            linked=tuple(mac for mac, linked in nics.items() if linked),
            more_macs=more_macs,
            memory_gib=self.memory_gib or None,
            sockets=int(self.sockets) if self.sockets else None,
            gpus=gpus or (None if self.off else gpus),
            equipment=equipment,
            notes=(*(() if equipment else self.missing()), *list(self.bmc.unread)[:8]),
        )

    def missing(self) -> Iterator[str]:
        """Yield the parts whose number is no fact: 0, as of a machine that is off or has not started yet."""
        counts = {"memory": self.memory_gib, "processors": self.sockets}
        if names := [name for name, count in counts.items() if count == 0 or (self.off and count is None)]:
            yield f"{' and '.join(names)}: not told{' while it is off' if self.off else ''}"

    @lazy_property
    def chassis(self) -> Sequence[JsonObject]:
        """Those of the system first."""
        own = links(mapping(self.data, "Links").get("Chassis"))
        every = self.bmc.members(link(mapping(self.bmc.root, "Chassis")))
        paths = dict.fromkeys([*own, *self.bmc.tried(every)])
        return list(_before(time.monotonic() + PART_S, self.bmc.each(paths)))

    def names(self) -> tuple[str, str, str]:
        """Return serial number, maker and model: of the system, else of its enclosure, else of its own board."""
        whole = self.data
        if not _serial(whole):
            enclosures = [part for part in self.chassis if text(part, "ChassisType") in _ENCLOSURES]
            whole = next((part for part in (*enclosures, *self.chassis[:1]) if _serial(part)), whole)
        maker, model = (text(self.data, key) or text(whole, key) for key in ("Manufacturer", "Model"))
        return _serial(whole), maker, model

    def nics(self) -> Mapping[str, bool]:
        """Return the interfaces that can boot, by MAC address, with whether each has a link.

        Where none is listed, the firmware's boot options name them. An address that is administered locally counts only
        where all are: beside others it is a USB link's, or a bridge's.
        """
        nics: dict[str, bool] = {}
        for part in self.bmc.each(self.bmc.members(link(mapping(self.data, "EthernetInterfaces")))):
            if (mac := _mac(part)) and not _of_manager(part) and text(part, "EthernetInterfaceType") != "Virtual":
                nics[mac] = nics.get(mac, False) or text(part, "LinkStatus") == "LinkUp"
        if not nics:
            for option in self.bmc.each(self.bmc.members(link(mapping(mapping(self.data, "Boot"), "BootOptions")))):
                path = text(option, "UefiDevicePath", 500)
                if (match := _MAC_OF_PATH.search(path)) and "USB(" not in path:
                    nics[":".join(re.findall("..", match[1].lower()))] = False
        return {mac: linked for mac, linked in nics.items() if not int(mac[:2], 16) & 2} or nics

    def gpus(self) -> tuple[str, ...] | None:
        """Return models of GPUs: of the systems' processors, else of chassis' PCIe devices; None for no whole list."""
        bmc, lists, unread = self.bmc, 0, len(self.bmc.unread)
        until = time.monotonic() + PART_S
        gpus: list[JsonObject] = []
        for system in (self.data, *bmc.each(bmc.systems.others)):
            if not gpus and (path := link(mapping(system, "Processors"))):
                lists += 1
                gpus = [part for part in _before(until, bmc.each(bmc.members(path))) if _is_gpu_processor(part)]
        for part in () if gpus else self.chassis:
            if not gpus and (path := link(mapping(part, "PCIeDevices"))):
                lists += 1
                devices = list(_before(until, bmc.each(bmc.members(path))))
                # To read each device's functions takes long: only where no name says it.
                named = [device for device in devices if _is_gpu_by_name(device)]
                gpus = named or [device for device in _before(until, devices) if _is_gpu(bmc, device)]
        if time.monotonic() >= until:
            bmc.unread[f"GPUs: to read them takes more than {PART_S:g} s"] = None
        whole = lists and len(bmc.unread) == unread
        return tuple(map(_model, gpus)) if whole else None

    def equipment(self) -> str:
        """Return what the controller belongs to if that is no server; "" for a server, also for one that is off."""
        own = f"{text(self.data, 'SystemType')} {text(self.data, 'Model', 100)}"
        if _EQUIPMENT["DPU"].search(own):
            return "DPU"
        if self.off or (self.data and (self.memory_gib != 0 or self.sockets != 0)):
            return ""
        root = " ".join((text(self.bmc.root, "Product", 100), *self.bmc.root))
        parts = (text(part, key, 100) for part in self.chassis for key in ("Id", "Name", "Model"))
        names = " ".join((own, text(self.data, "Name"), root, *parts))
        return next((name for name, pattern in _EQUIPMENT.items() if pattern.search(names)), "no server")


def _before(until_s: float, resources: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield these resources up to a time."""
    return takewhile(lambda _: time.monotonic() < until_s, resources)


def _serial(data: JsonObject) -> str:
    serial = text(data, "SerialNumber")
    return "" if _NO_SERIAL.fullmatch(serial) else serial


def _of_manager(data: JsonObject) -> bool:
    """Whether an interface leads to the machine's own controller."""
    names = " ".join(text(data, key, 100) for key in ("Id", "Name", "Description"))
    path = text(data, "UefiDevicePath", 500)
    return bool(link(mapping(mapping(data, "Links"), "HostInterface")) or _TO_MANAGER.search(names) or "USB(" in path)


def _is_gpu_processor(data: JsonObject) -> bool:
    return text(data, "ProcessorType") == "GPU" and text(mapping(data, "Status"), "State") != "Absent"


def _is_gpu_by_name(device: JsonObject) -> bool:
    names = (text(device, key, 100) for key in ("Id", "Name", "Description"))
    return text(mapping(device, "Status"), "State") != "Absent" and any(map(_GPU_NAME.search, names))


def _is_gpu(bmc: Redfish, device: JsonObject) -> bool:
    """Whether a PCIe device is one by its functions' vendor and class."""
    paths = links(mapping(device, "Links").get("PCIeFunctions"))
    functions = bmc.each(paths or bmc.members(link(mapping(device, "PCIeFunctions"))))
    return any(
        text(function, "VendorId").lower() in _GPU_VENDORS and text(function, "DeviceClass") in _GPU_CLASSES
        for function in functions
    )


def _model(data: JsonObject) -> str:
    model = text(data, "Model")
    return model if model and model.upper() != "N/A" else "GPU"


def _mac(data: JsonObject) -> str | None:
    for key in ("PermanentMACAddress", "MACAddress"):
        mac = text(data, key).lower().replace("-", ":")
        if _MAC.fullmatch(mac) and mac != "00:00:00:00:00:00":
            return mac
    return None
