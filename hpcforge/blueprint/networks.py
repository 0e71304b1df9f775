"""The `networks` section: subnets, what carries each, and who is on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section


class Network(Section):
    """A subnet."""

    cidr: v.Cidr = Field(description="IPv4 subnet with prefix length, /8 to /30.")
    fabric: v.FabricName | None = Field(
        None, description="The fabric that carries it; nodes get addresses by their names where none are given."
    )
    nodes: v.NodeSet | None = Field(
        None, description="Nodes on it, as a node set: a hostlist, a function, all!w03. Default: those of the fabric."
    )
    vlan: Annotated[v.Whole, Field(ge=1, le=4094)] | None = Field(None, description="VLAN number; default: untagged.")
    interface: v.Interface | None = Field(
        None, description="What all workers call the interface that has their address on it, as in bond0."
    )
    mtu: Annotated[v.Whole, Field(ge=576, le=65_520)] | None = Field(
        None, description="Largest packet, bytes; default: as interfaces come."
    )
    boot: v.Truth = Field(
        False,
        description="The addresses of nodes are on it, as they have them when they are installed. hpcforge has no PXE "
        "server: this only says which network it is.",
    )
    bmc: v.Truth | None = Field(
        None, description="It has the nodes' management controllers, not the nodes. Default: true if it is called bmc."
    )
    external: v.Truth = Field(
        False, description="It is the site's: only `nodes` are on it, with addresses that the inventory has."
    )
    gateway: v.HostOrAddress | None = Field(
        None, description="The way out: a node that is on it, or an IPv4 address in it."
    )
    bond: Literal["802.3ad", "active-backup"] | None = Field(
        None, description="How a node uses its links together; default: as the fabric says."
    )
    configure: v.Truth = Field(
        False,
        description="hpcforge sets up the nodes' interfaces on it: bond, VLAN, MTU, address and gateway. "
        "Default: they are as the machines come.",
    )


class InventoryNetwork(Section):
    """A subnet, where it differs from the blueprint's."""

    cidr: v.Cidr = Field(description="IPv4 subnet with prefix length, /8 to /30.")
