"""Networks and the addresses on them: the inventory's, the blueprint's, else chosen by name; and their errors.

Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from itertools import combinations

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.checks import outside
from hpcforge.blueprint.inventory import Inventory, InventoryNode
from hpcforge.blueprint.membership import node_set_names
from hpcforge.blueprint.node_sets import sure
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.networks import NetworkSection, is_bmc, primary
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster import model as m

# Derived addresses depend on the node's own name alone, so that a new node never moves another.
#
# On the network of node addresses, a digest of the name's text before its number gives the start of a range, and the
# number counts from there: gpu001 to gpu032 follow each other. The lowest sixteenth of a subnet stays free for gateways
# and services. On every other network a node keeps its host part, the distance from the subnet's first address, if that
# subnet is at least as large; on a smaller one the digest gives a new address.
#
# Two names may get the same address. hpcforge reports that, and never moves one of them.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)")


def named_address(name: str, cidr: str) -> str:
    """Return the address of a node on a subnet."""
    subnet = IPv4Network(cidr)
    lowest = max(1, subnet.num_addresses // 16)
    room = subnet.num_addresses - 1 - lowest  # excludes the broadcast address
    match = _NUMBERED.fullmatch(name)
    stem, number = (f"{match[1]}#{match[3]}", int(match[2])) if match else (name, 0)
    start = int.from_bytes(hashlib.sha256(stem.encode()).digest()[:8], "big")
    return str(subnet.network_address + lowest + (start + number) % room)


def same_host_address(address: str, cidr: str, other_cidr: str) -> str | None:
    """Return the address of the same host part on another subnet, None if that is smaller."""
    subnet, other_subnet = IPv4Network(cidr), IPv4Network(other_cidr)
    if other_subnet.prefixlen > subnet.prefixlen:
        return None
    return str(other_subnet.network_address + (int(IPv4Address(address)) - int(subnet.network_address)))


_SHOWN = 3  # pairs of nodes with one address on a network; and nodes with an address outside one
_FEW = 4  # nodes outside a network: up to this number each has its own error
Placed = Mapping[str, tuple[Loc, str]]  # node to the location of its address, and the address


@dataclass(frozen=True)
class Networks:
    """The networks, that of node addresses first, and the addresses on each by node. Errors are of one file each."""

    all: tuple[m.Network, ...]
    addresses: Mapping[str, Mapping[str, str]]  # network to node to address
    bmc: str | None  # the network of management controllers; inventories have these addresses under `bmc`
    wrong_in_blueprint: tuple[Finding, ...]
    wrong_in_inventory: tuple[Finding, ...]


def networks(blueprint: Blueprint, inventory: Inventory | None) -> Networks:
    """Resolve the networks of a blueprint without wrong references."""
    first = primary(blueprint.networks, blueprint.fabrics)
    if first is None:
        raise KeyError("networks")
    work = _Addressing(blueprint, inventory, first)
    order = [first, *(name for name in blueprint.networks if name != first)]
    addresses = {name: work.addresses(name) for name in order}
    return Networks(
        tuple(work.network(name, addresses[name]) for name in order),
        addresses,
        work.bmc,
        tuple(work.known_names(addresses)),
        tuple(work.of_inventory(addresses)),
    )


def mostly_outside(name: str, cidr: str, placed: Placed) -> Finding | None:
    """Return the error of a network that most of its nodes' addresses are outside; None for one that has them."""
    strangers = _strangers(cidr, placed)
    if len(strangers) < _FEW or 2 * len(strangers) <= len(placed):
        return None
    addresses = sorted(IPv4Address(address) for _, address in placed.values())
    having = IPv4Network(addresses[0])
    while addresses[-1] not in having:
        having = having.supernet()
    message = f"{cidr} of `{name}` does not have the addresses of {_first_names(strangers)}, which the inventory gives"
    return Finding(("networks", name, "cidr"), message, f"{having} has those of all {len(placed)} nodes")


def few_outside(name: str, cidr: str, placed: Placed) -> Iterator[Finding]:
    """Yield addresses outside their network, several as one error at the first of them."""
    if not any(outside((), [address for _, address in placed.values()], cidr, "")):
        return  # one request for all is much quicker
    strangers = _strangers(cidr, placed)
    if len(strangers) < _FEW:
        for loc, address in placed.values():
            yield from outside(loc, (address,), cidr, f"network `{name}`")
        return
    message = f"the addresses of {_first_names(strangers)} are outside network `{name}`, {cidr}"
    yield Finding(placed[strangers[0]][0], message, "correct them here, or the `cidr` of the network")


