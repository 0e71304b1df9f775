"""From what is asked to a fabric: every switch, port and cable. Pure.

Where a node is plugged in is a function of its place in the order of nodes and of `designed_for`, so that filling up
moves no cable. Other ends take what the nodes, all there is to be room for, leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product

from hpcforge.fabric import dragonfly
from hpcforge.fabric.ask import Ask, CannotBuildError
from hpcforge.fabric.graph import Fabric
from hpcforge.fabric.sizes import Leaf, chunks, leaf, spine_down
from hpcforge.fabric.tree import Places, tree
from hpcforge.fabric.wiring import Port, Wiring, end_port, switches, up_port


def build(ask: Ask) -> Fabric:
    """Return the fabric. Raises CannotBuildError with the bound that is in the way."""
    if ask.topology == "single-switch":
        return _single(ask)
    if ask.topology == "leaf-pair":
        return _pair(ask)
    if ask.topology == "fat-tree" or (ask.topology == "rail-optimised" and ask.rails == 1):
        return _fat_tree(ask)
    if ask.topology == "rail-optimised":
        return _rails(ask)
    return dragonfly.build(ask)


def _single(ask: Ask, notes: tuple[str, ...] = ()) -> Fabric:
    most = ask.leaf.end_ports * ask.breakout
    if ask.slots > most:
        arithmetic = f"{_slots(ask)} > {most} of {ask.leaf.name}"
        raise CannotBuildError("FABRIC-001", "one switch does not take all ends", arithmetic, "topology: fat-tree")
    wiring = Wiring(ask, switches(ask, "leaf", [(None, None)], ask.leaf))
    wiring.plug_ends((0, end_port(ask.leaf, slot)) for slot in range(len(ask.nodes) * ask.rails))
    wiring.plug_endpoints((0, end_port(ask.leaf, slot)) for slot in range(ask.room * ask.rails, ask.slots))
    return wiring.fabric(1, ask.leaf.end_ports, notes)


def _slots(ask: Ask) -> str:
    """How many links of ends there are: `95 nodes x 8 + 4`."""
    other = f" + {ask.other_links} other" if ask.other_links else ""
    return f"{ask.room:,} nodes x {ask.rails}{other} = {ask.slots:,} links"


def _pair(ask: Ask) -> Fabric:
    """Two leaves: link 1 of a node to the first, link 2 to the second, and so on in turn; peer links between them."""
    model, peers = ask.leaf, ask.peer_links
    down = model.end_ports - (peers if model.shared else 0)
    per_leaf = -(-ask.room * ask.rails // 2) + -(-ask.other_links // 2)
    if peers > model.up_ports or down <= 0:
        raise CannotBuildError("FABRIC-001", "too many peer links", f"{peers} > {model.up_ports} ports of {model.name}")
    if per_leaf > down * ask.breakout:
        arithmetic = (
            f"{_slots(ask)}, {per_leaf} a leaf > {down * ask.breakout} beside {peers} peer links of {model.name}"
        )
        hint = "topology: fat-tree, or a larger switch"
        raise CannotBuildError("FABRIC-001", "two switches do not take all ends", arithmetic, hint)
    wiring = Wiring(ask, switches(ask, "leaf", [(0, None), (0, None)], model))
    links = range(len(ask.nodes) * ask.rails)
    wiring.plug_ends((link % 2, end_port(model, link // 2)) for link in links)
    first = ask.room * ask.rails
    wiring.plug_endpoints((link % 2, end_port(model, link // 2)) for link in range(first, first + ask.other_links))
    one, two = wiring.first_leaf, wiring.first_leaf + 1
    ports = [up_port(ask, down, link) for link in range(peers)]
    wiring.add("peer", ((one, port, two, port) for port in ports))
    return wiring.fabric(1, down)


def _fat_tree(ask: Ask) -> Fabric:
    """Ends fill leaf after leaf; one leaf alone is a single switch."""
    if ask.slots <= ask.leaf.end_ports * ask.breakout:
        return _single(ask, (f"one {ask.leaf.name} takes all {ask.slots} links: a single switch, no spines",))
    share = leaf(ask)
    count = -(-ask.slots // share.ends)
    size = chunks(count, max(1, spine_down(ask)))
    groups = [list(range(first, min(first + size, count))) for first in range(0, count, size)]

    def port(slot: int) -> Port:
        return slot // share.ends, end_port(ask.leaf, slot % share.ends)

    places = Places(
        units=(None,) * count,
        rails=(None,) * count,
        groups=groups,
        ends=map(port, range(len(ask.nodes) * ask.rails)),
        others=map(port, range(ask.room * ask.rails, ask.slots)),
    )
    return tree(ask, share, places, _slots(ask))


def _rails(ask: Ask) -> Fabric:
    """Units of as many nodes as a leaf takes; rail r of all nodes of a unit goes to the unit's leaf r.

    Other ends take the ports that the last unit leaves, one a leaf in turn, then leaves of their own.
    """
    share, rails = leaf(ask), ask.rails
    units = -(-ask.room // share.ends)
    in_last = ask.room - (units - 1) * share.ends
    own = -(-max(0, ask.other_links - (share.ends - in_last) * rails) // share.ends)
    size = chunks(units, max(1, spine_down(ask)))
    groups = [
        [unit * rails + rail for unit in range(first, min(first + size, units))]
        for first, rail in product(range(0, units, size), range(rails))
    ]
    _add_own(groups, range(units * rails, units * rails + own), spine_down(ask))
    nodes = range(len(ask.nodes))
    places = Places(
        units=(*(unit for unit in range(units) for _ in range(rails)), *(None,) * own),
        rails=(*(rail for _ in range(units) for rail in range(rails)), *(None,) * own),
        groups=groups,
        ends=(
            (node // share.ends * rails + rail, end_port(ask.leaf, node % share.ends))
            for node, rail in product(nodes, range(rails))
        ),
        others=_others(ask, share, units, in_last),
    )
    return tree(ask, share, places, _slots(ask))


def _others(ask: Ask, share: Leaf, units: int, in_last: int) -> Iterator[Port]:
    """Leaf ports for other ends: what the last unit leaves, then leaves of their own."""
    last, after = (units - 1) * ask.rails, units * ask.rails
    left = ((last + rail, slot) for slot, rail in product(range(in_last, share.ends), range(ask.rails)))
    own = (divmod(link, share.ends) for link in range(ask.other_links))
    ports = chain(left, ((after + number, slot) for number, slot in own))
    return ((leaf_, end_port(ask.leaf, slot)) for (leaf_, slot), _ in zip(ports, range(ask.other_links), strict=False))


def _add_own(groups: list[list[int]], own: range, most: int) -> None:
    """Put leaves without a rail where there is most room; a group of their own where there is none."""
    for number in own:
        smallest = min(groups, key=len)
        if len(smallest) < most:
            smallest.append(number)
        else:
            groups.append([number])
