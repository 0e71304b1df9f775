"""Edits of a blueprint and its inventory before they are written: the files are valid, and no other machine moves."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcforge.blueprint.edit import edited, with_values
from hpcforge.blueprint.membership import Edits
from hpcforge.cluster.load import load
from hpcforge.cluster.load.loaded import Loaded
from hpcforge.cluster.model import Cluster, Node
from hpcforge.errors import UsageError


@dataclass(frozen=True)
class Proposed:
    """The texts of the files as they are and as they would be."""

    old: Mapping[Path, str]
    new: Mapping[Path, str]

    @property
    def changed(self) -> list[Path]:
        """The files that would not stay as they are."""
        return [path for path in self.new if self.new[path] != self.old[path]]

    def diff(self, path: Path) -> str:
        """Return the changes to a file as a unified diff."""
        old, new = (text.splitlines(keepends=True) for text in (self.old[path], self.new[path]))
        lines = difflib.unified_diff(old, new, str(path), str(path), n=1)
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def propose(loaded: Loaded, edits: Edits, names: tuple[str, ...]) -> Proposed:
    """Return the contents of the files with these edits, which concern the nodes `names`.

    Raises:
        InvalidInput: the files would be wrong, with places as they would then be.
        UsageError: a machine that is not selected would get another address or place.
        ChangedFileError: a file has changed since it was read.
    """
    old = {path: loaded.text(path) for path in (loaded.blueprint_path, loaded.inventory_path) if path is not None}
    new = {loaded.blueprint_path: edited(old[loaded.blueprint_path], edits.blueprint)}
    if loaded.inventory_path is not None:
        new[loaded.inventory_path] = edited(old[loaded.inventory_path], edits.inventory)
    proposed = Proposed(old, new)
    if proposed.changed:
        edited_inputs = load(loaded.blueprint_path, loaded.inventory_path, instead=new, judged=True)
        _refuse_what_moves(loaded.cluster, edited_inputs.cluster, names)
    return proposed


def propose_machines(loaded: Loaded, values: Mapping[tuple[str, str], object]) -> Proposed:
    """Return the inventory with these values, by (node, key). Nothing of the blueprint changes.

    Raises:
        UsageError: the blueprint names no inventory.
        InvalidInput: the inventory would be wrong, with places as they would then be.
    """
    path = loaded.inventory_path
    if path is None:
        raise UsageError("the blueprint names no inventory to write to", "name one with `inventory:`, or --inventory")
    old = loaded.text(path)
    new = with_values(old, "nodes", values) if values else old
    if new != old:
        load(loaded.blueprint_path, path, instead={path: new})
    return Proposed({path: old}, {path: new})


def _refuse_what_moves(before: Cluster, after: Cluster, names: tuple[str, ...]) -> None:
    """Refuse edits that move other machines: a list by position must not give them another place."""
    for old in before.nodes:
        new = after.by_name.get(old.name)
        if new is not None and old.name not in names and _place(new) != _place(old):
            raise UsageError(
                f"{old.name} would move from {_place(old)} to {_place(new)}; nothing was written",
                "name an inventory with `inventory:`: hpcforge pins the nodes there; or make them separate groups",
            )


def _place(node: Node) -> str:
    return f"{node.address}" + (f" in rack {node.rack}, unit {node.rack_u}" if node.rack else "")
