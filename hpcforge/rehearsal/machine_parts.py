"""What a machine of a lab is made with, as its blueprint declares it: network cards and drives. Pure."""

from __future__ import annotations

from hpcforge.blueprint.hardware import Server
from hpcforge.blueprint.values import counted
from hpcforge.cluster.interfaces import bonded, carried, own_networks, port_below
from hpcforge.cluster.model import Cluster, Node
from hpcforge.rehearsal.lab_facts import Card

_MOST_DRIVES = 8  # of a machine of a lab
_EMULATED = ("ethernet", "roce")  # the latter as the Ethernet that it is


def cards(cluster: Cluster, node: Node) -> tuple[Card, ...]:
    """A card for each link that carries networks of a node; the first is on the lab's own segment."""
    fabrics = {fabric.name: fabric.at(node.name) for fabric in cluster.fabrics}
    found: list[Card] = []
    for name, shared in carried(cluster, node).items():
        fabric = fabrics.get(name)
        own = cluster.network in shared
        networks = own_networks(node, fabric, shared)
        if fabric and fabric.kind not in _EMULATED and not own:
            continue
        below = next(filter(None, map(port_below, networks)), "")
        names = (fabric.interfaces if fabric else ()) or ("" if bonded(networks) else below,)
        links = fabric.links if fabric else 1
        padded = (*names, *("" for _ in range(links)))[:links]
        found += (Card(interface, "" if own else name) for interface in padded)
    return tuple(found)


def drives(server: Server) -> int:
    """How many drives a machine has beside its disk, of those that its hardware declares."""
    return min(_MOST_DRIVES, sum(count for count, _ in map(counted, server.nvme)))