def _strangers(cidr: str, placed: Placed) -> list[str]:
    network = IPv4Network(cidr)
    first, mask = int(network.network_address), int(network.netmask)
    return [node for node, (_, address) in placed.items() if _number(address) & mask != first]


def _number(address: str) -> int:
    """Return an address as a number; `IPv4Address` takes twice as long, for thousands of them."""
    return int.from_bytes(bytes(map(int, address.split("."))), "big")


def _first_names(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more nodes" if more > 0 else "")


class _Addressing:
    def __init__(self, blueprint: Blueprint, inventory: Inventory | None, first: str) -> None:
        self.blueprint, self.first = blueprint, first
        self.machines = inventory.nodes if inventory else {}
        moved = self.moved = inventory.networks if inventory else {}
        self.bmc = next((name for name, network in blueprint.networks.items() if is_bmc(name, network)), None)
        self.cidr = {
            name: moved[name].cidr if name in moved else network.cidr for name, network in blueprint.networks.items()
        }
        self.words = node_set_names(blueprint, inventory)
        self.nodes = self.words.everything
        self.on = {name: self._on(network) for name, network in blueprint.networks.items()}
        self.declared = {
            name: address
            for key, group in blueprint.nodes.items()
            if group.addresses is not None
            for name, address in zip(hostlist.expand(key), hostlist.expand(group.addresses), strict=True)
        }

    def _on(self, network: NetworkSection) -> dict[str, None]:
        """Return the nodes on a network: its own `nodes`, else its fabric's, or all."""
        if network.nodes is not None:
            return dict.fromkeys(sure(network.nodes, self.words))
        fabric = self.blueprint.fabrics.get(network.fabric or "")
        return dict.fromkeys(sure(fabric.nodes, self.words) if fabric else self.nodes)

    def addresses(self, name: str) -> dict[str, str]:
        """Return addresses on a network by node; on a network of the site only the inventory's."""
        if name == self.first:
            return {node: self._main(node) for node in self.nodes}
        pinned = {node: self._pinned(name, node) for node in self.on[name]}
        if self.blueprint.networks[name].external:
            return {node: address for node, address in pinned.items() if address}
        return {node: address or self._chosen(name, node) for node, address in pinned.items()}

    def _pinned(self, name: str, node: str) -> str | None:
        machine = self.machines.get(node)
        return self._recorded(machine).get(name) if machine else None

    def _recorded(self, machine: InventoryNode) -> dict[str, str]:
        """Return a machine's addresses in the inventory on other networks than the nodes' own, by network."""
        at_bmc = machine.bmc.address if machine.bmc else None
        return machine.addresses | ({self.bmc: at_bmc} if self.bmc and at_bmc else {})

    def _main(self, node: str) -> str:
        machine = self.machines.get(node)
        return (machine and machine.address) or self.declared.get(node) or named_address(node, self.cidr[self.first])

    def _chosen(self, name: str, node: str) -> str:
        return same_host_address(self._main(node), self.cidr[self.first], self.cidr[name]) or named_address(
            node, self.cidr[name]
        )

    def network(self, name: str, addresses: Mapping[str, str]) -> m.Network:
        network = self.blueprint.networks[name]
        fabric = self.blueprint.fabrics.get(network.fabric or "")
        gateway = addresses.get(network.gateway, network.gateway) if network.gateway else None
        return m.Network(
            name=name,
            cidr=self.cidr[name],
            fabric=network.fabric,
            interface=network.interface,
            vlan=network.vlan,
            mtu=network.mtu,
            boot=network.boot,
            bmc=is_bmc(name, network),
            external=network.external,
            gateway=gateway,
            bond=network.bond or (fabric.bond if fabric else None),
            configure=network.configure,
        )

    def known_names(self, addresses: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
        overlaps = list(self._overlaps())
        yield from overlaps
        if not overlaps:
            yield from self._mostly_outside()
        missing = [node for node in self.nodes if node not in self.on[self.first]]
        if missing:
            loc = ("networks", self.first)
            verb = "is" if len(missing) == 1 else "are"
            message = f"node addresses are on `{self.first}`, but {hostlist.fold(missing)} {verb} not on it"
            yield Finding(loc, message, "use a network of all nodes; or set `nodes: all`", key=True)
        for name, network in self.blueprint.networks.items():
            yield from self._gateway(name, network, addresses[name])
            yield from self._shared(name, addresses[name])

    def _mostly_outside(self) -> Iterator[Finding]:
        pinned: dict[str, dict[str, tuple[Loc, str]]] = {name: {} for name in self.cidr if name not in self.moved}
        for node in self.nodes:
            for name, address in self._recorded(self.machines[node]).items() if node in self.machines else ():
                if name in pinned:
                    pinned[name][node] = ((), address)
        for name, placed in pinned.items():
            if error := mostly_outside(name, self.cidr[name], placed):
                yield error

    def _overlaps(self) -> Iterator[Finding]:
        for network, second in combinations(self.cidr, 2):
            if IPv4Network(self.cidr[network]).overlaps(IPv4Network(self.cidr[second])):
                message = f"{self.cidr[second]} of `{second}` overlaps {self.cidr[network]} of `{network}`"
                yield Finding(("networks", second, "cidr"), message)

    def _gateway(self, name: str, network: NetworkSection, addresses: Mapping[str, str]) -> Iterator[Finding]:
        gateway, loc = network.gateway, ("networks", name, "gateway")
        if gateway is None:
            return
        if gateway[0].isdigit():
            yield from outside(loc, (gateway,), self.cidr[name], f"network `{name}`")
            owners = [node for node, address in addresses.items() if address == gateway]
            if owners:
                hint = "name the node if it is the gateway; or give it another address in the inventory"
                yield Finding(loc, f"{gateway} is the address of {owners[0]}", hint)
        elif gateway not in addresses:
            problem = "has no address on it: pin one in the inventory" if network.external else "is not on it"
            yield Finding(loc, f"the gateway {gateway} of `{name}` {problem}")

    def _shared(self, name: str, addresses: Mapping[str, str]) -> Iterator[Finding]:
        """Yield nodes that share an address or have one that no node can have, where it was chosen for one of them.

        Reports errors in the inventory's values; the blueprint's were reported before.
        """
        loc: Loc = ("networks", name)
        chosen = {node for node in addresses if self._is_chosen(name, node)}
        room = IPv4Network(self.cidr[name]).num_addresses - 2
        if chosen and len(addresses) > room:
            message = f"{len(addresses)} nodes do not fit into {self.cidr[name]}, which has {room} addresses"
            yield Finding((*loc, "cidr"), message)
            return
        yield from outside(loc, sorted({addresses[node] for node in chosen}), self.cidr[name], f"network `{name}`")
        owner: dict[str, str] = {}
        pairs = [(owner[a], node) for node, a in addresses.items() if owner.setdefault(a, node) != node]
        pairs = [pair for pair in pairs if chosen & set(pair)]
        if pairs:
            shown = ", ".join(f"{node} and {second} {addresses[second]}" for node, second in pairs[:_SHOWN])
            more = f", and {len(pairs) - _SHOWN} pairs more" if len(pairs) > _SHOWN else ""
            ways = {self.first: "address: ...", self.bmc: "bmc: {address: ...}"}
            pin = ways.get(name, f"addresses: {{{name}: ...}}")
            hint = f"pin another one in the inventory: nodes: {{{pairs[0][1]}: {{{pin}}}}}"
            yield Finding(loc, f"two nodes get the same derived address: {shown}{more}", hint, key=True)

    def _is_chosen(self, name: str, node: str) -> bool:
        machine = self.machines.get(node)
        if name == self.first:
            return not (machine and machine.address) and node not in self.declared
        return self._pinned(name, node) is None

    def of_inventory(self, addresses: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
        """Yield pinned addresses that cannot be; of two nodes pinned to one, the later."""
        owner: dict[tuple[str, str], str] = {}
        nodes, on = frozenset(self.nodes), dict[str, dict[str, tuple[Loc, str]]]()
        for node, machine in self.machines.items():
            if node not in nodes:
                continue  # the blueprint does not use this machine, and another check reports that
            for name, address in self._recorded(machine).items():
                pinned = name in machine.addresses
                loc: Loc = ("nodes", node, "addresses", name) if pinned else ("nodes", node, "bmc", "address")
                if pinned and name == self.bmc:
                    hint = f"bmc: {{address: {machine.addresses[name]}}}"
                    yield Finding(loc, f"on `{name}` a machine has only its BMC's address", hint, key=True)
                elif name not in self.blueprint.networks:
                    yield Finding(loc, f"`{name}` is not a network of the blueprint", key=True)
                elif name == self.first:
                    yield Finding(loc, f"on `{name}` is the node's own address", f"address: {address}", key=True)
                elif node not in addresses[name]:
                    yield Finding(loc, f"{node} is not on `{name}`", key=True)
                else:
                    on.setdefault(name, {})[node] = (loc, address)
                    first = owner.setdefault((name, address), node)
                    if first != node:
                        yield Finding(loc, f"{address} of {node} already belongs to {first}")
        for name, placed in on.items():
            if name in self.moved or mostly_outside(name, self.cidr[name], placed) is None:
                yield from few_outside(name, self.cidr[name], placed)
