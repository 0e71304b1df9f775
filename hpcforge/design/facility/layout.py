"""The items in racks, and racks while they are filled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.reader import Loc
from hpcforge.design.facility.room import Load, NodeKind, Rack, Room
from hpcforge.design.facility.rules import Breach

How = Literal["given", "pinned", "proposed"]


@dataclass(frozen=True, eq=False, slots=True)
class Item:
    """A thing at a place in a rack."""

    name: str
    kind: Literal["node", "switch", "equipment", "pdu"]
    load: Load
    u: int  # the lowest unit that it takes
    height: int
    how: How
    node: NodeKind | None = None
    units: tuple[int, ...] = ()  # its units, if they are not a plain run
    loc: Loc | None = None  # its place in the blueprint, if that does not follow from its kind

    @property
    def taken(self) -> tuple[int, ...]:
        """All units that it takes."""
        return self.units or tuple(range(self.u, self.u + self.height))

    @property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """The units that it takes, run by run, from the top down."""
        if not self.units:
            return (self.taken,)
        runs: list[list[int]] = []
        for unit in self.units:
            if runs and unit == runs[-1][-1] + 1:
                runs[-1].append(unit)
            else:
                runs.append([unit])
        return tuple(tuple(run) for run in reversed(runs))


@dataclass(eq=False)
class Filling:
    """A rack while it is filled."""

    rack: Rack
    items: list[Item] = field(default_factory=list)
    owner: dict[int, str] = field(default_factory=dict)  # unit to the item in it
    power_w: float = 0.0
    weight_kg: float = 0.0

    def put(self, item: Item) -> None:
        """Add an item; a unit stays with the first item that takes it."""
        self.items.append(item)
        self.reserve(item.name, item.taken, item.load)

    def reserve(self, name: str, units: Iterable[int], load: Load) -> None:
        """Count what will stand at units."""
        for unit in units:
            self.owner.setdefault(unit, name)
        self.power_w += load.least_w
        self.weight_kg += load.weight_kg or 0.0

    def gaps(self, height: int) -> Iterator[int]:
        """Yield the units from which `height` units are free, lowest first; none if the rack's height is unknown."""
        free = 0
        for unit in range(1, (self.rack.model.rack_units or 0) + 1):
            free = 0 if unit in self.owner else free + 1
            if free >= height:
                yield unit - height + 1

    def top_gap(self, height: int) -> int | None:
        """Return the lowest unit of the highest free gap of `height` units; None if there is none."""
        free = 0
        for unit in range(self.rack.model.rack_units or 0, 0, -1):
            free = 0 if unit in self.owner else free + 1
            if free == height:
                return unit
        return None


@dataclass(frozen=True, eq=False)
class Layout:
    """The place of everything, and the items without one."""

    racks: Mapping[str, tuple[Item, ...]]
    place_of: Mapping[str, tuple[str, Item]]  # nodes: rack and item
    switch_of: Mapping[str, tuple[str, Item]]  # switches: the same
    unplaced: tuple[str, ...]  # metal nodes in no rack
    breaches: tuple[Breach, ...]


def item_of(name: str, kind: NodeKind, u: int, how: How) -> Item:
    """Place a node; one of unknown height takes one unit."""
    return Item(name, "node", kind.load, u, kind.server.rack_units or 1, how, kind)


def allowed_racks(room: Room, kind: NodeKind) -> tuple[str, ...]:
    """Return the racks in which a group's nodes may stand."""
    racks = room.blueprint.nodes[kind.group].rack
    return hostlist.expand(racks) if racks else tuple(room.racks)
