"""The `networks` section: subnets, what carries each, and who is on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section


class NetworkSection(Section):
    """A subnet."""

    cidr: v.Cidr = Field(description="IPv4 subnet with prefix length, /8 to /30.")
    fabric: v.FabricName | None = Field(
        None, description="The fabric that carries it; addresses that are not given are derived from node names."
    )
    nodes: v.NodeSet | None = Field(
        None, description="Nodes on it, as a node set: a hostlist, a function, all!w03. Default: those of the fabric."
    )
    vlan: Annotated[v.Whole, Field(ge=1, le=4094)] | None = Field(None, description="VLAN number; default: untagged.")
    interface: v.Interface | None = Field(None, description="Name of the workers' interface on it, such as bond0.")
    mtu: Annotated[v.Whole, Field(ge=576, le=65_520)] | None = Field(
        None, description="Largest packet (MTU), bytes; default: the interface's own."
    )
    boot: v.Truth = Field(
        False,
        description="It has the addresses that nodes are installed with. `hpcforge netboot` serves it; this names "
        "the network.",
    )
    bmc: v.Truth | None = Field(
        None, description="It has the nodes' management controllers, not the nodes. Default: true if its name is bmc."
    )
    external: v.Truth = Field(
        False, description="It belongs to the site: only `nodes` are on it, with addresses from the inventory."
    )
    gateway: v.HostOrAddress | None = Field(None, description="The gateway: a node on it, or an IPv4 address in it.")
    bond: Literal["802.3ad", "active-backup"] | None = Field(
        None, description="How a node bonds its links; default: as set in the fabric."
    )
    configure: v.Truth = Field(
        False,
        description="hpcforge configures the nodes' interfaces on it: bond, VLAN, MTU, address and gateway. Default: "
        "hpcforge leaves them as they are.",
    )


class InventoryNetwork(Section):
    """A subnet, where it differs from the blueprint's."""

    cidr: v.Cidr = Field(description="IPv4 subnet with prefix length, /8 to /30.")
