"""What growth beyond `designed_for` does to the cables that are there. Pure."""

from __future__ import annotations

from collections import defaultdict

from hpcforge.design.fabric.graph import CableKind, Fabric, GrowthMove

Ends = tuple[str, int, str, int]


def moves(before: Fabric, after: Fabric) -> tuple[GrowthMove, ...]:
    """The cables of `before` that `after` has not, each with a cable of `after` that it can become.

    A cable that keeps one end is moved at the other: such are matched first, those that keep the port nearer to the
    nodes before all. What is left has no place in `after` and is taken out.
    """
    old, new = _cables(before), _cables(after)
    kinds = {**old, **new}
    gone = [ends for ends in old if ends not in new]
    free = [ends for ends in new if ends not in old]
    matched: dict[Ends, Ends] = {}
    for kept in (_nearer, _farther):
        waiting: dict[tuple[str, int], list[Ends]] = defaultdict(list)
        for ends in reversed(free):
            waiting[kept(ends)].append(ends)
        for ends in gone:
            if ends not in matched and waiting[kept(ends)]:
                matched[ends] = waiting[kept(ends)].pop()
        taken = set(matched.values())
        free = [ends for ends in free if ends not in taken]
    return tuple(GrowthMove(ends, matched.get(ends), kinds[ends]) for ends in gone)


def _nearer(ends: Ends) -> tuple[str, int]:
    return ends[:2]


def _farther(ends: Ends) -> tuple[str, int]:
    return ends[2:]


def _cables(fabric: Fabric) -> dict[Ends, CableKind]:
    names = [device.name for device in fabric.devices]
    return {(names[c.a], c.a_port, names[c.b], c.b_port): c.kind for c in fabric.cables}
