"""Addresses and serial numbers in an inventory that two machines or two ports share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcforge.blueprint.inventory import InventoryNode, InventorySwitch
from hpcforge.blueprint.network_checks import is_bmc
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.validate import Draft, Finding

Findings = Iterator[Finding]


def identity_findings(inventory: Draft, blueprint: Draft) -> Findings:
    """Yield what two machines share although only one can have it; addresses on networks are judged with those."""
    machines: dict[str, InventoryNode] = inventory.sections["nodes"] or {}
    on_network = any(is_bmc(name, network) for name, network in (blueprint.sections["networks"] or {}).items())
    owner = {machine.address: name for name, machine in machines.items() if machine.address}
    for name, machine in machines.items():
        at = machine.bmc.address if machine.bmc and not on_network else None
        for key, value in ((("bmc", "address"), at), (("serial",), machine.serial)):
            if value is not None and owner.setdefault(value, name) != name:
                yield Finding(("nodes", name, *key), f"{value} of {name} already belongs to {owner[value]}")
    yield from _shared_macs(machines, inventory.sections["switches"] or {})


def _shared_macs(machines: Mapping[str, InventoryNode], switches: Mapping[str, InventorySwitch]) -> Findings:
    """Yield MAC addresses of two ports; `mac` may be one of `ports`, where a fabric carries the nodes' network."""
    owner: dict[str, list[Loc]] = {}
    for loc, mac in _macs(machines, switches):
        before = owner.setdefault(mac, [])
        first = next((place for place in before if not _may_be_one_port(place, loc)), None)
        if first and first[1] != loc[1]:
            yield Finding(loc, f"{mac} of {loc[1]} already belongs to {first[1]}")
        elif first:
            key = ".".join(str(step) for step in first[2:] if isinstance(step, str))
            yield Finding(loc, f"{mac} of {loc[1]} is also its `{key}`", "each port has a MAC address of its own")
        before.append(loc)


def _may_be_one_port(place: Loc, loc: Loc) -> bool:
    return place[:2] == loc[:2] and place[2] == "mac" and loc[2] == "ports"


def _macs(machines: Mapping[str, InventoryNode], switches: Mapping[str, InventorySwitch]) -> Iterator[tuple[Loc, str]]:
    """Yield all MAC addresses: that of a node's address before those of its other ports."""
    for name, machine in machines.items():
        loc: Loc = ("nodes", name)
        own: list[tuple[Loc, str | None]] = [((*loc, "mac"), machine.mac)]
        own += [((*loc, "bmc", "mac"), machine.bmc.mac)] if machine.bmc else []
        for fabric, macs in machine.ports.items():
            own += (((*loc, "ports", fabric, index), mac) for index, mac in enumerate(macs))
        yield from ((place, mac) for place, mac in own if mac)
    yield from ((("switches", name, "mac"), switch.mac) for name, switch in switches.items() if switch.mac)
