"""Build a fabric from its request: every switch, port and cable. Pure.

Where a node is plugged in is a function of its place in the order of nodes and of `designed_for`, so that filling up
moves no cable. Other ends take the ports that remain after all nodes, present and future.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

from hpcforge.design.fabric.graph import Fabric, PortBlock
from hpcforge.design.fabric.sizes import Leaf, chunks, leaf, spine_down, spines_below_cores
from hpcforge.design.fabric.spec import Ask, CannotBuildError
from hpcforge.design.fabric.tree import Places, tree, uplinks
from hpcforge.design.fabric.wiring import Port, Wiring, end_port, reserve, switches, up_port


def build(ask: Ask) -> Fabric:
    """Return the fabric. Raises CannotBuildError with the bound that is exceeded.

    Ends with ports of their own are spread over as many leaves as the other ends take, or over all leaves if their
    ports make it more.
    """
    shared = tuple(end for end in ask.endpoints if end.own is None)
    fabric = _build(replace(ask, endpoints=shared))
    if shared == ask.endpoints:
        return fabric
    leaves = fabric.count("leaf")
    fabric = _build(reserve(ask, leaves))
    most = fabric.count("leaf")
    wider = _build(reserve(ask, most)) if most > leaves else fabric
    chosen = wider if wider.count("leaf") >= most else fabric
    return replace(chosen, notes=(*chosen.notes, *map(_describe_block, chosen.own_blocks)))


def _describe_block(block: PortBlock) -> str:
    """Return the ports of each leaf that are kept for ends with a rate or breakout of their own, in words."""
    last = block.first + block.count - 1
    ports = f"port {last}" if block.count == 1 else f"ports {block.first} to {last}"
    split = f", {block.breakout} ends a port" if block.breakout > 1 else ""
    return f"{ports} of each leaf for ends of {block.rate_gbps:g} Gb/s{split}"


def _build(ask: Ask) -> Fabric:
    if ask.topology == "single-switch":
        return _single(ask)
    if ask.topology == "leaf-pair":
        return _pair(ask)
    if ask.topology == "fat-tree" or (ask.topology == "rail-optimised" and ask.rails == 1):
        return _fat_tree(ask)
    if ask.topology == "rail-optimised":
        return _rails(ask)
    return _dragonfly(ask)


def _single(ask: Ask, notes: tuple[str, ...] = ()) -> Fabric:
    most = ask.leaf.end_ports * ask.breakout
    if ask.slots > most:
        arithmetic = f"{_slots(ask)} > {most} of {ask.leaf.name}"
        raise CannotBuildError("FABRIC-001", "one switch does not take all ends", arithmetic, "topology: fat-tree")
    wiring = Wiring(ask, switches(ask, "leaf", [(None, None)], ask.leaf))
    wiring.plug_ends((0, end_port(ask, slot)) for slot in range(ask.room * ask.rails))
    down = ask.leaf.end_ports
    wiring.plug_endpoints(((0, end_port(ask, slot)) for slot in range(ask.room * ask.rails, ask.slots)), down)
    return wiring.fabric(1, down, notes)


def _one_takes_all(ask: Ask) -> bool:
    return ask.slots <= ask.leaf.end_ports * ask.breakout


def _one_switch(ask: Ask) -> str:
    return f"one {ask.leaf.name} takes all {ask.slots} links: a single switch, no spines"


def _slots(ask: Ask) -> str:
    """Return the number of links of ends, with its terms: `95 nodes x 8 + 4`."""
    extra = f" + {ask.other_links} other" if ask.other_links else ""
    return f"{ask.room:,} nodes x {ask.rails}{extra} = {ask.slots:,} links"


def _pair(ask: Ask) -> Fabric:
    """Build two leaves with peer links; link 1 of a node goes to the first, link 2 to the second, in turn."""
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
    first = ask.room * ask.rails
    wiring.plug_ends((link % 2, end_port(ask, link // 2)) for link in range(first))
    others = range(first, first + ask.other_links)
    wiring.plug_endpoints(((link % 2, end_port(ask, link // 2)) for link in others), down)
    leaf, two = wiring.first_leaf, wiring.first_leaf + 1
    ports = [up_port(ask, down, link) for link in range(peers)]
    wiring.add("peer", ((leaf, port, two, port) for port in ports))
    return wiring.fabric(1, down)


def _fat_tree(ask: Ask) -> Fabric:
    """Build a fat-tree: ends fill leaf after leaf; one leaf alone is a single switch."""
    if _one_takes_all(ask):
        return _single(ask, (_one_switch(ask),))
    share = leaf(ask)
    count = -(-ask.slots // share.ends)
    size = chunks(count, max(1, spine_down(ask)))
    groups = [list(range(first, min(first + size, count))) for first in range(0, count, size)]

    def port(slot: int) -> Port:
        return slot // share.ends, end_port(ask, slot % share.ends)

    places = Places(
        units=(None,) * count,
        rails=(None,) * count,
        groups=groups,
        ends=map(port, range(ask.room * ask.rails)),
        others=map(port, range(ask.room * ask.rails, ask.slots)),
    )
    return tree(ask, share, places, _slots(ask))


def _rails(ask: Ask) -> Fabric:
    """Build units of as many nodes as a leaf takes; rail r of all nodes of a unit is on one leaf of that unit.

    A unit has a leaf for each rail. If a leaf has room for several rails of all nodes, these share leaves. If one
    switch takes all links it is alone, as in a fat-tree. Other ends take the free ports of the last unit, one a leaf
    in turn, then leaves of their own.
    """
    if _one_takes_all(ask):
        return _single(ask, (f"{_one_switch(ask)}{_until(_nodes_of_one(ask))}",))
    share, rails = leaf(ask), ask.rails
    per_leaf = _rails_of_a_leaf(ask, share)
    widths = [min(per_leaf, rails - first) for first in range(0, rails, per_leaf)]  # rails of each leaf of a unit
    leaves, units = len(widths), -(-ask.room // share.ends)
    # by nodes, on leaves of the last unit
    occupied = [(ask.room - (units - 1) * share.ends) * width for width in widths]
    own = -(-max(0, ask.other_links - sum(share.ends - slots for slots in occupied)) // share.ends)
    size = chunks(units, max(1, spine_down(ask)))
    groups = [
        [unit * leaves + number for unit in range(first, min(first + size, units))]
        for first, number in product(range(0, units, size), range(leaves))
    ]
    _add_own(groups, range(units * leaves, units * leaves + own), spine_down(ask))

    def port(node: int, rail: int) -> Port:
        unit, place = divmod(node, share.ends)
        number, among = divmod(rail, per_leaf)
        return unit * leaves + number, end_port(ask, place * widths[number] + among)

    places = Places(
        units=(*(unit for unit in range(units) for _ in range(leaves)), *(None,) * own),
        rails=(*(number if per_leaf == 1 else None for _ in range(units) for number in range(leaves)), *(None,) * own),
        groups=groups,
        ends=(port(node, rail) for node, rail in product(range(ask.room), range(rails))),
        others=_others(ask, share, (units - 1) * leaves, occupied),
    )
    notes = () if per_leaf == 1 else (f"rails share leaves, up to {per_leaf} each{_until(share.ends // per_leaf)}",)
    return tree(ask, share, places, _slots(ask), notes)


def _rails_of_a_leaf(ask: Ask, share: Leaf) -> int:
    """Return the number of rails on a leaf, as even as possible; 1 if the blueprint sets a leaf's uplinks."""
    return 1 if ask.uplinks else chunks(ask.rails, min(ask.rails, max(1, share.ends // ask.room)))


def _nodes_of_one(ask: Ask) -> int:
    return (ask.leaf.end_ports * ask.breakout - ask.other_links) // ask.rails


def _until(most: int) -> str:
    """Say up to how many nodes the wiring stays the same."""
    return f"; up to {most} nodes no cable of a node moves; for more, set `designed_for`"


def _others(ask: Ask, share: Leaf, first: int, occupied: Sequence[int]) -> Iterator[Port]:
    """Yield leaf ports for other ends: free ones on the last unit's leaves, from `first` on, then leaves of their own.

    `occupied` are the places that nodes take on each of those leaves.
    """
    after = first + len(occupied)
    remaining = (
        (first + number, slot)
        for slot, number in product(range(share.ends), range(len(occupied)))
        if slot >= occupied[number]
    )
    own = (divmod(link, share.ends) for link in range(ask.other_links))
    ports = chain(remaining, ((after + number, slot) for number, slot in own))
    return ((leaf_, end_port(ask, slot)) for (leaf_, slot), _ in zip(ports, range(ask.other_links), strict=False))


def _add_own(groups: list[list[int]], own: range, most: int) -> None:
    """Add leaves without a rail to the smallest groups; to a group of their own if all are full."""
    for number in own:
        smallest = min(groups, key=len)
        if len(smallest) < most:
            smallest.append(number)
        else:
            groups.append([number])


# Dragonfly and dragonfly+: groups that are all joined to each other by equally many global links. Pure.
#
# Dragonfly: the switches of a group are all joined to each other and each has ends, local and global links (Kim et
# al., Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008). Dragonfly+: a group is leaves and spines,
# each leaf joined to each spine, and only spines have global links (Shpiner et al., Dragonfly+, HiPINEB 2017).


_Cabled = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Groups:
    """The groups of a dragonfly, and the links between them."""

    count: int
    leaves: int  # of each group
    gates: int  # switches of each group that have global links
    per_pair: int  # links between any two groups


def _dragonfly(ask: Ask) -> Fabric:
    """Return the fabric. Raises CannotBuildError with the bound that it breaks."""
    return _groups_of_switches(ask) if ask.topology == "dragonfly" else _groups_of_leaves(ask)


def _groups_of_switches(ask: Ask) -> Fabric:
    """Build a dragonfly of switches with p ends, a - 1 local and h global links each; balanced where a = 2p = 2h."""
    ports, model = ask.leaf.end_ports, ask.leaf
    down = (ports + 1) // 4
    if not down or not model.shared:
        reason = f"{ports} ports < 3" if model.shared else "its uplinks and its ends use different ports"
        raise CannotBuildError("FABRIC-001", f"a dragonfly cannot be built of {model.name}", reason)
    ends, most = down * ask.breakout, 2 * down
    count, leaves = _count_groups(ask, ends, most)
    groups = _Groups(count, leaves, leaves, _per_pair(count, leaves * down))
    places = [(group, None) for group in range(count) for _ in range(leaves)]
    wiring = Wiring(ask, switches(ask, "leaf", places, model))
    _plug(wiring, ends, down)

    def port(link: int) -> int:
        return up_port(ask, down, link)

    local = (
        (wiring.first_leaf + group * leaves + leaf, port(two - 1), wiring.first_leaf + group * leaves + two, port(leaf))
        for group in range(count)
        for leaf, two in combinations(range(leaves), 2)
    )
    wiring.add("local", local)
    wiring.add("global", _global_links(groups, wiring.first_leaf, lambda link: port(most - 1 + link)))
    return wiring.fabric(1, down, _notes(groups))


def _groups_of_leaves(ask: Ask) -> Fabric:
    """Build a dragonfly: leaves as in a fat-tree; a spine has as many global links as downlinks / oversubscription."""
    share = leaf(ask)
    count, leaves = _count_groups(ask, share.ends, max(1, spine_down(ask)))
    group = spines_below_cores(ask, leaves, share.uplinks)
    groups = _Groups(count, leaves, group.count, _per_pair(count, group.count * group.uplinks))
    leaf_places = [(number, None) for number in range(count) for _ in range(leaves)]
    spine_places = [(number, None) for number in range(count) for _ in range(group.count)]
    wiring = Wiring(ask, switches(ask, "leaf", leaf_places, ask.leaf), switches(ask, "spine", spine_places, ask.spine))
    _plug(wiring, share.ends, share.down)
    wiring.add(
        "leaf_spine",
        (
            cable
            for index in range(count * leaves)
            for cable in uplinks(
                wiring, share, group, index, index % leaves, wiring.first_spine + index // leaves * group.count
            )
        ),
    )
    wiring.add("global", _global_links(groups, wiring.first_spine, lambda link: group.first_up + link))
    return wiring.fabric(2, share.down, _notes(groups))


def _count_groups(ask: Ask, ends: int, most_leaves: int) -> tuple[int, int]:
    """Return the number of groups, and the leaves of each: the fewest groups, or those of the blueprint."""
    needed = -(-ask.slots // ends)
    count = ask.groups or -(-needed // most_leaves)
    leaves = -(-needed // count)
    if leaves > most_leaves:
        most = count * most_leaves * ends
        arithmetic = f"{ask.slots:,} links > {most:,} = {count} groups x {most_leaves} leaves x {ends} ends"
        raise CannotBuildError("FABRIC-001", "too few groups for all ends", arithmetic, "leave out `groups`")
    return count, leaves


def _per_pair(groups: int, doors: int) -> int:
    """Return the links between any two of g groups: global links of a group / (g - 1), rounded down; at least one."""
    if groups > doors + 1:
        arithmetic = f"{groups} groups > {doors} global links of a group + 1"
        raise CannotBuildError("FABRIC-001", "too many groups to join each to each", arithmetic, "larger switches")
    return doors // (groups - 1) if groups > 1 else 0


def _plug(wiring: Wiring, ends: int, down: int) -> None:
    """Fill leaf after leaf; other ends come after all nodes, present and future."""
    ask = wiring.ask
    first = ask.room * ask.rails
    wiring.plug_ends((slot // ends, end_port(ask, slot % ends)) for slot in range(first))
    wiring.plug_endpoints(((slot // ends, end_port(ask, slot % ends)) for slot in range(first, ask.slots)), down)


def _global_links(groups: _Groups, first: int, port: Callable[[int], int]) -> list[_Cabled]:
    """Return the links between groups, in turn over the gates of each; group j is the (j - i - 1)-th other of i."""

    def gate(source: int, target: int, number: int) -> tuple[int, int]:
        link = ((target - source) % groups.count - 1) * groups.per_pair + number
        return first + source * groups.gates + link % groups.gates, port(link // groups.gates)

    return sorted(
        (*gate(group, two, number), *gate(two, group, number))
        for group, two in combinations(range(groups.count), 2)
        for number in range(groups.per_pair)
    )


def _notes(groups: _Groups) -> tuple[str, ...]:
    if groups.count == 1:
        return ("all ends fit one group: no global links",)
    return (f"{groups.count} groups, {groups.per_pair} links between any two groups",)
