"""Machines in the descriptions of their management controllers: the node of each, and the differences. Pure.

A controller may be wrong: a serial number or a MAC address of two machines identifies none, and nothing here replaces
an entry of the inventory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.inventory import Inventory, InventoryNode
from hpcforge.blueprint.values import may_be_mac_of_port, may_be_serial
from hpcforge.cluster.model import Node

_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}")
_MEMORY_SLACK = 0.02  # memory that firmware keeps for itself, and GB reported as GiB
By = Literal["serial", "mac", "address", "assigned"]


@dataclass(frozen=True)
class Machine:
    """The description of a machine by its controller; None and empty: no usable value."""

    address: str  # address of the controller
    certificate: str | None = None  # SHA-256 of the TLS certificate that it showed
    serial: str = ""
    maker: str = ""
    model: str = ""
    macs: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()  # MAC addresses of interfaces with a link
    memory_gib: float | None = None
    sockets: int | None = None
    gpus: tuple[str, ...] | None = None  # models of GPUs; None: no list of processors
    more_macs: bool = False  # True: an interface could not be read
    equipment: str = ""  # kind of a device other than a server, such as "DPU" or "power shelf"
    notes: tuple[str, ...] = ()  # unread parts, with the reason


@dataclass(frozen=True)
class MachineDifference:
    """Something that differs, and the line that would settle it.

    `less`: the machine has less than is declared, or is another one.
    """

    node: str
    text: str
    line: str = ""
    less: bool = False


@dataclass(frozen=True)
class MachineMatches:
    """The node of each machine."""

    nodes: Mapping[str, Machine]
    by: Mapping[str, By]
    unknown: tuple[Machine, ...]  # machines of no node
    remarks: tuple[MachineDifference, ...] = field(default=())


def match(nodes: Sequence[Node], machines: Sequence[Machine], assign: Sequence[str] = ()) -> MachineMatches:
    """Return the node of each machine: by its serial number, else a MAC address, else its controller's address.

    The other machines become the nodes of `assign`, in the order of their addresses. A controller of other equipment
    belongs to no node.
    """
    remarks: list[MachineDifference] = []
    equipment = [machine for machine in machines if machine.equipment]
    machines = [machine for machine in machines if not machine.equipment]
    keys = _keys(nodes, machines)
    remarks += _equipment_of_nodes(equipment, keys["address"])
    by_node: dict[str, Machine] = {}
    by: dict[str, By] = {}
    unknown: list[Machine] = []
    for machine in machines:
        name, how = _node_of(machine, keys)
        if name is None or how is None:
            unknown.append(machine)
        elif name in by_node:
            text = f"is both the machine at {by_node[name].address} (by {by[name]}) and at {machine.address} (by {how})"
            remarks.append(MachineDifference(name, text))
            unknown.append(machine)
        else:
            by_node[name], by[name] = machine, how
    free = [name for name in assign if name not in by_node]
    if free and len(free) != len(unknown):  # a machine that is silent today would shift all others by one node
        text = (
            f"{len(unknown)} machines belong to no node, but --assign has {len(free)} free nodes: no node is assigned"
        )
        remarks.append(MachineDifference(free[0], text))
        free = []
    node_by_name = {node.name: node for node in nodes}
    for name, machine in zip(free, sorted(unknown, key=_place) if free else (), strict=True):
        if is_another(node_by_name[name], machine):
            remarks.append(_not_assigned(node_by_name[name], machine))
        else:
            by_node[name], by[name] = machine, "assigned"
    unknown = [machine for machine in unknown if machine not in by_node.values()]
    remarks += _shared([node for node in nodes if node.name in by_node], by_node, (*machines, *equipment))
    return MachineMatches(by_node, by, (*unknown, *equipment), tuple(remarks))


def _not_assigned(node: Node, machine: Machine) -> MachineDifference:
    text = f"the machine at {machine.address} is another one (serial number {machine.serial}): not assigned"
    line = f"hpcforge nodes replace BLUEPRINT {node.name}, if it takes the place of {node.serial}"
    return MachineDifference(node.name, text, line, less=True)


def _keys(nodes: Sequence[Node], machines: Sequence[Machine]) -> Mapping[By, Mapping[str, str]]:
    """Return the nodes by what tells them apart; what two machines show does not."""
    twice = {serial for serial, count in Counter(machine.serial for machine in machines).items() if count > 1}
    shared = {mac for mac, count in Counter(mac for machine in machines for mac in machine.macs).items() if count > 1}
    return {
        "serial": {node.serial: node.name for node in nodes if node.serial and node.serial not in twice},
        "mac": {node.mac: node.name for node in nodes if node.mac and node.mac not in shared},
        "address": {node.bmc.address: node.name for node in nodes if node.bmc and node.bmc.address},
    }


def _shared(
    nodes: Iterable[Node], machines: Mapping[str, Machine], every: Sequence[Machine]
) -> Iterator[MachineDifference]:
    """Yield what the inventory lacks of nodes and does not get, as another machine shows it, too."""
    addresses: dict[str, list[str]] = {}
    for machine in every:
        for value in (machine.serial, *machine.macs):
            addresses.setdefault(value, []).append(machine.address)
    for node in nodes:
        machine = machines[node.name]
        shown = [] if node.serial or not machine.serial else [("serial number", machine.serial)]
        shown += [] if node.mac else [("MAC address", mac) for mac in machine.macs]
        for kind, value in shown:
            if others := ", ".join(address for address in addresses[value] if address != machine.address):
                text = f"{kind} {value} is also that of the machine at {others:.160}: it is not recorded"
                yield MachineDifference(node.name, text)


def _equipment_of_nodes(equipment: Iterable[Machine], nodes: Mapping[str, str]) -> Iterator[MachineDifference]:
    for machine in equipment:
        if name := nodes.get(machine.address):
            description = f"{machine.equipment} {machine.model}".rstrip()
            text = f"its controller's address {machine.address} is not a server's: {description}"
            yield MachineDifference(name, text, less=True)


def is_another(node: Node, machine: Machine) -> bool:
    """Return whether a machine shows another serial number than the inventory has for a node."""
    return bool(node.serial and machine.serial and node.serial != machine.serial)


def _node_of(machine: Machine, keys: Mapping[By, Mapping[str, str]]) -> tuple[str | None, By | None]:
    if name := keys["serial"].get(machine.serial):
        return name, "serial"
    for mac in machine.macs:
        if name := keys["mac"].get(mac):
            return name, "mac"
    name = keys["address"].get(machine.address)
    return name, "address" if name else None


def _place(machine: Machine) -> tuple[int, ...]:
    return tuple(map(int, machine.address.split(".")))


def differences(node: Node, machine: Machine) -> Iterator[MachineDifference]:
    """Yield what differs between a node as declared and its machine."""
    name = node.name
    if is_another(node, machine):
        line = f"inventory: {name}: {{serial: {quoted(machine.serial)}}}"
        text = f"serial number {machine.serial}, and the inventory has {node.serial}: no value is recorded"
        yield MachineDifference(name, text, line, less=True)
    if node.mac and machine.macs and node.mac not in machine.macs:
        line = f"inventory: {name}: {{mac: {machine.macs[0]}}}"
        yield MachineDifference(name, f"none of its MAC addresses is {node.mac}: {', '.join(machine.macs[:8])}", line)
    if not node.mac and _boot_mac(machine) is None and machine.macs:
        line = f"inventory: {name}: {{mac: {machine.macs[0]}}}"
        yield MachineDifference(
            name, f"which of its interfaces boots is not known: {', '.join(machine.macs[:8])}", line
        )
    if node.bmc and node.bmc.address and node.bmc.address != machine.address:
        line = f"inventory: {name}: {{bmc: {{address: {machine.address}}}}}"
        yield MachineDifference(
            name, f"its controller is at {machine.address}, and the inventory has {node.bmc.address}", line
        )
    yield from _hardware(node, machine)


def _hardware(node: Node, machine: Machine) -> Iterator[MachineDifference]:
    declared_gib = node.memory_mib / 1024
    memory_gib = declared_gib if machine.memory_gib is None else machine.memory_gib
    if declared_gib and abs(memory_gib - declared_gib) > _MEMORY_SLACK * declared_gib:
        text = f"{memory_gib:g} GiB of memory, declared {declared_gib:g}"
        yield MachineDifference(
            node.name, text, _override(node, f"memory_gib: {int(memory_gib)}"), memory_gib < declared_gib
        )
    if machine.sockets and node.sockets and machine.sockets != node.sockets:
        less = machine.sockets < node.sockets
        text = f"{machine.sockets} processors, declared {node.sockets}"
        yield MachineDifference(node.name, text, _override(node, f"sockets: {machine.sockets}"), less)
    declared = node.gpus.count if node.gpus else 0
    if machine.gpus is not None and len(machine.gpus) != declared:
        if not machine.gpus:  # many controllers list no GPUs, so a missing list proves nothing
            yield MachineDifference(
                node.name, f"its controller lists no GPUs, declared {declared}: admission will count them"
            )
            return
        model = node.gpus.model if node.gpus else "MODEL"
        line = _override(node, f"gpus: {{model: {model}, count: {len(machine.gpus)}}}")
        yield MachineDifference(
            node.name, f"{len(machine.gpus)} GPUs, declared {declared}", line, len(machine.gpus) < declared
        )


def _override(node: Node, values: str) -> str:
    return f"blueprint: overrides: {{{node.name}: {{{values}, reason: WHY}}}}"


def additions(matches: MachineMatches, nodes: Iterable[Node], inventory: Inventory) -> dict[tuple[str, str], object]:
    """Return what the inventory lacks and machines say, by (node, key)."""
    added: dict[tuple[str, str], object] = {}
    machines = [*matches.nodes.values(), *matches.unknown]
    serials = {entry.serial for entry in inventory.nodes.values()} | _repeated(shown.serial for shown in machines)
    macs = {entry.mac for entry in inventory.nodes.values()} | _repeated(
        mac for shown in machines for mac in shown.macs
    )
    for node in nodes:
        machine = matches.nodes.get(node.name)
        if machine is None or is_another(node, machine):
            continue
        entry = inventory.nodes.get(node.name) or InventoryNode.model_construct()
        right = _SERIAL.fullmatch(machine.serial) and may_be_serial(machine.serial)
        if not entry.serial and right and machine.serial not in serials:
            added[node.name, "serial"] = machine.serial
            serials.add(machine.serial)
        mac = _boot_mac(machine)
        if not entry.mac and mac and mac not in macs:
            added[node.name, "mac"] = mac
            macs.add(mac)
        bmc = _bmc(node, entry, machine)
        if bmc is not None:
            added[node.name, "bmc"] = bmc
    return added


def _repeated(values: Iterable[str]) -> set[str | None]:
    """Return the values of more than one machine, which identify none."""
    return {value for value, count in Counter(values).items() if count > 1}


def _boot_mac(machine: Machine) -> str | None:
    """Return the one MAC address that it can boot from: its only one, or the only one with a link."""
    for listed in (machine.macs, machine.linked):
        macs = [mac for mac in listed if may_be_mac_of_port(mac)]
        if len(macs) == 1 and not machine.more_macs:
            return macs[0]
    return None


def _bmc(node: Node, entry: InventoryNode, machine: Machine) -> dict[str, object] | None:
    recorded = entry.bmc.model_dump(exclude_none=True) if entry.bmc else {}
    updated = dict(recorded)
    if node.bmc is None or node.bmc.address is None:
        updated["address"] = machine.address
    if "certificate" not in recorded and machine.certificate:
        updated["certificate"] = machine.certificate
    return updated if updated != recorded else None


def without_machine(nodes: Iterable[Node], matches: MachineMatches, addresses: Collection[str]) -> tuple[str, ...]:
    """Return the nodes without a machine, although their controllers' addresses were asked."""
    return tuple(
        node.name
        for node in nodes
        if node.name not in matches.nodes and node.bmc is not None and node.bmc.address in addresses
    )
