"""The design of a blueprint: its fabrics, the place of everything, and the breaches of all rules. Pure.

`cluster` makes a `PlacedSite` of a blueprint whose references hold; each result is computed when it is first read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.schema import Blueprint
from hpcforge.catalog import Catalog
from hpcforge.design.fabric.cabling import Cabled, bom
from hpcforge.design.fabric.design import FabricDesign
from hpcforge.design.fabric.fabrics import Fabrics, fabrics
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.placement import Laid, lay, mounts
from hpcforge.design.fabric.rules import RULES as FABRIC_RULES
from hpcforge.design.fabric.summary import fabric_design
from hpcforge.design.facility import design_of_room, limits, power_on
from hpcforge.design.facility.design import FacilityDesign, PowerFeed
from hpcforge.design.facility.design_of_room import Facility
from hpcforge.design.facility.layout import Layout
from hpcforge.design.facility.placement import moves, place
from hpcforge.design.facility.room import PinnedPosition, Room, room
from hpcforge.design.facility.rules import RULES as FACILITY_RULES
from hpcforge.design.facility.rules import Breach, DesignRule
from hpcforge.design.storage import rule_checks
from hpcforge.design.storage.capacity import ServedFileSystem
from hpcforge.design.storage.rules import RULES as STORAGE_RULES

RULES: Mapping[str, DesignRule] = {**FACILITY_RULES, **FABRIC_RULES, **STORAGE_RULES}


@dataclass(frozen=True, eq=False)
class PlacedSite:
    """A blueprint's fabrics, and its room with all machines in their places."""

    room: Room
    layout: Layout
    connected: Fabrics  # fabrics as the blueprint declares them

    @property
    def fabrics(self) -> tuple[Fabric, ...]:
        """Return the possible fabrics, in the blueprint's order."""
        return self.connected.built

    @cached_property
    def facility(self) -> Facility:
        """Return racks, power and cooling, with breaches."""
        return design_of_room.facility(self.room, self.layout)

    @property
    def cables(self) -> tuple[Cabled, ...]:
        """Return the fabrics, with their cables cut to length."""
        return self._laid.fabrics

    @property
    def fabric_breaches(self) -> tuple[Breach, ...]:
        """Return findings of the rules of fabrics, then of those of cables."""
        return (*self.connected.breaches, *self._laid.breaches)

    def storage_breaches(self, systems: Sequence[ServedFileSystem]) -> Iterator[Breach]:
        """Yield findings of rules for file systems that nodes serve, and for needs of those that no node serves."""
        yield from rule_checks.judge(systems, lambda node: self.room.kind_of[node].loc())
        ours = {file_system.name for file_system in systems}
        for name, file_system in self.room.blueprint.storage.items():
            if file_system.needs and name not in ours:
                yield from rule_checks.not_served(name, sorted(file_system.needs.model_fields_set))

    @cached_property
    def _laid(self) -> Laid:
        return lay(self.room, self.layout, self.fabrics)

    @property
    def positions(self) -> dict[str, tuple[str, int]]:
        """Return rack and lowest unit of each node that has a place."""
        return {name: (rack, item.u) for name, (rack, item) in self.layout.place_of.items()}

    @property
    def moved(self) -> list[str]:
        """Return the messages of RACK-012 on nodes that a change moves within racks."""
        return moves(self.layout)

    @property
    def power_feeds(self) -> tuple[PowerFeed, ...]:
        """Return each feed with its limit and, by rack, the part of the rack's PDUs on it."""
        return limits.power_feeds(self.room)

    def start_turns(self, on: Collection[str], nodes: Sequence[str], lost: Collection[str] = ()) -> power_on.Turns:
        """Return the turns in which `nodes` start if those in `on` run already, with some feeds `lost`."""
        return power_on.turns(power_on.budgets(self.room, self.layout, lost), on, nodes)

    def work_turns(self, nodes: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return groups of `nodes` that may work at full power at once, while the others of them wait."""
        return power_on.working(power_on.budgets(self.room, self.layout), nodes).turns

    def facility_design(self, blueprint: str) -> FacilityDesign:
        """Return racks, power, cooling and the whole bill of materials; `blueprint` is the path that it names."""
        racks = design_of_room.design(self.facility, blueprint)
        return replace(racks, bom=(*racks.bom, *bom(self.cables, self.room.catalog.cables)))

    def fabric_designs(self) -> tuple[FabricDesign, ...]:
        """Return the design of each fabric: switches, cables and measures."""
        return tuple(map(fabric_design, self.cables))


def place_site(blueprint: Blueprint, catalog: Catalog, inventory: Inventory | None = None) -> PlacedSite:
    """Build fabrics, and place all machines. The blueprint's references hold; the catalog has its own hardware."""
    connected = fabrics(blueprint, catalog, inventory)
    pins = {name: PinnedPosition(at.rack, at.u) for name, at in (inventory.positions if inventory else {}).items()}
    floor = room(blueprint, catalog, pins, mounts(blueprint, catalog, connected.built))
    return PlacedSite(floor, place(floor), connected)
