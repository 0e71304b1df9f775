"""Places of nodes in racks: those of a group's `rack` and `u`, and the inventory's `positions:`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hpcforge.blueprint import hostlist

_SECTION = re.compile(r"^positions:.*(?:\n|\Z)(?:(?:[ \t]*\n)*[ \t]+\S.*(?:\n|\Z))*", re.MULTILINE)
_NOTE = "positions:  # written by `hpcforge pin`: where nodes stand\n"
Place = tuple[str, int]  # rack and lowest unit


def given_places(
    names: Sequence[str], rack: str, units: Sequence[int], pinned: Mapping[str, Place]
) -> dict[str, Place]:
    """Return the place of each node of a group: its pinned one where the group has it, else the next free one."""
    places = [(name, u) for name in hostlist.expand(rack) for u in units]
    valid = set(places)
    stay = {name: pinned[name] for name in names if pinned.get(name) in valid}
    occupied = set(stay.values())
    free = iter([place for place in places if place not in occupied])
    by_node = {name: stay.get(name) or next(free, None) for name in names}
    return {name: place for name, place in by_node.items() if place is not None}


def with_positions(inventory: str, positions: Mapping[str, Place]) -> str:
    """Return an inventory's text with these positions, by node; all else in it stays as it was written."""
    lines = "".join(f"  {name}: {{rack: {rack}, u: {u}}}\n" for name, (rack, u) in positions.items())
    section = _NOTE + lines if positions else ""
    if _SECTION.search(inventory):
        return _SECTION.sub(lambda _: section, inventory, count=1)
    return inventory.rstrip("\n") + "\n" + ("\n" + section if section else "")
