"""Keys of users' files that have a new name: the table of them, and how a file that has an old one is read. Pure.

An old name is accepted until the version in `GONE_IN`, with a warning at its place. It is renamed in the tree that the
reader made, before anything is typed, so that all code knows the new name alone. The next rename is one line here.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from hpcforge.blueprint.diagnostics import Diagnostic, SourceFile, quote
from hpcforge.blueprint.reader import Document, Loc, Mapping, Sequence, Tree, read_inside_of

File = Literal["blueprint", "inventory", "role.yaml", "test.yaml"]

GONE_IN = "0.3"
_ANY = "*"  # in a place: every key of a mapping, or every entry of a list


class RenamedKey(NamedTuple):
    """A key by its old name, as in `units.*.watches`, and its new name; keys around it have their new names."""

    place: str
    new: str

    @property
    def around(self) -> tuple[str, ...]:
        """Where the mapping stands that has the key."""
        return tuple(self.place.split(".")[:-1])

    @property
    def old(self) -> str:
        """The old name."""
        return self.place.rpartition(".")[2]


RENAMED_KEYS: MappingOf[File, tuple[RenamedKey, ...]] = {
    "blueprint": (
        RenamedKey("parts.cables.*.speaks", "protocols"),
        RenamedKey("parts.cables.*.sources.speaks", "protocols"),
        RenamedKey("parts.gpus.*.mig.*.most", "max_instances"),
        RenamedKey("parts.gpus.*.mig.*.starts", "placements"),
        RenamedKey("parts.switches.*.speaks", "protocols"),
        RenamedKey("parts.switches.*.sources.speaks", "protocols"),
        RenamedKey("roles.shared_homes.look_s", "interval_s"),
        RenamedKey("roles.sssd.keep_s", "cache_s"),
        RenamedKey("rollout.at_most", "max_parallel"),
        RenamedKey("software.present", "preinstalled"),
        RenamedKey("storage.*.keep", "keep_after_jobs"),
    ),
    "inventory": (RenamedKey("switches.*.says", "system_name"),),
    "role.yaml": (
        RenamedKey("artifacts.*.to", "path"),
        RenamedKey("checks.*.first", "precondition"),
        RenamedKey("disrupts.opaque", "code"),
        RenamedKey("files.*.early", "before_packages"),
        RenamedKey("guard", "auto_rollback"),
        RenamedKey("jobs_feel", "affects_jobs"),
        RenamedKey("leaves", "keep_on_removal"),
        RenamedKey("on_remove", "on_removal"),
        RenamedKey("removes", "delete_on_removal"),
        RenamedKey("restarts.*.watches", "restart_on"),
        RenamedKey("secrets.*.least", "min_bytes"),
        RenamedKey("secrets.*.rotated", "on_rotation"),
        RenamedKey("services.*.several", "multiple_nodes"),
        RenamedKey("shape", "strategy"),
        RenamedKey("units.*.refresh", "reload_commands"),
        RenamedKey("units.*.rereads", "reload_on"),
        RenamedKey("units.*.watches", "restart_on"),
    ),
    "test.yaml": (
        RenamedKey("expectation", "thresholds"),
        RenamedKey("measures.*.shown", "format"),
    ),
}


def with_new_keys(document: Document, file: File) -> Document:
    """Return the document with new names in place of old ones, and its diagnostics with a warning for each.

    A mapping that has a key by both names is an error of the document; the value under the new name stays.
    """
    found: list[Diagnostic] = []
    root: Tree = document.root
    for key in RENAMED_KEYS[file]:
        root = _renamed(root, key.around, key, document.source, found)
    assert isinstance(root, Mapping)
    return replace(document, root=root, diagnostics=(*document.diagnostics, *found), file=file)


def old_key_warnings(folders: Iterable[Path], file: File) -> list[Diagnostic]:
    """Return a warning for each old name in the file of roles or smoke tests; what else is wrong there is not said."""
    found = (with_new_keys(read_inside_of(folder, file), file) for folder in folders)
    return [entry for document in found for entry in document.diagnostics if entry.severity == "warning"]


def old_names(file: str | None, around: Loc) -> dict[str, str]:
    """Old names of keys of the mapping at a location of a file, with their new ones."""
    rows = next((rows for name, rows in RENAMED_KEYS.items() if name == file), ())
    return {row.old: row.new for row in rows if _is_at(row.around, around)}


def _is_at(place: tuple[str, ...], loc: Loc) -> bool:
    return len(place) == len(loc) and all(step in (_ANY, at) for step, at in zip(place, loc, strict=True))


def _renamed(tree: Tree, way: tuple[str, ...], key: RenamedKey, source: SourceFile, found: list[Diagnostic]) -> Tree:
    """The tree with the key renamed in every mapping that the rest of the way leads to."""
    if isinstance(tree, Mapping) and not way:
        return _with_new_key(tree, key, source, found)
    if isinstance(tree, Mapping):
        at = tree.entries if way[0] == _ANY else {way[0]} & tree.entries.keys()
        changed = {name: _renamed(tree.entries[name], way[1:], key, source, found) for name in at}
        return replace(tree, entries={**tree.entries, **changed}) if changed else tree
    if isinstance(tree, Sequence) and way[:1] == (_ANY,):
        return replace(tree, items=[_renamed(item, way[1:], key, source, found) for item in tree.items])
    return tree


def _with_new_key(tree: Mapping, key: RenamedKey, source: SourceFile, found: list[Diagnostic]) -> Mapping:
    if key.old not in tree.entries:
        return tree
    old, new = quote(key.old), quote(key.new)
    if key.new in tree.entries:
        message, hint = f"{old} is the old name of {new}, which is here, too", f"leave out {old}"
        found.append(Diagnostic("error", message, source, tree.keys[key.old], hint))
        rest = {name: value for name, value in tree.entries.items() if name != key.old}
        return replace(tree, entries=rest, keys={name: tree.keys[name] for name in rest})
    message = f"{old} is now {new}; the old name goes in version {GONE_IN}"
    found.append(Diagnostic("warning", message, source, tree.keys[key.old], f"write {new}"))
    names = {name: key.new if name == key.old else name for name in tree.entries}
    return replace(
        tree,
        entries={names[name]: value for name, value in tree.entries.items()},
        keys={names.get(name, name): mark for name, mark in tree.keys.items()},
    )
