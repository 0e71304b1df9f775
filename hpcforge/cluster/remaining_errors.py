"""Errors of design that do not depend on a file's other errors: what is wrong is left out, and the rest is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import cast

from pydantic import BaseModel

from hpcforge.blueprint.diagnostics import Diagnostic
from hpcforge.blueprint.reader import Loc, Mapping, Tree
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.schema_hints import aliases
from hpcforge.blueprint.validate import Draft, Finding, validate
from hpcforge.catalog import Catalog
from hpcforge.cluster.rule_diagnostics import diagnostic
from hpcforge.fabric.fabrics import fabrics
from hpcforge.fabric.placement import lay, mounts
from hpcforge.facility.design_of_room import facility
from hpcforge.facility.placement import place
from hpcforge.facility.room import room

_MAX_ROUNDS = 6  # what is left out may be missed elsewhere, and that entry is left out next
_NEEDED = frozenset({"nodes", "hardware", "parts", "site", "fabrics"})  # the sections that a design is made from
# A section of these with something left out makes a rule of the kind say what may not be so. Without some of its nodes
# a rack has less load, weight and heat: an error that stays is one.
_SECTIONS = {"NODE": {"parts"}, "RACK": {"site", "parts"}, "POWER": {"site", "parts"}, "COOL": {"site", "parts"}}


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
    for _ in range(_MAX_ROUNDS):
        compared = {finding.loc for finding in findings(draft) if finding.severity == "error"}
        wrong = {loc for loc in draft.broken | compared if not loc or loc[0] in _NEEDED}
        if not wrong:
            return list(_errors(draft, model, catalog(draft), sections))
        if any(not loc or loc[0] not in draft.document.root.entries for loc in wrong):
            return []
        sections |= {str(loc[0]) for loc in wrong}
        root = _left(draft.document.root, list(wrong))
        draft = validate(model, replace(draft.document, root=root, diagnostics=()))[0]
    return []


def _errors(draft: Draft, model: type[BaseModel], catalog: Catalog, sections: set[str]) -> Iterator[Diagnostic]:
    if not draft.sections["nodes"]:
        return
    valid = {name: draft.sections[alias] for alias, name in aliases(model).items()}
    blueprint = cast("Blueprint", model.model_construct(**valid))
    connected = fabrics(blueprint, catalog)
    floor = room(blueprint, catalog, {}, mounts(blueprint, catalog, connected.built))
    layout = place(floor)
    of_room = facility(floor, layout).breaches if blueprint.site else ()
    for breach in (*of_room, *connected.breaches, *lay(floor, layout, connected.built).breaches):
        needed = _SECTIONS.get(breach.code.partition("-")[0], _NEEDED)
        if breach.judged == "error" and not sections & needed:
            yield diagnostic(draft, breach)


def _left(tree: Mapping, locs: list[Loc]) -> Mapping:
    """Return the mapping without the smallest entry around each location; a list goes as a whole."""
    entries: dict[str, Tree] = {}
    for key, value in tree.entries.items():
        below = [loc[1:] for loc in locs if loc[0] == key]
        if not below:
            entries[key] = value
        elif isinstance(value, Mapping) and all(loc and loc[0] in value.entries for loc in below):
            entries[key] = _left(value, below)
    keys = {key: mark for key, mark in tree.keys.items() if key in entries}
    return replace(tree, entries=entries, keys=keys, broken=False)
