"""Fat-trees of two and three tiers, once it is known which end is on which leaf. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.sizes import Cores, Leaf, Spines, cores, spine_down, spines, spines_below_cores
from hpcforge.design.fabric.spec import Ask, CannotBuildError
from hpcforge.design.fabric.wiring import Port, Wiring, switches, up_port

Cabled = tuple[int, int, int, int]


@dataclass(frozen=True)
class Places:
    """The leaves of a tree, and the ports of their ends."""

    units: Sequence[int | None]  # of each leaf
    rails: Sequence[int | None]
    groups: Sequence[Sequence[int]]  # leaves that share spines; used in three tiers
    ends: Iterable[Port]  # leaf (from 0) and port of every link of nodes, present or future
    others: Iterable[Port]  # of every link of other ends


def tree(ask: Ask, share: Leaf, places: Places, slots: str, notes: tuple[str, ...] = ()) -> Fabric:
    """Return the fabric: two tiers if a spine can reach all leaves, else three. Raises CannotBuildError."""
    two = spines(len(places.units), share.uplinks, ask.spine)
    if two is not None:
        return _two_tiers(ask, share, places, two, notes)
    most = max(map(len, places.groups))
    if most > spine_down(ask):
        raise _too_many(ask, share, slots)
    group = spines_below_cores(ask, most, share.uplinks)
    above = cores(len(places.groups), group, ask.spine)
    if above is None:
        raise _too_many(ask, share, slots)
    return _three_tiers(ask, share, places, group, above, notes)


def _too_many(ask: Ask, share: Leaf, slots: str) -> CannotBuildError:
    """Return the bound of three tiers: a core has a port for each group, a group has N leaves, and a leaf has M ends.

    For equal switches without oversubscription this is ports x (ports / 2) x (ports / 2) = ports^3 / 4.
    """
    groups, leaves = ask.spine.up_ports, spine_down(ask)
    in_rails = ask.topology == "rail-optimised" and ask.rails > 1
    if in_rails:
        groups -= groups % ask.rails  # every rail has as many groups
    most = groups * leaves * share.ends
    arithmetic = f"{slots} > {most:,} = {groups} groups x {leaves} leaves x {share.ends} ends"
    if ask.leaf == ask.spine and ask.breakout == 1 and most * 4 == ask.leaf.end_ports**3:
        arithmetic += f" = {ask.leaf.end_ports}^3 / 4"
    message = f"three tiers of {ask.spine.name} do not take all ends"
    hint = "switches with more ports, or a smaller fabric" if ask.leaf.shared else "spine_switch: one with more ports"
    return CannotBuildError("FABRIC-001", message, arithmetic, hint)


def _two_tiers(ask: Ask, share: Leaf, places: Places, spines: Spines, notes: tuple[str, ...]) -> Fabric:
    leaves = switches(ask, "leaf", list(zip(places.units, places.rails, strict=True)), ask.leaf)
    wiring = Wiring(ask, leaves, switches(ask, "spine", [(0, None)] * spines.count, ask.spine))
    wiring.plug_ends(places.ends)
    wiring.plug_endpoints(places.others, share.down)
    wiring.add(
        "leaf_spine",
        (
            cable
            for index in range(len(leaves))
            for cable in uplinks(wiring, share, spines, index, index, wiring.first_spine)
        ),
    )
    return wiring.fabric(2, share.down, notes)


def uplinks(
    wiring: Wiring, share: Leaf, group: Spines, index: int, position: int, first_spine: int
) -> Iterable[Cabled]:
    """Cable the uplinks of leaf `index`, number `position` of its group: one to each spine, then the second to each.

    In this order most cables stay where they are when a larger fabric has twice the spines.
    """
    ask, leaf_ = wiring.ask, wiring.first_leaf + index
    for link in range(share.uplinks):
        repeat, spine = divmod(link, group.count)
        port = ask.spine.first_up + position + repeat * group.stride
        yield leaf_, up_port(ask, share.down, link), first_spine + spine, port


def _three_tiers(ask: Ask, share: Leaf, places: Places, group: Spines, above: Cores, notes: tuple[str, ...]) -> Fabric:
    group_of = {index: number for number, leaves in enumerate(places.groups) for index in leaves}
    in_rails = any(rail is not None for rail in places.rails)
    units = places.units if in_rails else [group_of[index] for index in range(len(places.units))]
    rail_of = [places.rails[leaves[0]] for leaves in places.groups]
    spine_places = [(number, rail) for number, rail in enumerate(rail_of) for _ in range(group.count)]
    core_places = [(plane, None) for plane in range(above.planes) for _ in range(above.per_plane)]
    wiring = Wiring(
        ask,
        switches(ask, "leaf", list(zip(units, places.rails, strict=True)), ask.leaf),
        switches(ask, "spine", spine_places, ask.spine),
        switches(ask, "core", core_places, ask.spine),
    )
    wiring.plug_ends(places.ends)
    wiring.plug_endpoints(places.others, share.down)
    place_of = {index: place for leaves in places.groups for place, index in enumerate(leaves)}
    wiring.add(
        "leaf_spine",
        (
            cable
            for index in range(len(units))
            for cable in uplinks(
                wiring, share, group, index, place_of[index], wiring.first_spine + group_of[index] * group.count
            )
        ),
    )
    wiring.add("spine_core", _to_cores(wiring, group, above, len(places.groups)))
    return wiring.fabric(3, share.down, notes)


def _to_cores(wiring: Wiring, group: Spines, above: Cores, groups: int) -> Iterable[Cabled]:
    """Cable the uplinks of every spine. Position q of a group is in plane q mod planes."""
    in_plane = group.count // above.planes
    for number in range(groups):
        for position in range(group.count):
            index, plane = divmod(position, above.planes)
            spine = wiring.first_spine + number * group.count + position
            for link in range(group.uplinks):
                repeat, core = divmod(link, above.per_plane)
                port = wiring.ask.spine.first_up + number * in_plane + index + repeat * above.stride
                core_ = wiring.first_core + plane * above.per_plane + core
                yield spine, group.first_up + link, core_, port
