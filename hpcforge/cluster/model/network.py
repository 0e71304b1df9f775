"""Networks, and fabrics as nodes are plugged into them."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Network:
    """One subnet."""

    name: str
    cidr: str
    fabric: str | None = None  # that carries it; None: not said
    interface: str | None = None  # what all workers call theirs; None: not said
    vlan: int | None = None  # None: untagged
    mtu: int | None = None  # bytes; None: as interfaces come
    boot: bool = False  # the addresses of nodes are on it, by the blueprint; nothing is served for it
    bmc: bool = False  # it has the management controllers, not the nodes
    external: bool = False  # the site's
    gateway: str | None = None  # an address
    bond: Literal["802.3ad", "active-backup"] | None = None
    configure: bool = False  # hpcforge sets up the nodes' interfaces on it

    @property
    def netmask(self) -> str:
        """Its size as a mask, `255.255.254.0`."""
        return str(ipaddress.IPv4Network(self.cidr).netmask)


@dataclass(frozen=True)
class OwnLinks:
    """The links of a node that differ from those of a fabric's other nodes."""

    node: str
    links: int
    rate_gbps: float
    bond: Literal["802.3ad", "active-backup"] | None  # None: as the networks on it


@dataclass(frozen=True)
class FabricOf:
    """A fabric as nodes see it; `hpcforge.design.fabric.graph.Fabric` has its switches and cables."""

    name: str
    kind: Literal["infiniband", "roce", "ethernet", "omni-path"]
    rate_gbps: float  # of one link
    links: int  # of a node
    bmc: bool  # its links are those of management controllers: all its networks are
    rails: bool = False  # each link of a node goes to switches of its own, and from rail to rail it is slower
    interfaces: tuple[str, ...] = ()  # a node's adapters or interfaces, in the order of its links; none: not said
    bond: Literal["802.3ad", "active-backup"] | None = None
    dscp: int | None = None  # what marks RDMA in IP headers, of roce
    priority: int | None = None  # the Ethernet priority that is not dropped, of roce
    subnet_manager: str | None = None  # on-switch, external or a node; None: not said, or it has none
    own_links: tuple[OwnLinks, ...] = ()  # of nodes that differ

    def own(self, node: str) -> OwnLinks | None:
        """Return the links of a node that differ from those of others."""
        return next((links for links in self.own_links if links.node == node), None)

    def at(self, node: str) -> FabricOf:
        """Return the fabric with the links of one node."""
        own = self.own(node)
        if own is None:
            return self
        interfaces = self.interfaces if own.links == self.links else ()
        return replace(
            self, links=own.links, rate_gbps=own.rate_gbps, bond=own.bond or self.bond, interfaces=interfaces
        )

    @property
    def rdma(self) -> bool:
        """Whether its adapters write to each other's memory by verbs."""
        return self.kind in ("infiniband", "roce")

    @property
    def lldp(self) -> bool:
        """Whether nodes see its cables by LLDP."""
        return self.kind in ("ethernet", "roce") and not self.bmc
