"""The network interfaces of nodes that a blueprint asks hpcforge to set up: ports, bonds, VLANs. Pure.

Networks share a *carrier*: the links of a fabric, or one port that belongs to none. This module merges the settings of
all networks on a carrier, for the role `networks` and for the network cards of lab machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from hpcforge.cluster.model.network import FabricOf, Network
    from hpcforge.cluster.model.node import Node

DATAGRAM_MTU = 4_092  # the largest MTU of IPoIB in datagram mode, bytes


class NetworksAndFabrics(Protocol):
    """The networks and fabrics of a cluster."""

    @property
    def network(self) -> Network:
        """The network of node addresses."""

    @property
    def networks(self) -> tuple[Network, ...]:
        """All of them, `network` first."""

    @property
    def fabrics(self) -> tuple[FabricOf, ...]:
        """Fabrics that nodes are plugged into."""


@dataclass(frozen=True)
class Interface:
    """A port, bond or VLAN of a node, as configured in systemd-networkd."""

    kind: Literal["port", "bond", "vlan"]
    name: str | None = None  # None: a port that only its MAC address identifies
    mac: str | None = None  # permanent address of a port; a bond has that of its first port; None: not known
    mode: Literal["802.3ad", "active-backup"] | None = None  # mode of a bond
    bond: str | None = None  # the bond of a port
    vlan: int | None = None
    vlans: tuple[str, ...] = ()  # VLAN interfaces on top of it
    mtu: int | None = None  # bytes; None: the interface's default
    address: str | None = None  # with prefix length
    gateway: str | None = None
    metric: int = 0  # metric of its default route: the lowest one is used
    ipoib: Literal["datagram", "connected"] | None = None  # None: Ethernet

    @property
    def label(self) -> str:
        """The label of its files."""
        return self.name or (self.mac or "").replace(":", "")


def port_below(network: Network) -> str | None:
    """Return the parent of a network's interface, or the interface itself: `bond0` for `bond0.20` in VLAN 20."""
    if network.interface is None or network.vlan is None:
        return network.interface
    below = network.interface.removesuffix(f".{network.vlan}")
    return below if below != network.interface else None


def carrier(network: Network) -> str:
    """Return the carrier of a network: a fabric, a port, or the network's own name if neither is set."""
    return network.fabric or port_below(network) or network.name


def is_on(cluster: NetworksAndFabrics, node: Node, network: Network) -> bool:
    """Return whether a node, and not its management controller, has an address on a network."""
    return not network.bmc and (network.name == cluster.network.name or network.name in node.addresses)


def carried(cluster: NetworksAndFabrics, node: Node) -> dict[str, tuple[Network, ...]]:
    """Return the networks that a node is on, by carrier; the carrier of its own address first."""
    by_carrier: dict[str, tuple[Network, ...]] = {}
    for network in cluster.networks:
        if is_on(cluster, node, network):
            by_carrier[carrier(network)] = (*by_carrier.get(carrier(network), ()), network)
    return by_carrier


def ports(node: Node, fabric: FabricOf | None, networks: Sequence[Network], main: Network) -> tuple[Interface, ...]:
    """Return a node's ports on a carrier, in the order of links; none if they are not configured."""
    links = fabric.links if fabric else 1
    if fabric and fabric.name in node.ports:
        configured = tuple(Interface("port", mac=mac) for mac in node.ports[fabric.name])
    elif fabric and fabric.interfaces:
        configured = tuple(Interface("port", name) for name in fabric.interfaces)
    elif bonded(networks) or links > 1:
        return ()
    elif name := next(filter(None, map(port_below, networks)), None):
        configured = (Interface("port", name),)
    else:
        configured = (Interface("port", mac=node.mac),) if node.mac and main in networks else ()
    if bonded(networks) or links == 1:
        return configured
    return tuple(
        interface for interface in configured if interface.name in {port_below(network) for network in networks}
    )


def bonded(networks: Sequence[Network]) -> Literal["802.3ad", "active-backup"] | None:
    """Return how a node combines the links of a carrier; None: it uses each by itself."""
    return next((network.bond for network in networks if network.bond), None)


def own_networks(node: Node, fabric: FabricOf | None, networks: tuple[Network, ...]) -> tuple[Network, ...]:
    """Return networks as a node has them: those of a node that bonds by itself are on bond0."""
    own = fabric.own(node.name) if fabric else None
    if own is None or own.bond is None:
        return networks
    names = ("bond0" if network.vlan is None else f"bond0.{network.vlan}" for network in networks)
    pairs = zip(networks, names, strict=True)
    return tuple(replace(network, interface=name, bond=own.bond) for network, name in pairs)


def interfaces(cluster: NetworksAndFabrics, node: Node) -> tuple[Interface, ...]:
    """Return the interfaces that hpcforge sets up on a node, parents first; none unless the blueprint requests it."""
    fabrics = {fabric.name: fabric.at(node.name) for fabric in cluster.fabrics}
    configured = {
        name: networks
        for name, networks in carried(cluster, node).items()
        if any(network.configure for network in networks)
    }
    return tuple(
        interface
        for name, networks in configured.items()
        for interface in _carrier_interfaces(cluster, node, fabrics.get(name), networks)
    )


def _carrier_interfaces(
    cluster: NetworksAndFabrics, node: Node, fabric: FabricOf | None, networks: tuple[Network, ...]
) -> Iterator[Interface]:
    networks = own_networks(node, fabric, networks)
    mode = bonded(networks)
    below = ports(node, fabric, networks, cluster.network)
    mtu = max((network.mtu for network in networks if network.mtu), default=None)
    ipoib = _ipoib(fabric, mtu)
    plain = next((network for network in networks if network.vlan is None), None)
    vlans = tuple(network.interface or "" for network in networks if network.vlan is not None)
    if mode:
        name = next(filter(None, map(port_below, networks)), None)
        yield from (replace(port, bond=name, mtu=mtu, ipoib=ipoib) for port in below)
        below = (Interface("bond", name, below[0].mac if below else None, mode),)
    for interface in below:
        complete = replace(interface, vlans=vlans, mtu=mtu, ipoib=ipoib)
        yield _addressed(cluster, node, plain, complete) if plain else complete
    for network in networks:
        if network.vlan is not None:
            vlan = Interface("vlan", network.interface, vlan=network.vlan, mtu=network.mtu)
            yield _addressed(cluster, node, network, vlan)


def _addressed(cluster: NetworksAndFabrics, node: Node, network: Network, interface: Interface) -> Interface:
    address = node.address if network.name == cluster.network.name else node.addresses[network.name]
    order = sorted(
        cluster.networks, key=lambda network: not network.external
    )  # a route of the site comes before a route through a node
    return replace(
        interface,
        address=f"{address}/{network.cidr.partition('/')[2]}",
        gateway=network.gateway if network.gateway != address else None,
        metric=100 + [network.name for network in order].index(network.name),
    )


def _ipoib(fabric: FabricOf | None, mtu: int | None) -> Literal["datagram", "connected"] | None:
    if fabric is None or fabric.kind != "infiniband":
        return None
    return "connected" if mtu and mtu > DATAGRAM_MTU else "datagram"
