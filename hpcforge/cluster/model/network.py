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
    fabric: str | None = None  # the fabric that carries it; None: not set
    interface: str | None = None  # its name on all workers; None: not set
    vlan: int | None = None  # None: untagged
    mtu: int | None = None  # bytes; None: the interface's default
    boot: bool = False  # the blueprint puts the addresses of nodes on it; nothing is served for this
    bmc: bool = False  # management controllers are on it, not nodes
    external: bool = False  # the site runs it
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
    bond: Literal["802.3ad", "active-backup"] | None  # None: the mode of its networks


@dataclass(frozen=True)
class FabricOf:
    """A fabric as nodes see it; `hpcforge.design.fabric.graph.Fabric` has its switches and cables."""

    name: str
    kind: Literal["infiniband", "roce", "ethernet", "omni-path"]
    rate_gbps: float  # rate of one link
    links: int  # links of a node
    bmc: bool  # its links belong to management controllers, and so do its networks
    rails: bool = False  # each link of a node has its own switches, and traffic between rails is slower
    interfaces: tuple[str, ...] = ()  # a node's adapters or interfaces, in the order of its links; (): not set
    bond: Literal["802.3ad", "active-backup"] | None = None
    dscp: int | None = None  # roce: the mark of RDMA in IP headers
    priority: int | None = None  # roce: the lossless Ethernet priority
    subnet_manager: str | None = None  # on-switch, external or a node; None: not set, or the fabric has none
    own_links: tuple[OwnLinks, ...] = ()  # links of nodes that differ

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
        """True if its adapters write to each other's memory by verbs."""
        return self.kind in ("infiniband", "roce")

    @property
    def lldp(self) -> bool:
        """True if nodes see its cables by LLDP."""
        return self.kind in ("ethernet", "roce") and not self.bmc
