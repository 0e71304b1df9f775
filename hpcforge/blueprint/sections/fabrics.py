"""The `fabrics` section: what connects the nodes, before a switch is bought.

A fabric says its topology by name and what it is made of; how many switches and cables that takes, and which port goes
where, is computed (`hpcforge.design.fabric`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section

Kind = Literal["infiniband", "roce", "ethernet", "omni-path"]  # as in hpcforge.design.fabric.graph
Topology = Literal["single-switch", "leaf-pair", "fat-tree", "rail-optimised", "dragonfly", "dragonfly+"]
_Rate = Annotated[v.Number, Field(ge=0.1, le=3_200)]
_Links = Annotated[v.Whole, Field(ge=1, le=64)]
_Ratio = Annotated[v.Number, Field(ge=1, le=64)]
_Breakout = Annotated[Literal[1, 2, 4, 8], BeforeValidator(v.whole)]


class Endpoints(Section):
    """Ends that are no workers: subnet managers, storage. Machines outside the blueprint, or nodes of it."""

    count: v.Whole | None = Field(None, ge=1, le=4_096, description="How many machines outside this blueprint.")
    nodes: v.NodeSet | None = Field(None, description="Or nodes of this blueprint, as a node set.")
    links: _Links = Field(1, description="Links of each.")
    rate_gbps: _Rate | None = Field(None, description="Rate of one link of these, Gb/s; default: the fabric's.")
    breakout: _Breakout | None = Field(
        None, description="Links that share one port of a leaf; default: the fabric's, or 1 with a rate of their own."
    )
    cable: Annotated[v.ModelName, v.OfCatalog("cables")] | None = Field(
        None, description="Cable model of their links; default: chosen as for nodes."
    )
    bond: Literal["802.3ad", "active-backup"] | None = Field(
        None, description="How these bond their links, as bond0; default: as nodes."
    )


class Oversubscription(Section):
    """What goes down from a switch divided by what goes up, by tier; 1: nothing is oversubscribed."""

    leaf: _Ratio = Field(1.0, description="Of leaf switches.")
    spine: _Ratio = Field(1.0, description="Of spine switches, where there are three tiers.")


class FabricSection(Section):
    """Switches and cables of one purpose."""

    kind: Kind = Field(description="Link protocol of the switches; roce is lossless Ethernet.")
    rate_gbps: _Rate = Field(description="Rate of one link of a node, Gb/s.")
    topology: Topology = Field(description="How switches are connected; the tiers of a fat-tree follow from its size.")
    switch: Annotated[v.ModelName, v.OfCatalog("switches")] = Field(description="Switch model in the catalog.")
    spine_switch: Annotated[v.ModelName, v.OfCatalog("switches")] | None = Field(
        None, description="Model of spine and core switches; default: the same."
    )
    nodes: v.NodeSet = Field(
        "all", description="Nodes on it, as a node set: all, a function such as worker, a hostlist, all!head."
    )
    rails: _Links | None = Field(None, description="Links of a node, each to its own leaf: rail-optimised only.")
    links: _Links | None = Field(
        None,
        description="Links of a node: to either switch of a leaf pair in turn, else to one leaf where they fit. "
        "Default: 1, of a leaf pair 2.",
    )
    designed_for: v.Whole | None = Field(
        None,
        ge=1,
        le=65_536,
        description="Nodes that the wiring has room for: up to this number, new nodes move no cable. Default: all.",
    )
    oversubscription: Annotated[Oversubscription, v.ShortForm("leaf")] = Field(
        Oversubscription.model_construct(), description="Of the leaf switches, as a number, or by tier. Default: none."
    )
    breakout: _Breakout = Field(1, description="Nodes' links that share one port of a leaf: 1, 2, 4 or 8.")
    cable: Annotated[v.ModelName, v.OfCatalog("cables")] | None = Field(
        None,
        description="Cable model of the nodes' links; default: the first of site.cabling.kinds that reaches and fits.",
    )
    uplink_rate_gbps: _Rate | None = Field(
        None, description="Rate of a link between switches, Gb/s; default: rate_gbps times breakout."
    )
    uplinks: v.Whole | None = Field(
        None, ge=1, le=512, description="Uplinks of each leaf; default: by its oversubscription."
    )
    peer_links: v.Whole | None = Field(
        None, ge=1, le=64, description="Links between the two switches of a leaf pair; default: 2."
    )
    groups: v.Whole | None = Field(
        None, ge=1, le=4_096, description="Groups of a dragonfly; default: the fewest that hold all ends."
    )
    endpoints: dict[v.EndpointName, Endpoints] = Field(
        {}, description="Other endpoints by name: subnet managers, storage."
    )
    subnet_manager: (
        Annotated[str, v.Matches(v.SUBNET_MANAGER, "on-switch, external or the name of a node", "on-switch")] | None
    ) = Field(None, description="Where the subnet manager runs: on-switch, external, or a node of this fabric.")
    interfaces: tuple[v.Interface, ...] = Field(
        (), description="A node's interfaces or adapters in the order of its links; default: as detected."
    )
    dscp: Annotated[v.Whole, Field(ge=0, le=63)] | None = Field(
        None, description="DSCP value that marks RDMA in IP headers, as the switches expect it; roce only. Default: 26."
    )
    priority: Annotated[v.Whole, Field(ge=0, le=7)] | None = Field(
        None, description="The lossless Ethernet priority (PFC) for RDMA; roce only. Default: 3."
    )
    switches_in: tuple[v.RackHostlist, ...] = Field((), description="Racks that the switches go into, in this order.")
    bond: Literal["802.3ad", "active-backup"] | None = Field(
        None, description="How a node bonds its links; default: not at all."
    )
