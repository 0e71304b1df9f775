"""The `networks` section: subnets, the carrier of each, and its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from hpcforge.blueprint import hostlist
from hpcforge.blueprint import values as v
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.section import Section
from hpcforge.blueprint.sections.fabrics import FabricSection, NodeSet, Reference
from hpcforge.blueprint.validate import Draft, Finding


class NetworkSection(Section):
    """A subnet."""

    cidr: v.Cidr = Field(description="IPv4 subnet with prefix length, /8 to /30.")
    fabric: v.FabricName | None = Field(
        None, description="The fabric that carries it; missing addresses are derived from node names."
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


# Errors of `networks` in itself, and against fabrics and nodes. Addresses are checked later, when all are known. Pure.


Findings = Iterator[Finding]

# The largest IP packet, bytes. InfiniBand: its 4 KiB MTU less 4 bytes of header in datagram mode (RFC 4391); connected
# mode takes up to 65,520 (Linux, drivers/infiniband/ulp/ipoib). Ethernet: the jumbo frames of data-centre switches
# (9,216 bytes: Spectrum). Omni-Path: its 10 KiB less 4 (Omni-Path Performance Tuning User Guide).
LARGEST_MTU = {"infiniband": 4_092, "roce": 9_216, "ethernet": 9_216, "omni-path": 10_236}
_MTU_CONNECTED = 65_520
_NO_VLANS = ("infiniband", "omni-path")


def is_bmc(name: str, network: NetworkSection) -> bool:
    """Return whether a network is that of management controllers."""
    return name == "bmc" if network.bmc is None else network.bmc


def primary(networks: Mapping[str, NetworkSection], fabrics: Mapping[str, FabricSection]) -> str | None:
    """Return the network that the addresses of nodes are on; None where that is not clear.

    The only one; else of those for nodes that are not the site's the one with `boot`, or the only one, or
    the only one on Ethernet.
    """
    if len(networks) == 1:
        return next(iter(networks))
    ours = {name: network for name, network in networks.items() if not network.external and not is_bmc(name, network)}
    booting = [name for name, network in ours.items() if network.boot]
    wired = [
        name for name, network in ours.items() if network.fabric is None or _kind(network, fabrics) not in _NO_VLANS
    ]
    return next((candidates[0] for candidates in (booting, list(ours), wired) if len(candidates) == 1), None)


def _kind(network: NetworkSection, fabrics: Mapping[str, FabricSection]) -> str | None:
    fabric = fabrics.get(network.fabric or "")
    return fabric.kind if fabric else None


def network_findings(draft: Draft, reference: Reference, node_set: NodeSet) -> Iterator[Finding]:
    """Yield what networks say wrongly."""
    networks: dict[str, NetworkSection] = draft.sections["networks"] or {}
    fabrics: dict[str, FabricSection] = draft.sections["fabrics"] or {}
    for name, network in networks.items():
        if not draft.intact("networks", name):
            continue
        loc = ("networks", name)
        if network.nodes is not None:
            yield from node_set((*loc, "nodes"), network.nodes)[1]
        if network.gateway and not network.gateway[0].isdigit():
            yield from reference((*loc, "gateway"), (network.gateway,))
        yield from _purpose(loc, name, network)
        if network.fabric is not None and network.fabric not in draft.keys("fabrics"):
            hint = did_you_mean(network.fabric, draft.keys("fabrics")) or "name it under `fabrics`"
            yield Finding((*loc, "fabric"), f"{quote(network.fabric)} is not a fabric of this blueprint", hint)
        if network.fabric in fabrics and draft.intact("fabrics", network.fabric):
            yield from _carried(loc, network, fabrics[network.fabric])
            yield from _without_link(loc, network, fabrics[network.fabric], node_set)
    if draft.intact("networks"):
        yield from _together(networks, fabrics)


def _without_link(loc: Loc, network: NetworkSection, fabric: FabricSection, node_set: NodeSet) -> Findings:
    """Yield nodes that a network names, and its fabric does not have."""
    sets = [fabric.nodes, *(ends.nodes for ends in fabric.endpoints.values() if ends.nodes)]
    linked = [node_set((), text)[0] for text in sets]
    names = node_set((), network.nodes)[0] if network.nodes is not None else ()
    if names and all(nodes is not None for nodes in linked):
        without = [name for name in names if not any(name in nodes for nodes in linked if nodes)]
        if without:
            message = f"{hostlist.fold(without)} {'has' if len(without) == 1 else 'have'} no link to {network.fabric}"
            hint = f"leave them out here, or add them to `fabrics.{network.fabric}`"
            yield Finding((*loc, "nodes"), message, hint)


def _purpose(loc: Loc, name: str, network: NetworkSection) -> Findings:
    if network.external and network.nodes is None:
        yield Finding(
            loc, "`nodes` is missing: the nodes on this network of the site", 'nodes: "head01,login01"', key=True
        )
    if network.boot and (network.external or is_bmc(name, network)):
        purpose = "the site's" if network.external else "for management controllers"
        yield Finding((*loc, "boot"), f"the addresses of nodes cannot be on a network that is {purpose}", key=True)


def _carried(loc: Loc, network: NetworkSection, fabric: FabricSection) -> Findings:
    """Yield what a fabric cannot carry."""
    if network.vlan is not None and fabric.kind in _NO_VLANS:
        yield Finding(
            (*loc, "vlan"), f"{fabric.kind} has no VLANs", "its partitions are set in the subnet manager", key=True
        )
    if network.mtu is not None and network.mtu > LARGEST_MTU[fabric.kind]:
        connected = fabric.kind == "infiniband" and network.mtu <= _MTU_CONNECTED
        yield Finding(
            (*loc, "mtu"),
            f"{network.mtu} bytes are more than the largest packet of {fabric.kind}, {LARGEST_MTU[fabric.kind]}",
            "larger packets need connected mode, which excludes the adapters' acceleration" if connected else None,
            severity="warning" if connected else "error",
        )
    links = fabric.rails or fabric.links or (2 if fabric.topology == "leaf-pair" else 1)
    if network.bond and links < 2:
        yield Finding((*loc, "bond"), f"a bond needs two links, and nodes have {links} on {network.fabric}", key=True)
    if network.bond == "802.3ad" and fabric.kind in _NO_VLANS:
        yield Finding((*loc, "bond"), f"{fabric.kind} cannot bond by 802.3ad", "bond: active-backup")


def _together(networks: Mapping[str, NetworkSection], fabrics: Mapping[str, FabricSection]) -> Findings:
    """Yield what networks say of one cable that cannot be true of both, and that none is for nodes."""
    first_by_cable: dict[tuple[str, int | None], str] = {}
    for name, network in networks.items():
        if network.fabric is None:
            continue
        first = first_by_cable.setdefault((network.fabric, network.vlan), name)
        if first != name:
            tag = "untagged" if network.vlan is None else f"in VLAN {network.vlan}"
            yield Finding(
                ("networks", name, "fabric" if network.vlan is None else "vlan"),
                f"`{first}` and `{name}` are both {tag} on {network.fabric}: each hears the other's broadcasts",
                "give one a VLAN of its own" if _kind(network, fabrics) not in _NO_VLANS else "one subnet a fabric",
                severity="warning" if network.vlan is None else "error",
            )
    if primary(networks, fabrics) is None:
        booting = [name for name, network in networks.items() if network.boot]
        message = f"{', '.join(booting)} all have `boot: true`" if len(booting) > 1 else "none has `boot: true`"
        hint = "set `boot: true` on the network of all nodes; `hpcforge netboot serve` serves it"
        yield Finding(("networks",), f"the network of the nodes' addresses is not clear: {message}", hint, key=True)
