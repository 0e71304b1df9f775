"""Load a blueprint and an inventory: from their paths to a `Cluster`, with every error of the files.

`load` reads the files and runs the checks, `loaded` has the result with the remarks of the design, and
`remaining_errors` judges the design as far as other errors allow. It may import the same packages as
`hpcforge.cluster`. Single checks do not belong here, but into `hpcforge.cluster.checks`; secrets are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from hpcforge import bundled
from hpcforge.blueprint import reader
from hpcforge.blueprint.diagnostics import MAX_SHOWN, Diagnostic, InvalidInput, in_order, quote
from hpcforge.blueprint.includes import with_includes
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.role_declarations import ROLES, RoleDeclarations, read_declared
from hpcforge.blueprint.schema import Blueprint, blueprint_model
from hpcforge.blueprint.sections.hardware import Parts
from hpcforge.blueprint.site_folders import OwnFolders, own_folders
from hpcforge.blueprint.smoke_tests import SMOKE_TESTS, load_smoke_tests
from hpcforge.blueprint.validate import Draft, Finding, validate
from hpcforge.cluster import check_table
from hpcforge.cluster.checks.files import RELATIVE, is_there
from hpcforge.cluster.load.loaded import Loaded, catalog_of, diagnostic, resolved
from hpcforge.cluster.load.remaining_errors import MAX_JUDGED, design_errors, valid_parts

_NOTHING: Mapping[Path, str] = MappingProxyType({})


def _nothing_further(_: Loaded) -> tuple[Diagnostic, ...]:
    return ()


def load(
    blueprint_path: Path,
    inventory_path: Path | None = None,
    *,
    judged: bool = False,
    instead: Mapping[Path, str] = _NOTHING,
    further: Callable[[Loaded], Iterable[Diagnostic]] = _nothing_further,
) -> Loaded:
    """Read a blueprint, and the inventory given here or named in it. Raises InvalidInput with every error of both.

    `diagnostics` has the broken rules of racks, power, cooling and fabrics; with `judged` they raise, too.
    `instead` has text that replaces the content of a file before it is written. `further` checks the resolved part
    if there are other errors: all errors appear at once.
    """
    own = _document(blueprint_path, instead, reader.MAX_VALUES)
    included, digests = with_includes(own, blueprint_path), {blueprint_path: own.sha256}
    document = included.document
    roles, tests = _own_folders(document, blueprint_path)
    declared = _declared(roles.folders)
    model = _model(roles.folders, tests.folders, _named(document.root))
    draft, diagnostics = validate(model, tests.document)
    diagnostics += draft.place((*roles.findings, *tests.findings))
    inventory_named = None if inventory_path else _named_inventory(draft, blueprint_path.parent)
    inventory_path = inventory_path or inventory_named
    machines: Draft | None = None
    if inventory_path:
        read = _document(inventory_path, instead, reader.MAX_MACHINE_VALUES)
        digests[inventory_path] = read.sha256
        machines, errors = validate(Inventory, read)
        if inventory_named and inventory_named not in instead and not is_there(inventory_named):
            hint = f"{RELATIVE.format('blueprint')}; looked for as {inventory_named.absolute()}"
            errors = draft.place(
                [Finding(("inventory",), f"the inventory {quote(inventory_named.name)} does not exist", hint)]
            )
        diagnostics += errors + machines.place(check_table.run(check_table.INVENTORY_FILES, machines, inventory_path))
    compared = _compare(draft, machines)
    diagnostics += [*draft.place(compared[0]), *(machines.place(compared[1]) if machines else [])]
    diagnostics += draft.place(check_table.run(check_table.FILES, draft, blueprint_path.absolute().parent))
    if any(entry.severity == "error" for entry in diagnostics):
        if draft.document.complete and len(diagnostics) < MAX_JUDGED:
            diagnostics += design_errors(draft, model, _blueprint_findings, catalog_of)
            paths = (blueprint_path, inventory_path)
            diagnostics += _later_errors(draft, model, machines, paths, roles, declared, further)
        _raise_errors(draft, diagnostics)
    loaded = resolved(draft, machines, diagnostics, blueprint_path, inventory_path, roles, declared)
    loaded = replace(loaded, included=included.files, digests=digests)
    if judged or any(entry.severity == "error" for entry in loaded.found):
        _raise_errors(draft, (*loaded.diagnostics, *further(loaded)))
    return loaded


def _later_errors(
    draft: Draft,
    model: type[Blueprint],
    machines: Draft | None,
    paths: tuple[Path, Path | None],
    roles: OwnFolders,
    declared: RoleDeclarations,
    further: Callable[[Loaded], Iterable[Diagnostic]],
) -> list[Diagnostic]:
    """Return errors of what a blueprint without its errors resolves to: of addresses, storage, software."""
    folder = paths[0].absolute().parent

    def findings(part: Draft, part_of_machines: Draft | None) -> Iterator[Finding]:
        yield from _compare(part, part_of_machines)[0]
        yield from check_table.run(check_table.FILES, part, folder)

    parts = valid_parts(draft, model, machines, findings)
    if parts is None:
        return []
    loaded = resolved(parts.blueprint, parts.machines, [], *paths, roles, declared)
    breaches = (*loaded.placed.storage_breaches(loaded.served), *loaded.of_software)
    entries = (*loaded.found, *(diagnostic(draft, breach) for breach in breaches))
    errors = (*(entry for entry in entries if entry.severity == "error"), *further(loaded))
    return [entry for entry in errors if parts.concerns(entry)]


def folders_of(blueprint_path: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the folders of roles, and those of smoke tests: the shipped one, then the blueprint's.

    Raise InvalidInput with the errors there.
    """
    document = with_includes(reader.read_file(blueprint_path, reader.MAX_VALUES), blueprint_path).document
    roles, tests = _own_folders(document, blueprint_path)
    findings = (*roles.findings, *tests.findings)
    errors = [*document.diagnostics, *(finding.place(document.root, document.source) for finding in findings)]
    if errors:
        raise InvalidInput(errors)
    return roles.folders, tests.folders


