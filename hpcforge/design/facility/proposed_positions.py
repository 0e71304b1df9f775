"""Places for nodes that were given none: heavy low, load spread over racks and feeds. Pure.

The heaviest models go first, each into the lowest gap of a rack that takes it, of all such racks the one whose feeds,
then which itself, is loaded least. Within a model, names follow racks and units in order, so that neighbours in name
are neighbours in the rack. What is proposed depends on all nodes that wait: `hpcforge pin` makes it stay.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from hpcforge.blueprint import hostlist
from hpcforge.design.facility.layout import Filling, Item, allowed_racks, item_of
from hpcforge.design.facility.loads import alike_as
from hpcforge.design.facility.power_rules import carries
from hpcforge.design.facility.room import NodeKind, Room, load_of
from hpcforge.design.facility.rules import Breach, not_checked

Feeds = tuple[str, ...]
Slot = tuple[int, int, str]  # rack's place in the order of racks, unit, rack


def propose(room: Room, fillings: dict[str, Filling], waiting: list[tuple[str, NodeKind]]) -> Iterator[Breach]:
    """Put waiting nodes into racks; yield what finds no room, and what should be pinned."""
    if not fillings:
        return
    proposed: dict[str, list[str]] = defaultdict(list)
    for kind, names in _heaviest_first(waiting):
        if kind.server.rack_units is None:
            missing = f"{hostlist.fold(names)}: no published height of {kind.model}, so no place is proposed"
            yield not_checked("RACK-006", kind.loc(), missing, f"like: {kind.model}, rack_units: N under `hardware`")
            continue
        slots = sorted(_Racks(room, fillings, kind).slots(len(names)))
        for name, (_, u, rack) in zip(names, slots, strict=False):
            fillings[rack].items.append(item_of(name, kind, u, "proposed"))
        proposed[kind.group] += names[: len(slots)]
        if len(slots) < len(names):
            yield _no_room(room, kind, names[len(slots) :])
    yield from (_unpinned(group, names) for group, names in proposed.items() if names)


def _heaviest_first(waiting: list[tuple[str, NodeKind]]) -> list[tuple[NodeKind, list[str]]]:
    batches: dict[NodeKind, list[str]] = defaultdict(list)
    for name, kind in waiting:
        batches[kind].append(name)
    return sorted(batches.items(), key=lambda batch: -(batch[0].server.weight_kg or 0.0))  # stable: blueprint order


class _Racks:
    """The racks that nodes of one kind may stand in, least loaded first."""

    def __init__(self, room: Room, fillings: dict[str, Filling], kind: NodeKind) -> None:
        self.room, self.fillings, self.kind, self.load = room, fillings, kind, load_of(kind)
        self.heaps: dict[Feeds, list[tuple[float, int, str]]] = defaultdict(list)
        self.feed_w: dict[str, float] = defaultdict(float)
        self.taken: dict[str, list[Item]] = defaultdict(list)  # by rack, places that `slots` has yielded
        self.carried: dict[object, bool] = {}
        for filling in fillings.values():
            self._count(filling.rack.spec.feeds, filling.power_w)
        allowed = set(allowed_racks(room, kind))
        for index, (name, filling) in enumerate(fillings.items()):
            if name in allowed:
                self.heaps[filling.rack.spec.feeds].append((self._loaded(filling), index, name))
        for heap in self.heaps.values():
            heapq.heapify(heap)

    def slots(self, count: int) -> Iterator[Slot]:
        """Yield so many places, fewer where there is no more room; what is yielded is taken."""
        for _ in range(count):
            found = next((slot for feeds in self._feeds_by_load() if (slot := self._take(feeds))), None)
            if found is None:
                return
            yield found

    def _feeds_by_load(self) -> list[Feeds]:
        return sorted((f for f in self.heaps if self.heaps[f]), key=lambda feeds: (self._feed_load(feeds), feeds))

    def _feed_load(self, feeds: Feeds) -> float:
        """Load of the fullest of a rack's feeds, as a part of its limit where that is given."""
        limits = ((self.feed_w[name], self.room.feeds[name].limit_w) for name in feeds)
        return max((load / (limit or 1.0) for load, limit in limits), default=0.0)

    def _take(self, feeds: Feeds) -> Slot | None:
        """Take the lowest gap of the least loaded rack on these feeds; a rack without one is not asked again."""
        heap, height = self.heaps[feeds], self.kind.server.rack_units or 1
        while heap:
            _, index, name = heap[0]
            filling = self.fillings[name]
            u = self._lowest(filling, height) if self._fits(filling, height) else None
            if u is None:
                heapq.heappop(heap)
                continue
            filling.reserve(self.kind.model, range(u, u + height), self.load)
            self._count(feeds, self.load.least_w)
            heapq.heapreplace(heap, (self._loaded(filling), index, name))
            return index, u, name
        return None

    def _lowest(self, filling: Filling, height: int) -> int | None:
        """Take the lowest gap from which PDUs, their phases and outlets carry the rack; None: there is none."""
        rack = filling.rack
        for u in filling.gaps(height):
            item = item_of("", self.kind, u, "proposed")
            items = (*filling.items, *self.taken[rack.name], item)
            alike = alike_as(rack, items)
            if alike not in self.carried:
                self.carried[alike] = carries(self.room, rack, items)
            if self.carried[alike]:
                self.taken[rack.name].append(item)
                return u
        return None

    def _count(self, feeds: Feeds, power_w: float) -> None:
        for name in feeds:
            self.feed_w[name] += power_w / len(feeds)

    def _loaded(self, filling: Filling) -> float:
        return filling.power_w / (filling.rack.spec.limit_w or 1.0)

    def _fits(self, filling: Filling, height: int) -> bool:
        """Tell whether one more of the kind keeps a rack within the limits that are known."""
        rack, server = filling.rack, self.kind.server
        units = rack.model.rack_units or 0
        cooling = self.room.site.cooling.rack_limit_w if self.room.site else None
        power_w = filling.power_w + self.load.least_w
        weight_kg = filling.weight_kg + (self.load.weight_kg or 0.0)
        heat_w = rack.spec.cooling_limit_w if rack.spec.cooling_limit_w is not None else cooling
        pairs = (
            (power_w, rack.spec.limit_w),
            (power_w, heat_w),
            (weight_kg, rack.limit_kg),
            (server.depth_mm, rack.model.mounting_depth_mm),
            (len(filling.owner) + height + (rack.spec.spare_u or 0), units),
        )
        return all(value is None or limit is None or value <= limit for value, limit in pairs)


def _no_room(room: Room, kind: NodeKind, names: list[str]) -> Breach:
    racks = allowed_racks(room, kind)
    return Breach(
        "RACK-006",
        ("nodes", kind.group),
        f"no room for {hostlist.fold(names)} in racks {hostlist.fold(racks)}",
        f"{len(names)} x {kind.server.rack_units} units within height, depth, weight, power, heat, PDUs, spare units",
        "add racks, or give positions with `rack` and `u` to see which limit they break",
        key=True,
    )


def _unpinned(group: str, names: list[str]) -> Breach:
    return Breach(
        "RACK-008",
        ("nodes", group),
        f"the positions of {hostlist.fold(names)} are proposed, not pinned",
        None,
        "hpcforge pin BLUEPRINT writes them into the inventory; or give `rack` and `u`",
        key=True,
    )
