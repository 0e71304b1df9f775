"""The `fabrics` section: the links between nodes, before a switch is bought.

A fabric has the name of its topology and its parts. The number of switches and cables, and the port of each cable, are
computed (`hpcforge.design.fabric`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.site import unknown_racks
from hpcforge.blueprint.validate import Draft, Finding

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

    leaf: _Ratio = Field(1.0, description="Ratio of leaf switches.")
    spine: _Ratio = Field(1.0, description="Ratio of spine switches, with three tiers.")


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
        Oversubscription.model_construct(),
        description="Ratio of the leaf switches, as a number, or by tier. Default: none.",
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


# Errors of `fabrics` in itself, and against nodes and racks. Pure.


Findings = Iterator[Finding]
Reference = Callable[[Loc, Iterable[str]], Findings]  # yields the names that are not nodes of the blueprint
NodeSet = Callable[[Loc, str], tuple[tuple[str, ...] | None, list[Finding]]]  # gives the nodes of a set and its errors

_TREES = ("fat-tree", "rail-optimised", "dragonfly+")
# Keys for some topologies only.
_ONLY: dict[str, tuple[str, ...]] = {
    "rails": ("rail-optimised",),
    "links": ("single-switch", "leaf-pair", "fat-tree", "dragonfly", "dragonfly+"),
    "oversubscription": _TREES,
    "uplinks": _TREES,
    "peer_links": ("leaf-pair",),
    "groups": ("dragonfly", "dragonfly+"),
    "spine_switch": _TREES,
}


def fabric_findings(draft: Draft, reference: Reference, node_set: NodeSet) -> Iterator[Finding]:
    """Yield what fabrics say wrongly."""
    fabrics: dict[str, FabricSection] = draft.sections["fabrics"] or {}
    for name, fabric in fabrics.items():
        loc = ("fabrics", name)
        if not draft.intact(*loc):
            continue
        yield from _keys(loc, fabric)
        yield from node_set((*loc, "nodes"), fabric.nodes)[1]
        yield from _endpoints(loc, fabric, node_set)
        yield from _subnet_manager(loc, fabric, reference)
        if draft.keys_intact("site", "racks"):
            yield from _racks(loc, fabric, draft)


def _keys(loc: Loc, fabric: FabricSection) -> Findings:
    """Yield keys that do not belong to the topology, and missing ones."""
    for key, topologies in _ONLY.items():
        if key in fabric.model_fields_set and fabric.topology not in topologies:
            supported = topologies[0] if len(topologies) == 1 else f"{', '.join(topologies[:-1])} or {topologies[-1]}"
            hint = "say `rails`" if key == "links" else f"it is for {supported}"
            yield Finding((*loc, key), f"a {fabric.topology} has no {quote(key)}", hint, key=True)
    if fabric.topology == "rail-optimised" and fabric.rails is None:
        yield Finding(loc, "`rails` is missing", "the number of links of a node, each to its own leaf", key=True)
    if fabric.topology == "leaf-pair" and fabric.links == 1:
        yield Finding((*loc, "links"), "a leaf pair needs a link of each node to either switch", "links: 2")
    links = fabric.rails or fabric.links or (2 if fabric.topology == "leaf-pair" else 1)
    most = max([links, *(ends.links for ends in fabric.endpoints.values() if not ends.bond)])
    yield from _bond(loc, fabric, fabric.bond, most)
    for name, ends in fabric.endpoints.items():
        yield from _bond((*loc, "endpoints", name), fabric, ends.bond, ends.links)
    if fabric.kind != "roce":
        for key in ("dscp", "priority"):
            if key in fabric.model_fields_set:
                yield Finding((*loc, key), f"{fabric.kind} has no {quote(key)}", "it is for roce", key=True)
    if fabric.interfaces and len(fabric.interfaces) != links:
        yield Finding((*loc, "interfaces"), f"{len(fabric.interfaces)} interfaces for {links} links", key=True)
    if fabric.uplinks is not None and "oversubscription" in fabric.model_fields_set:
        message = "`uplinks` and `oversubscription` set the same thing"
        yield Finding((*loc, "uplinks"), message, "set one", key=True)


def _bond(loc: Loc, fabric: FabricSection, bond: str | None, links: int) -> Findings:
    if bond and links < 2:
        yield Finding((*loc, "bond"), "a bond needs two links, and `links` is 1", "links: 2", key=True)
    if bond == "802.3ad" and fabric.kind in ("infiniband", "omni-path"):
        yield Finding((*loc, "bond"), f"{fabric.kind} cannot bond by 802.3ad", "bond: active-backup")


def _endpoints(loc: Loc, fabric: FabricSection, node_set: NodeSet) -> Findings:
    owner: dict[str, str] = {}
    for name, ends in fabric.endpoints.items():
        ends_loc = (*loc, "endpoints", name)
        if (ends.count is None) == (ends.nodes is None):
            message = f"{quote(name)} needs one of `count` and `nodes`, not {'both' if ends.count else 'neither'}"
            yield Finding(
                ends_loc, message, "count: machines outside this blueprint; nodes: nodes of this blueprint", key=True
            )
        if ends.nodes is None:
            continue
        names, wrong = node_set((*ends_loc, "nodes"), ends.nodes)
        yield from wrong
        twice = [node for node in names or () if owner.setdefault(node, name) != name]
        if twice:
            yield Finding((*ends_loc, "nodes"), f"{hostlist.fold(twice)} is also in {quote(owner[twice[0]])}")


def _subnet_manager(loc: Loc, fabric: FabricSection, reference: Reference) -> Findings:
    manager, manager_loc = fabric.subnet_manager, (*loc, "subnet_manager")
    if manager is None:
        return
    if fabric.kind not in ("infiniband", "omni-path"):
        yield Finding(
            manager_loc, f"{fabric.kind} has no subnet manager", "it is for infiniband and omni-path", key=True
        )
    elif manager not in ("on-switch", "external"):
        yield from reference(manager_loc, (manager,))


def _racks(loc: Loc, fabric: FabricSection, draft: Draft) -> Findings:
    racks = {name for key in draft.keys("site", "racks") for name in hostlist.expand(key)}
    listed: set[str] = set()
    for index, text in enumerate(fabric.switches_in):
        rack_loc = (*loc, "switches_in", index)
        names = hostlist.expand(text)
        unknown = [name for name in names if name not in racks]
        if unknown:
            yield unknown_racks(rack_loc, unknown, racks)
        twice = [name for name in names if name in listed]
        if twice:
            yield Finding(rack_loc, f"rack {hostlist.fold(twice)} is named twice")
        listed.update(names)


def unknown_models(draft: Draft, switches: Iterable[str], cables: Iterable[str]) -> Findings:
    """Yield models of switches and cables that neither the catalog nor the blueprint has."""
    fabrics: dict[str, FabricSection] = draft.sections["fabrics"] or {}
    names = {"switch": set(switches), "cable": set(cables)} if fabrics else {}  # else files are read for nothing
    for name, fabric in fabrics.items():
        models: list[tuple[Loc, str | None]] = [(("switch",), fabric.switch), (("spine_switch",), fabric.spine_switch)]
        models += [(("cable",), fabric.cable)]
        models += [(("endpoints", group, "cable"), ends.cable) for group, ends in fabric.endpoints.items()]
        for key, model in models:
            kind = "cable" if key[-1] == "cable" else "switch"
            if model is not None and model not in names[kind] and draft.intact("fabrics", name, *key):
                message = f"{quote(model)} is not a {kind} model of the catalog or of this blueprint"
                yield Finding(("fabrics", name, *key), message, did_you_mean(model, sorted(names[kind])))