def own_models(blueprint_path: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of a blueprint's own models, by the table of the catalog that they extend."""
    root = with_includes(reader.read_file(blueprint_path, reader.MAX_VALUES), blueprint_path).document.root
    places = {"servers": ("hardware",), **{table: ("parts", table) for table in Parts.model_fields}}
    sections = {table: reader.find(root, place) for table, place in places.items()}
    return {table: tuple(section.entries) for table, section in sections.items() if isinstance(section, reader.Mapping)}


def _own_folders(document: reader.Document, blueprint_path: Path) -> tuple[OwnFolders, OwnFolders]:
    """Return the folders of roles, then of smoke tests; the latter's document is the one to read."""
    folder = blueprint_path.absolute().parent
    roles = own_folders(document, ROLES, folder, bundled.roles())
    return roles, own_folders(roles.document, SMOKE_TESTS, folder, bundled.smoke_tests())


@cache
def _declared(role_folders: tuple[Path, ...]) -> RoleDeclarations:
    return read_declared(*role_folders)


@cache
def _model(role_folders: tuple[Path, ...], test_folders: tuple[Path, ...], named: frozenset[str]) -> type[Blueprint]:
    return blueprint_model(_declared(role_folders), load_smoke_tests(*test_folders, named=named), named)


def _named(root: reader.Mapping) -> frozenset[str]:
    """Return the roles and smoke tests that a blueprint names."""
    sections = (reader.find(root, ("roles",)), reader.find(root, ("acceptance", "tests")))
    return frozenset(key for section in sections if isinstance(section, reader.Mapping) for key in section.entries)


def _document(path: Path, instead: Mapping[Path, str], max_values: int) -> reader.Document:
    if path in instead:
        return reader.read_bytes(instead[path].encode(), str(path), max_values)
    return reader.read_file(path, max_values)


def _raise_errors(draft: Draft, diagnostics: Iterable[Diagnostic]) -> None:
    ordered = in_order(draft.document.source, (entry for entry in diagnostics if entry.severity != "not-checked"))
    if any(entry.severity == "error" for entry in ordered):
        raise InvalidInput(ordered)


def _compare(draft: Draft, machines: Draft | None) -> tuple[list[Finding], list[Finding]]:
    """Check blueprint, catalog and inventory against each other; return the errors of blueprint and inventory."""
    if not draft.document.complete:
        return [], []
    if machines is not None and not machines.document.complete:
        return _first(_blueprint_findings(draft)), []
    addresses = check_table.run(check_table.ADDRESSES, draft, machines)
    of_inventory = check_table.inventory_findings(machines, draft) if machines else ()
    return _first(chain(_blueprint_findings(draft), addresses)), _first(of_inventory)


def _blueprint_findings(draft: Draft) -> Iterator[Finding]:
    return check_table.blueprint_findings(draft, catalog_of(draft))


def _first(findings: Iterable[Finding]) -> list[Finding]:
    """Return them up to as many errors as are shown: where there are more, the rest is not looked for."""
    kept_findings: list[Finding] = []
    errors = 0
    for finding in findings:
        kept_findings.append(finding)
        errors += finding.severity == "error"
        if errors == MAX_SHOWN:
            break
    return kept_findings


def _named_inventory(draft: Draft, folder: Path) -> Path | None:
    written = draft.sections["inventory"]
    return folder / written if isinstance(written, str) and draft.intact("inventory") else None
