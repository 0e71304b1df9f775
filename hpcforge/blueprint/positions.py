"""The `positions:` section of an inventory: the one part of it that hpcforge writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECTION = re.compile(r"^positions:.*(?:\n|\Z)(?:(?:[ \t]*\n)*[ \t]+\S.*(?:\n|\Z))*", re.MULTILINE)
_NOTE = "positions:  # written by `hpcforge pin`: positions that the blueprint does not give\n"


def with_positions(inventory: str, positions: Mapping[str, tuple[str, int]]) -> str:
    """Return an inventory's text with these positions, by node; all else in it stays as it was written."""
    lines = "".join(f"  {name}: {{rack: {rack}, u: {u}}}\n" for name, (rack, u) in positions.items())
    section = _NOTE + lines if positions else ""
    if _SECTION.search(inventory):
        return _SECTION.sub(lambda _: section, inventory, count=1)
    return inventory.rstrip("\n") + "\n" + ("\n" + section if section else "")
