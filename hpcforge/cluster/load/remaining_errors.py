"""Errors of design that do not depend on a file's other errors: wrong parts are omitted, and the rest is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from pydantic import BaseModel

from hpcforge.blueprint.diagnostics import Diagnostic, Mark
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.reader import Loc, Mapping, Tree
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.schema_hints import aliases
from hpcforge.blueprint.validate import Draft, Finding, validate
from hpcforge.catalog import Catalog
from hpcforge.cluster.load.loaded import diagnostic

MAX_JUDGED = 40  # errors of a file: with more of them, people correct those first
_MAX_ROUNDS = 6  # other entries may need an omitted one, and are omitted in the next round
_NEEDED = frozenset({"nodes", "hardware", "parts", "site", "fabrics"})  # sections from which a design is built
# Depth of a location that names an entry. An entry is omitted as a whole: a node without its `max_w` is another node.
_LATER = {  # sections with findings that an omitted entry of another section may cause
    "nodes": ("acceptance", "slurm", "nodes"),
    "hardware": ("acceptance", "slurm", "nodes", "storage"),
    "parts": ("acceptance", "slurm", "nodes", "storage"),
    "overrides": ("acceptance", "slurm", "nodes"),
    "site": ("slurm", "nodes"),
    "fabrics": ("slurm", "storage"),
    "services": ("services", "roles"),
    "software": ("software", "acceptance", "overrides"),
    "slurm": ("slurm", "acceptance"),
}
_ENTRY = {"nodes": 2, "hardware": 2, "fabrics": 2, "parts": 3}
_SITE_ENTRIES = ("feeds", "racks")
_POWER = ("feeds", "pdu")  # keys of a rack: without them only its power is not checked
# Without some nodes, feeds and racks there is less load, weight and heat, so an error that remains is real. These rules
# may be wrong where an entry of their sections is omitted.
_AFFECTED = {
    "NODE": frozenset[str](),
    "RACK": frozenset[str](),
    "RACK-006": frozenset({"site"}),  # a node without a place might have one in an omitted rack
    "POWER": frozenset({"site.power"}),
    "COOL": frozenset({"site.cooling"}),
    "FABRIC": frozenset({"nodes", "hardware", "parts"}),
}


def design_errors(
    draft: Draft,
    model: type[BaseModel],
    findings: Callable[[Draft], Iterable[Finding]],
    catalog: Callable[[Draft], Catalog],
) -> list[Diagnostic]:
    """Return errors that rules of racks, power, cooling and fabrics name whatever is wrong elsewhere.

    `findings` compares the sections of a draft with each other. Nothing is returned where too little is valid.
    """
    sections: set[str] = set()
    for _ in range(2 * _MAX_ROUNDS):
        compared = {finding.loc for finding in findings(draft) if finding.severity == "error"}
        wrong = {loc for loc in draft.broken | compared if not loc or loc[0] in _NEEDED}
        if not wrong:
            return list(_errors(draft, model, catalog(draft), sections))
        if any(not loc or loc[0] not in draft.document.root.entries for loc in wrong):
            return []
        sections |= {name for loc in wrong for name in (str(loc[0]), ".".join(map(str, loc[:2])))}
        root = _remaining_entries(draft.document.root, [entry for loc in wrong for entry in _entries(loc)])
        draft = validate(model, replace(draft.document, root=root, diagnostics=()))[0]
    return []


@dataclass(frozen=True)
class ValidParts:
    """The valid part of a blueprint and an inventory, and the sections with omitted entries."""

    blueprint: Draft
    machines: Draft | None
    sections: frozenset[str]

    def concerns(self, entry: Diagnostic) -> bool:
        """Return whether an error of the rest is real: it does not depend on an omitted part."""
        document = self.blueprint.document
        if entry.source is not document.source and (entry.mark is None or entry.mark.source is None):
            return self.sections.isdisjoint(_LATER)  # an error of the inventory
        affected = {later for section in self.sections for later in _LATER.get(section, ())}
        return _section_at(document.root, entry.mark) not in affected


def valid_parts(
    draft: Draft,
    model: type[BaseModel],
    machines: Draft | None,
    findings: Callable[[Draft, Draft | None], Iterable[Finding]],
) -> ValidParts | None:
    """Leave out entries that are wrong, until the rest is valid; None where too little is. `findings` compares that."""
    sections: set[str] = set()
    for _ in range(_MAX_ROUNDS):
        compared = {finding.loc for finding in findings(draft, machines) if finding.severity == "error"}
        wrong, of_machines = draft.broken | compared, machines.broken if machines else frozenset[Loc]()
        if not wrong and not of_machines:
            return ValidParts(draft, machines, frozenset(sections)) if draft.model else None
        root = draft.document.root
        if any(not loc or loc[0] not in root.entries for loc in wrong) or any(not loc for loc in of_machines):
            return None
        sections |= {str(loc[0]) for loc in wrong}
        draft = _without(draft, model, [entry for loc in wrong for entry in _entries(loc)])
        if machines and of_machines:
            machines = _without(machines, Inventory, [loc[:2] for loc in of_machines])
    return None


def _without(draft: Draft, model: type[BaseModel], locs: list[Loc]) -> Draft:
    return validate(model, replace(draft.document, root=_remaining_entries(draft.document.root, locs), diagnostics=()))[
        0
    ]


def _section_at(root: Mapping, mark: Mark | None) -> str | None:
    """Return the section that a place of a file is in."""
    before = [
        (key_mark.line, key)
        for key, key_mark in root.keys.items()
        if mark is not None and key_mark.source is mark.source and key_mark.line <= mark.line
    ]
    return max(before)[1] if before else None


def _errors(draft: Draft, model: type[BaseModel], catalog: Catalog, sections: set[str]) -> Iterator[Diagnostic]:
    if not draft.sections["nodes"]:
        return
    valid = {name: draft.sections[alias] for alias, name in aliases(model).items()}
    blueprint = cast("Blueprint", model.model_construct(**valid))
    if not (blueprint.site or blueprint.fabrics):
        return
    from hpcforge.design.site import place_site  # noqa: PLC0415 - few clusters have a room or fabrics

    placed = place_site(blueprint, catalog)
    of_room = placed.facility.breaches if blueprint.site else ()
    for breach in (*of_room, *placed.fabric_breaches):
        family = _AFFECTED.get(breach.code.partition("-")[0], _NEEDED)
        if breach.judged == "error" and not sections & _AFFECTED.get(breach.code, family):
            yield diagnostic(draft, breach)


def _entries(loc: Loc) -> Iterator[Loc]:
    """Yield what a location is in, and what needs it."""
    if loc[0] == "networks" and loc[2:] == ("fabric",):
        yield loc[:2]  # without its fabric it would be a network of all nodes
    elif loc[0] != "site":
        yield loc[: _ENTRY.get(str(loc[0]), len(loc))]
    elif loc[3:4] and loc[3] in _POWER:
        yield from ((*loc[:3], key) for key in _POWER)
    else:
        yield loc[: 3 if loc[1:2] and loc[1] in _SITE_ENTRIES else len(loc)]


def _remaining_entries(tree: Mapping, locs: list[Loc]) -> Mapping:
    """Return the mapping without the smallest entry around each location; a list goes as a whole."""
    entries: dict[str, Tree] = {}
    for key, value in tree.entries.items():
        below = [loc[1:] for loc in locs if loc[0] == key]
        if not below:
            entries[key] = value
        elif isinstance(value, Mapping) and all(loc and loc[0] in value.entries for loc in below):
            entries[key] = _remaining_entries(value, below)
    keys = {key: mark for key, mark in tree.keys.items() if key in entries}
    return replace(tree, entries=entries, keys=keys, broken=False)
