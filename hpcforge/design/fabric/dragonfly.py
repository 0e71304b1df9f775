"""Dragonfly and dragonfly+: groups that are all joined to each other by equally many global links. Pure.

Dragonfly: the switches of a group are all joined to each other and each has ends, local and global links (Kim et al.,
Technology-Driven, Highly-Scalable Dragonfly Topology, ISCA 2008). Dragonfly+: a group is leaves and spines, each leaf
joined to each spine, and only spines have global links (Shpiner et al., Dragonfly+, HiPINEB 2017).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.sizes import leaf, spine_down, spines_below_cores
from hpcforge.design.fabric.spec import Ask, CannotBuildError
from hpcforge.design.fabric.tree import uplinks
from hpcforge.design.fabric.wiring import Wiring, end_port, switches, up_port

Cabled = tuple[int, int, int, int]


@dataclass(frozen=True)
class Groups:
    """How many groups, and what joins them."""

    count: int
    leaves: int  # of each group
    gates: int  # switches of each group that have global links
    per_pair: int  # links between any two groups


def build(ask: Ask) -> Fabric:
    """Return the fabric. Raises CannotBuildError with the bound that is in the way."""
    return _plain(ask) if ask.topology == "dragonfly" else _plus(ask)


def _plain(ask: Ask) -> Fabric:
    """Ports of a switch: p ends, a - 1 switches of its group, h global links; balanced where a = 2p = 2h."""
    ports, model = ask.leaf.end_ports, ask.leaf
    down = (ports + 1) // 4
    if not down or not model.shared:
        why = f"{ports} ports < 3" if model.shared else "its ports for uplinks are others than those for ends"
        raise CannotBuildError("FABRIC-001", f"a dragonfly cannot be built of {model.name}", why)
    ends, most = down * ask.breakout, 2 * down
    count, leaves = _count(ask, ends, most)
    groups = Groups(count, leaves, leaves, _per_pair(count, leaves * down))
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
    wiring.add("global", _global(groups, wiring.first_leaf, lambda link: port(most - 1 + link)))
    return wiring.fabric(1, down, _said(groups))


def _plus(ask: Ask) -> Fabric:
    """A leaf is as in a fat-tree; a spine has as many global links as links to leaves, less its oversubscription."""
    share = leaf(ask)
    count, leaves = _count(ask, share.ends, max(1, spine_down(ask)))
    group = spines_below_cores(ask, leaves, share.uplinks)
    groups = Groups(count, leaves, group.count, _per_pair(count, group.count * group.uplinks))
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
    wiring.add("global", _global(groups, wiring.first_spine, lambda link: group.first_up + link))
    return wiring.fabric(2, share.down, _said(groups))


def _count(ask: Ask, ends: int, most_leaves: int) -> tuple[int, int]:
    """Groups and the leaves of each: the fewest groups, or as many as asked for."""
    needed = -(-ask.slots // ends)
    count = ask.groups or -(-needed // most_leaves)
    leaves = -(-needed // count)
    if leaves > most_leaves:
        most = count * most_leaves * ends
        arithmetic = f"{ask.slots:,} links > {most:,} = {count} groups x {most_leaves} leaves x {ends} ends"
        raise CannotBuildError("FABRIC-001", "too few groups for all ends", arithmetic, "leave out `groups`")
    return count, leaves


def _per_pair(groups: int, doors: int) -> int:
    """Links between any two of g groups: global links of a group / (g - 1), rounded down; at least one."""
    if groups > doors + 1:
        arithmetic = f"{groups} groups > {doors} global links of a group + 1"
        raise CannotBuildError("FABRIC-001", "too many groups to join each to each", arithmetic, "larger switches")
    return doors // (groups - 1) if groups > 1 else 0


def _plug(wiring: Wiring, ends: int, down: int) -> None:
    """Fill leaf after leaf; what is no node comes after all nodes that there is to be room for."""
    ask = wiring.ask
    first = ask.room * ask.rails
    wiring.plug_ends((slot // ends, end_port(ask, slot % ends)) for slot in range(first))
    wiring.plug_endpoints(((slot // ends, end_port(ask, slot % ends)) for slot in range(first, ask.slots)), down)


def _global(groups: Groups, first: int, port: Callable[[int], int]) -> list[Cabled]:
    """Links between groups, spread over the gates of each in turn; group j is the (j - i - 1)-th other one of i."""

    def gate(here: int, there: int, number: int) -> tuple[int, int]:
        link = ((there - here) % groups.count - 1) * groups.per_pair + number
        return first + here * groups.gates + link % groups.gates, port(link // groups.gates)

    return sorted(
        (*gate(group, two, number), *gate(two, group, number))
        for group, two in combinations(range(groups.count), 2)
        for number in range(groups.per_pair)
    )


def _said(groups: Groups) -> tuple[str, ...]:
    if groups.count == 1:
        return ("all ends fit one group: there are no global links",)
    return (f"{groups.count} groups, {groups.per_pair} links between any two of them",)
