"""What a machine is, by its Redfish service. Every list and text is bounded; what is odd is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcforge.cluster.discovered import Machine
from hpcforge.power import BmcError, JsonObject
from hpcforge.power.redfish import ROOT, Redfish, mapping, number, text

_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")


def read_service(bmc: Redfish) -> str:
    """Read the service root, which Redfish (DSP0266) gives without a login; return maker and product.

    Raises `BmcError`, of reason `service` where there is no Redfish.
    """
    try:
        data = bmc.get(f"{ROOT}/").data
    except BmcError as error:
        if error.reason == "unreachable":
            raise
        why = str(error).removeprefix(f"{bmc.access.address}: ")
        raise BmcError(f"{bmc.access.address}: no management controller by Redfish: {why}", "service") from None
    systems = text(mapping(data, "Systems"), "@odata.id", 500).rstrip("/")
    if not text(data, "@odata.type").startswith("#ServiceRoot.") or systems != f"{ROOT}/Systems":
        raise BmcError(f"{bmc.access.address}: no management controller by Redfish: no service root", "service")
    return " ".join(filter(None, (text(data, "Vendor"), text(data, "Product"))))


def read_machine(bmc: Redfish, certificate: str | None) -> Machine:
    """Ask a controller for its machine; five requests and one for each interface and processor. Raises `BmcError`."""
    data = bmc.system().data
    interfaces = list(_resources(bmc, data, "EthernetInterfaces"))
    macs = [(mac, text(found, "LinkStatus")) for found in interfaces if (mac := _mac(found))]
    memory_gib = number(mapping(data, "MemorySummary"), "TotalSystemMemoryGiB")
    sockets = number(mapping(data, "ProcessorSummary"), "Count")
    return Machine(
        address=bmc.access.address,
        certificate=certificate,
        serial=text(data, "SerialNumber"),
        maker=text(data, "Manufacturer"),
        model=text(data, "Model"),
        macs=tuple(dict.fromkeys(mac for mac, _ in macs)),
        linked=tuple(dict.fromkeys(mac for mac, link in macs if link == "LinkUp")),
        memory_gib=memory_gib,
        sockets=None if sockets is None else int(sockets),
        gpus=_gpus(bmc, data),
    )


def _gpus(bmc: Redfish, data: JsonObject) -> tuple[str, ...] | None:
    if not text(mapping(data, "Processors"), "@odata.id", 500):
        return None
    found = _resources(bmc, data, "Processors")
    return tuple(text(processor, "Model") for processor in found if text(processor, "ProcessorType") == "GPU")


def _resources(bmc: Redfish, data: JsonObject, name: str) -> Iterator[JsonObject]:
    """Yield the members of a collection that the system links to; a member that cannot be read is left out."""
    path = text(mapping(data, name), "@odata.id", 500)
    for member in bmc.members(path) if path else ():
        try:
            yield bmc.get(member).data
        except BmcError as error:
            if error.reason != "answer":
                raise


def _mac(data: JsonObject) -> str | None:
    for key in ("PermanentMACAddress", "MACAddress"):
        mac = text(data, key).lower().replace("-", ":")
        if _MAC.fullmatch(mac) and mac != "00:00:00:00:00:00":
            return mac
    return None
