"""Check an inventory against its blueprint: names, addresses, and what two machines or two ports share. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.checks import node_as_jump_host, node_network, outside
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.inventory import InventoryNode, InventorySwitch
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.networks import is_bmc
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.cluster.networks import Placed, few_outside, mostly_outside

Findings = Iterator[Finding]
_MAX_GUESSES = 20  # guesses of a name: each takes tens of milliseconds among 10,000 names


def missing_address_findings(draft: Draft, inventory: Draft | None) -> Findings:
    """Yield the nodes of a blueprint that neither it nor the inventory gives an address."""
    first = node_network(draft)
    if first is None or (inventory and not inventory.intact("nodes")):
        return
    derived = draft.sections["networks"][first].fabric is not None
    padded = unpadded(NamedNodes(draft), inventory) if inventory else {}
    for key, names in padded.items():
        shown = hostlist.fold(list(names))
        message = f"the inventory has {hostlist.fold(list(names.values()))}, and the blueprint {shown}"
        yield Finding(("nodes", key), message, "pad its numbers with zeros, as the inventory does", key=True)
    if padded:
        return
    if inventory and not derived and NamedNodes(draft).unknown(inventory.keys("nodes")):
        return  # a wrong name there may be the reason
    machines = inventory.sections["nodes"] if inventory else {}
    if not (inventory and inventory.sections["networks"]):
        placed: Placed = {name: ((), machine.address) for name, machine in machines.items() if machine.address}
        if error := mostly_outside(first, draft.sections["networks"][first].cidr, placed):
            yield error
    addressed = {name for name, machine in machines.items() if machine.address}
    if derived and not addressed:
        return  # all addresses are derived from names
    for key, group in (draft.sections["nodes"] or {}).items():
        if group.addresses is None and draft.intact("nodes", key):
            lacking = [name for name in hostlist.expand(key) if name not in addressed]
            message = f"{hostlist.fold(lacking)} without an address" if lacking else ""
            if message and derived:
                message += " in the inventory, unlike other nodes: hpcforge derives one from the name"
                hint = "write its address into the inventory if it has one"
                yield Finding(("nodes", key), message, hint, key=True, severity="warning")
            elif message:
                hint = "give `addresses:` here, or name an inventory that has them"
                yield Finding(("nodes", key), message, hint, key=True)


def unpadded(declared: NamedNodes, inventory: Draft) -> dict[str, dict[str, str]]:
    """Return nodes that an inventory has with other zeros, by key: `c1` for its `c01`.

    A single one is another name, and nodes with addresses in the blueprint need no inventory.
    """
    entries = inventory.keys("nodes")
    unknown = {_bare(name): name for name in declared.unknown(entries)}
    by_key: dict[str, dict[str, str]] = {}
    for name in sorted(set(declared.group_of) - set(entries)) if unknown else ():
        if _bare(name) in unknown:
            by_key.setdefault(declared.group_of[name], {})[name] = unknown[_bare(name)]
    lacking = {key for key, group in declared.groups.items() if group.addresses is None}
    return {key: names for key, names in by_key.items() if len(names) > 1 and key in lacking}


def _bare(name: str) -> str:
    return re.sub(r"(?<![0-9])0{1,9}(?=[0-9])", "", name)


def unknown_node_findings(inventory: Draft, _: Draft, declared: NamedNodes) -> Findings:
    """Yield nodes that the blueprint does not have."""
    padded = {name for names in unpadded(declared, inventory).values() for name in names.values()}
    unknown = [name for name in declared.unknown(inventory.keys("nodes")) if inventory.intact("nodes", name)]
    unknown = [name for name in unknown if name not in padded]
    nodes = f"its nodes: {hostlist.fold(list(declared.group_of)[:64])}"
    for position, name in enumerate(unknown):
        hint = did_you_mean(name, declared.group_of) if position < _MAX_GUESSES else None
        message = f"{quote(name)} is not a node of the blueprint and is ignored"  # the node may have been removed
        yield Finding(("nodes", name), message, hint or nodes, key=True, severity="warning")


def jump_host_findings(inventory: Draft, _: Draft, declared: NamedNodes) -> Findings:
    """Yield settings of a jump host that is a node."""
    if inventory.sections["access"] and inventory.intact("access"):
        yield from node_as_jump_host(inventory.sections["access"].via, declared)


def unknown_network_findings(inventory: Draft, blueprint: Draft, _: NamedNodes) -> Findings:
    """Yield networks that the blueprint does not have."""
    networks = blueprint.keys("networks")
    for name in inventory.sections["networks"] or {}:
        if name not in networks:
            message = f"{quote(name)} is not a network of the blueprint"
            yield Finding(("networks", name), message, did_you_mean(name, networks), key=True)


def position_findings(inventory: Draft, blueprint: Draft, declared: NamedNodes) -> Findings:
    """Yield rack positions of nodes and switches that the blueprint does not have."""
    fabrics = "|".join(map(re.escape, blueprint.keys("fabrics")))
    switch = re.compile(rf"(?:{fabrics})-(?:leaf|spine|core)-[0-9]+")  # the number of switches is not known yet
    unknown = [name for name in declared.unknown(inventory.keys("positions")) if not switch.fullmatch(name)]
    if unknown:
        message = f"positions of {hostlist.fold(unknown)}, which the blueprint does not have"
        yield Finding(("positions",), message, "`hpcforge pin` removes them", severity="warning", key=True)


def address_findings(inventory: Draft, blueprint: Draft, declared: NamedNodes) -> Findings:
    """Check the resulting addresses: those of the inventory, and of the blueprint where the inventory has none."""
    if not inventory.intact("networks"):
        return
    network = node_network(blueprint)
    moves = inventory.sections["networks"] or {}
    if set(moves) - set(blueprint.keys("networks")):
        network = None  # a wrong name there may be why an address is outside
    moved = moves.get(network)
    subnet = (moved or blueprint.sections["networks"][network]).cidr if network else None
    pinned = {name: node.address for name, node in (inventory.sections["nodes"] or {}).items() if node.address}
    inherited = {name: a for name, a in blueprint_addresses(declared).items() if name not in pinned}
    owner = {address: name for name, address in inherited.items()}
    placed: Placed = {name: (("nodes", name, "address"), address) for name, address in pinned.items()}
    if network and subnet and (moved or mostly_outside(network, subnet, placed) is None):
        yield from few_outside(network, subnet, placed)
    for name, address in pinned.items():
        loc = ("nodes", name, "address")
        if address in owner:
            yield Finding(loc, f"{address} of {name} already belongs to {owner[address]}")
        owner.setdefault(address, name)
    sure = inventory.intact("nodes") and not declared.unknown(inventory.keys("nodes"))
    if sure and subnet and network and moved:
        stranded = [name for name, address in inherited.items() if any(outside((), (address,), subnet, network))]
        if stranded:
            yield Finding(
                ("networks", network),
                f"outside {subnet}: the blueprint's address of {hostlist.fold(stranded)}",
                "give other addresses here, under `nodes:`",
                key=True,
            )


def blueprint_addresses(declared: NamedNodes) -> dict[str, str]:
    """Return the addresses that a blueprint gives, by node."""
    return {
        name: address
        for key, group in declared.groups.items()
        if group.addresses is not None
        for name, address in zip(hostlist.expand(key), hostlist.expand(group.addresses), strict=False)
    }


def identity_findings(inventory: Draft, blueprint: Draft, _: NamedNodes) -> Findings:
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
