"""Check the interfaces and default routes that hpcforge configures, and the switches of an inventory. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.validate import Finding
from hpcforge.cluster.interfaces import bonded, carried, carrier, own_networks, port_below, ports
from hpcforge.cluster.model import Cluster, FabricOf, Network, Node

if TYPE_CHECKING:
    from hpcforge.design.fabric.graph import Fabric


# Default routes of nodes whose interfaces hpcforge configures: a missing one, and two on one node.
def route_findings(cluster: Cluster) -> Iterator[Finding]:
    """Yield nodes that would have two default routes, and nodes without one whose services are on other networks."""
    networks = {
        node.name: [network for several in carried(cluster, node).values() for network in several if not network.bmc]
        for node in cluster.nodes
    }
    yield from _two(cluster, networks)
    yield from _none(cluster, networks)


def _two(cluster: Cluster, networks: Mapping[str, list[Network]]) -> Iterator[Finding]:
    """Yield nodes with two gateways: only the route with the lowest metric is used, that of the first network.

    A network of the site next to a network of nodes is no mistake: the route through a node has a higher metric.
    """
    several: dict[tuple[str, ...], list[str]] = {}
    for node in cluster.nodes:
        routed = [network for network in networks[node.name] if network.configure and _is_routed(node, network)]
        for external in (True, False):
            names = tuple(network.name for network in routed if network.external == external)
            if len(names) > 1:
                several.setdefault(names, []).append(node.name)
    for names, nodes in several.items():
        message = f"{fold(nodes)}: default routes on {' and '.join(f'`{name}`' for name in names)}"
        hint = f"only that of `{names[0]}` is used; leave out `gateway` here"
        yield Finding(("networks", names[1], "gateway"), message, hint, severity="warning")


def _none(cluster: Cluster, networks: Mapping[str, list[Network]]) -> Iterator[Finding]:
    """Yield nodes without a gateway whose services need one. Networks that hpcforge leaves alone may have a route."""
    lacking: dict[str, list[str]] = {}
    outside = list(_outside(cluster))
    for node in cluster.nodes:
        mine = networks[node.name]
        if not mine or any(not network.configure or network.gateway for network in mine):
            continue
        for service, address, users in outside:
            if users is None or node.name in users:
                lacking.setdefault(f"{address} ({service})", []).append(node.name)
    if lacking:
        nodes = sorted({name for names in lacking.values() for name in names})
        several = ", ".join(list(lacking)[:4]) + ", ..." * (len(lacking) > 4)
        message = f"{fold(nodes)}: no gateway, and not on their networks: {several}"
        hint = "gateway: an address of this network, or the node on it that routes"
        yield Finding(("networks", cluster.network.name), message, hint, severity="warning", key=True)


def _outside(cluster: Cluster) -> Iterator[tuple[str, str, tuple[str, ...] | None]]:
    """Yield services with addresses that are on no network of the blueprint, and the nodes that use it; None: all."""
    subnets = [ipaddress.IPv4Network(network.cidr) for network in cluster.networks]
    for name, service in cluster.services.items():
        used: list[tuple[str, tuple[str, ...] | None]] = [(address, None) for address in service.external]
        used += [(address, service.on) for address in service.options.get("forward", ())]
        for address, users in used:
            if not address[:1].isdigit():
                continue  # the name may be of a host on these networks
            if not any(ipaddress.IPv4Address(address) in subnet for subnet in subnets):
                yield name, address, users


def _is_routed(node: Node, network: Network) -> bool:
    own = node.addresses.get(network.name, node.address)
    return network.gateway is not None and network.gateway != own


Findings = Iterator[Finding]

_LONGEST = 15  # length of an interface's name in Linux


def interface_findings(cluster: Cluster) -> Findings:
    """Yield errors and missing facts of networks that hpcforge configures on nodes."""
    fabrics = {fabric.name: fabric for fabric in cluster.fabrics}
    shared: dict[str, list[Network]] = {}
    for network in cluster.networks:
        if not network.bmc:
            shared.setdefault(carrier(network), []).append(network)
        elif network.configure:
            yield Finding(
                ("networks", network.name, "configure"), "hpcforge does not configure management controllers", key=True
            )
    configured = {name: networks for name, networks in shared.items() if any(network.configure for network in networks)}
    for name, networks in configured.items():
        wrong = [*_names(networks), *_agreed(networks)] or [*_links(name, networks, fabrics.get(name))]
        yield from wrong or _unknown_ports(cluster, name, networks, fabrics.get(name))
    yield from _one_name_each(cluster, configured)


def _names(networks: Sequence[Network]) -> Findings:
    """Yield interfaces that have no name where they need one, or one that cannot be."""
    for network in networks:
        loc: Loc = ("networks", network.name)
        vlan = "" if network.vlan is None else f".{network.vlan}"
        example = f"interface: {'bond0' if bonded(networks) else 'eth1'}{vlan}"
        if network.interface is None:
            if vlan or bonded(networks):
                subject = "the VLAN's interface" if vlan else "the bond"
                yield Finding((*loc, "configure"), f"{subject} has no name", example, key=True)
        elif len(network.interface) > _LONGEST:
            message = f"{quote(network.interface)} is longer than the {_LONGEST} characters of an interface's name"
            yield Finding((*loc, "interface"), message)
        elif port_below(network) is None:
            message = f"{quote(network.interface)}: parent interface of VLAN {network.vlan} is missing"
            yield Finding((*loc, "interface"), message, f"end it in {vlan}: {example}")


def _agreed(networks: Sequence[Network]) -> Findings:
    """Yield what networks on the same links say otherwise than the first of them."""
    first = next(member for member in networks if member.configure)
    for network in networks:
        loc: Loc = ("networks", network.name)
        if not network.configure:
            message = f"it shares links with `{first.name}`, which hpcforge configures"
            yield Finding(loc, message, "configure: true", key=True)
        if network.bond != first.bond:
            message = f"{network.bond or 'no bond'}, but `{first.name}` on the same links has {first.bond or 'none'}"
            yield Finding((*loc, "bond"), message, "set `bond` of the fabric instead", key=True)
        if None not in (a := port_below(network), b := port_below(first)) and a != b:
            yield Finding(
                (*loc, "interface"), f"its parent interface is {a}, but that of `{first.name}` on the same links is {b}"
            )
        larger = [
            member.name for member in networks if member.vlan is not None and (member.mtu or 0) > (network.mtu or 1_500)
        ]
        if network.vlan is None and larger:
            message = f"the VLAN `{larger[0]}` on the same links has a larger mtu"
            yield Finding((*loc, "mtu"), message, "use the same mtu here", key=True)


def _links(name: str, networks: Sequence[Network], fabric: FabricOf | None) -> Findings:
    """Yield links that cannot form one interface."""
    for network in networks:
        loc: Loc = ("networks", network.name)
        if fabric is None and network.bond:
            yield Finding((*loc, "bond"), "a bond needs a fabric", "set `fabric`", key=True)
        elif fabric and fabric.links > 1 and not network.bond and network.interface not in fabric.interfaces:
            message = f"nodes have {fabric.links} links on {name}, but one address on `{network.name}`"
            hint = "bond: active-backup; or interface: one of the fabric's `interfaces`"
            yield Finding((*loc, "configure"), message, hint, key=True)


def _unknown_ports(cluster: Cluster, name: str, networks: Sequence[Network], fabric: FabricOf | None) -> Findings:
    """Yield nodes without configured ports for their links."""
    links = fabric.links if fabric else 1
    ends = [(node, on_it) for node in cluster.nodes if (on_it := carried(cluster, node).get(name))]
    fabric_of = {node.name: fabric.at(node.name) if fabric else None for node, _ in ends}
    unknown = [
        node.name
        for node, on_it in ends
        if not ports(node, fabric_of[node.name], own_networks(node, fabric_of[node.name], on_it), cluster.network)
    ]
    loc: Loc = ("networks", networks[0].name, "configure")
    if unknown:
        ways = f"interfaces: [{', '.join(f'eth{number}' for number in range(links))}] under fabrics: {name}"
        macs = f"ports: {{{name}: [{', '.join(['52:54:00:..'] * links)}]}} of each node in the inventory"
        hint = f"{ways}; or {macs}" if fabric else "interface: eth1"
        message = (
            f"no ports to {name} are configured for {fold(unknown)}"
            if fabric
            else f"no interface is configured for {fold(unknown)}"
        )
        yield Finding(loc, message, hint, key=True)
    needed = {node: at.links if at else 1 for node, at in fabric_of.items()}
    for count in sorted(set(needed.values())):
        with_count = [node for node, _ in ends if needed[node.name] == count]
        mismatched = [node.name for node in with_count if len(node.ports.get(name, range(count))) != count]
        if mismatched:
            yield Finding(loc, f"the inventory must have {count} `ports` to {name} for {fold(mismatched)}", key=True)
    macs_of_ipoib = [node.name for node, _ in ends if name in node.ports and fabric and fabric.kind == "infiniband"]
    if macs_of_ipoib:
        yield Finding(loc, f"use `interfaces` for ports to {name}: InfiniBand has no MAC addresses", key=True)


def _one_name_each(cluster: Cluster, configured: dict[str, list[Network]]) -> Findings:
    """Yield names that interfaces on different links of one node would share."""
    together = {frozenset(pair) for node in cluster.nodes for pair in combinations(carried(cluster, node), 2)}
    for (name, networks), (second, others) in combinations(configured.items(), 2):
        in_use = {
            interface for network in networks for interface in (network.interface, port_below(network)) if interface
        }
        for network in others if {name, second} in together else ():
            for interface in [
                interface for interface in (port_below(network), network.interface) if interface in in_use
            ][:1]:
                message = f"{interface} is already an interface to {name} on the same nodes"
                yield Finding(("networks", network.name, "interface"), message)


def switch_findings(inventory: Inventory, built: Iterable[Fabric]) -> Iterator[Finding]:
    """Yield switches of the inventory that no fabric has, and ports that a switch does not have."""
    places = {device.name: (fabric, at) for fabric in built for at, device in enumerate(fabric.devices) if device.model}
    names = list(places)
    for name, switch in inventory.switches.items():
        if name not in places:
            hint = did_you_mean(name, names) or "`hpcforge design` lists the names of switches"
            yield Finding(("switches", name), f"{quote(name)} is not a switch of the design", hint, key=True)
        elif switch.ports:
            from hpcforge.design.fabric.graph import PortMaps  # noqa: PLC0415 - few clusters have fabrics

            fabric, at = places[name]
            labels = [port.label for port in PortMaps(fabric).of(at).ports]
            for label in switch.ports.keys() - set(labels):
                message, hint = f"{name} has no port {label}", f"its ports are {labels[0]} to {labels[-1]}"
                yield Finding(("switches", name, "ports", label), message, hint, key=True)
