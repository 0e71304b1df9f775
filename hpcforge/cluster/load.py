"""From the paths of a blueprint and an inventory to a `Cluster`: reads the files, says everything that is wrong."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import cast

from hpcforge import bundled
from hpcforge.blueprint import checks, reader
from hpcforge.blueprint.diagnostics import MAX_SHOWN, Diagnostic, InvalidInput, did_you_mean, in_order, quote
from hpcforge.blueprint.hardware import Parts
from hpcforge.blueprint.includes import with_includes
from hpcforge.blueprint.inventory import Inventory, InventoryAccess
from hpcforge.blueprint.public_keys import is_path
from hpcforge.blueprint.role_declarations import ROLES, RoleDeclarations, read_declared
from hpcforge.blueprint.schema import Blueprint, blueprint_model
from hpcforge.blueprint.site_folders import OwnFolders, own_folders
from hpcforge.blueprint.smoke_tests import SMOKE_TESTS, load_smoke_tests
from hpcforge.blueprint.untrusted_files import OutsideError, files_inside
from hpcforge.blueprint.validate import Draft, Finding, validate
from hpcforge.catalog import Catalog, load_catalog
from hpcforge.cluster.checks import check_addresses, check_catalog, check_inventory
from hpcforge.cluster.gpu_checks import driver_findings
from hpcforge.cluster.hardware_checks import memory_findings
from hpcforge.cluster.interface_checks import interface_findings, route_findings
from hpcforge.cluster.key_files import armoured, key_file_problems, key_lines, repository_key_problems
from hpcforge.cluster.model import Cluster, Node
from hpcforge.cluster.networks import networks
from hpcforge.cluster.nvidia import wanted_fingerprint
from hpcforge.cluster.release_checks import release_findings
from hpcforge.cluster.remaining_errors import MAX_JUDGED, design_errors, valid_parts
from hpcforge.cluster.resolve import resolve
from hpcforge.cluster.rule_diagnostics import diagnostic, remark
from hpcforge.cluster.slurm_checks import topology_findings
from hpcforge.cluster.smoke_tests import impossible_tests, programs
from hpcforge.cluster.storage_checks import served, storage_breaches
from hpcforge.cluster.subordinate_checks import subordinate_findings
from hpcforge.cluster.variables import missing_variables
from hpcforge.design.fabric.cabling import Cabled
from hpcforge.design.fabric.fabrics import Fabrics, fabrics
from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.placement import lay, mounts
from hpcforge.design.fabric.ports import PortMaps
from hpcforge.design.facility.design import Remark
from hpcforge.design.facility.design_of_room import Facility, facility
from hpcforge.design.facility.layout import Layout
from hpcforge.design.facility.limits import power_feeds
from hpcforge.design.facility.placement import place
from hpcforge.design.facility.power_on import budgets, working
from hpcforge.design.facility.room import PinnedPosition, Room, room
from hpcforge.design.facility.rules import Breach
from hpcforge.design.storage.capacity import ServedFileSystem
from hpcforge.errors import ChangedFileError
from hpcforge.software.rule_checks import breaches as software_breaches

_RELATIVE = "a path is relative to the"
_NOTHING: Mapping[Path, str] = MappingProxyType({})


@dataclass(frozen=True)
class RuleResults:
    """Return findings of the rules for racks, power, cooling, fabrics, cables, storage and software.

    `diagnostics` have what was found before, too.
    `not_checked` is what rules could not judge; of racks, power and cooling nothing where the blueprint has no site.
    """

    facility: Facility
    cables: tuple[Cabled, ...]
    remarks: tuple[Remark, ...]
    diagnostics: tuple[Diagnostic, ...]
    not_checked: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Loaded:
    """A blueprint that can be read, and what it resolves to. What is asked for beyond that is judged then, once."""

    blueprint: Blueprint
    cluster: Cluster
    found: tuple[Diagnostic, ...]  # by reading and resolving: warnings
    room: Room
    layout: Layout  # of the room
    connected: Fabrics  # fabrics as the blueprint asks for them
    role_folders: tuple[Path, ...]  # the shipped one, then those that the blueprint names
    switch_said: Mapping[str, str]  # what switches say of themselves (name, GUID, MAC) to their names in the design
    blueprint_path: Path
    secrets_path: Path
    inventory_path: Path | None  # what was read beside the blueprint; None: nothing
    inventory: Inventory | None
    draft: Draft  # where things stand in the blueprint
    included: tuple[Path, ...] = ()  # files that the blueprint includes
    digests: Mapping[Path, str] = field(default_factory=dict)  # SHA-256 of blueprint and inventory as they were read

    def text(self, path: Path) -> str:
        """Return the blueprint's or the inventory's text, with its line endings. Raises `ChangedFileError`."""
        content = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(content).hexdigest() != self.digests[path]:
            raise ChangedFileError(path)
        return content.decode("utf-8")

    def without_driver(self, nodes: Iterable[Node]) -> list[Diagnostic]:
        """Return the warning of these nodes, of which an image is installed, where their GPUs get no driver."""
        return self.draft.place(driver_findings(self.blueprint.software, self.cluster, nodes))

    def require_unchanged(self) -> None:
        """Raise `ChangedFileError` unless blueprint and inventory are the files that were read."""
        for path in self.digests:
            self.text(path)

    @property
    def fabrics(self) -> tuple[Fabric, ...]:
        """Those that can be built, in the blueprint's order."""
        return self.connected.built

    @cached_property
    def served(self) -> tuple[ServedFileSystem, ...]:
        """The file systems that nodes serve, in numbers."""
        return served(self.cluster, self.room, {fabric.name: fabric for fabric in self.fabrics})

    @cached_property
    def judged(self) -> RuleResults:
        """Load racks, cut cables, and judge by all rules."""
        placed, laid = facility(self.room, self.layout), lay(self.room, self.layout, self.fabrics)
        source = self.draft.document.source
        of_room = [breach for breach in placed.breaches if self.blueprint.site or breach.judged != "not-checked"]
        of_storage = tuple(storage_breaches(self.room, self.served))
        breaches = (*of_room, *self.connected.breaches, *laid.breaches, *of_storage, *self.of_software)
        every = in_order(source, [*self.found, *(diagnostic(self.draft, breach) for breach in breaches)])
        all_breaches = (*placed.breaches, *self.connected.breaches, *laid.breaches, *of_storage)
        return RuleResults(
            facility=placed,
            cables=laid.fabrics,
            remarks=tuple(remark(self.draft, breach) for breach in all_breaches),
            diagnostics=tuple(entry for entry in every if entry.severity != "not-checked"),
            not_checked=tuple(entry for entry in every if entry.severity == "not-checked"),
        )

    @property
    def of_software(self) -> tuple[Breach, ...]:
        """Return what rules say of drivers and what goes with them."""
        os, catalog = self.blueprint.software.os, _catalog(self.draft)
        system = catalog.distributions.get((os.name, os.release))
        return software_breaches(self.blueprint, catalog, system) if system else ()

    @property
    def facility(self) -> Facility:
        """Racks, power and cooling, judged."""
        return self.judged.facility

    @property
    def cables(self) -> tuple[Cabled, ...]:
        """The fabrics, with their cables cut to length."""
        return self.judged.cables

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What rules say: the facility's, the fabrics', then those of storage, in the order of the rules."""
        return self.judged.remarks

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Warnings, and what breaks a rule of racks, power, cooling, fabrics, storage and software."""
        return self.judged.diagnostics

    @property
    def not_checked(self) -> tuple[Diagnostic, ...]:
        """What rules could not judge."""
        return self.judged.not_checked

    @property
    def wants_lab(self) -> bool:
        """True if the nodes are those of a rehearsal on this machine."""
        return self.blueprint.wants_lab


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

    What breaks a rule of racks, power, cooling and fabrics is in `diagnostics`; with `judged` it raises, too.
    `instead` has text to be read in place of what is in a file: what it would say once it is written. `further` judges
    what could be resolved, where that raises: all that is wrong comes at once.
    """
    own = _document(blueprint_path, instead, reader.MAX_VALUES)
    included, digests = with_includes(own, blueprint_path), {blueprint_path: own.sha256}
    document = included.document
    roles, tests = _own_folders(document, blueprint_path)
    declared, model = _declared(roles.folders, tests.folders)
    draft, diagnostics = validate(model, tests.document)
    diagnostics += draft.place((*roles.findings, *tests.findings))
    named = None if inventory_path else _named_inventory(draft, blueprint_path.parent)
    inventory_path = inventory_path or named
    machines: Draft | None = None
    if inventory_path:
        read = _document(inventory_path, instead, reader.MAX_MACHINE_VALUES)
        digests[inventory_path] = read.sha256
        machines, found = validate(Inventory, read)
        if named and named not in instead and not _is_there(named):
            hint = f"{_RELATIVE} blueprint; looked for as {named.absolute()}"
            found = draft.place([Finding(("inventory",), f"there is no inventory {quote(named.name)} there", hint)])
        diagnostics += found + machines.place(_unreadable_key(machines, inventory_path))
    compared = _compare(draft, machines)
    diagnostics += [*draft.place(compared[0]), *(machines.place(compared[1]) if machines else [])]
    diagnostics += draft.place(_unreadable(draft, blueprint_path.absolute().parent))
    if any(entry.severity == "error" for entry in diagnostics):
        if draft.document.complete and len(diagnostics) < MAX_JUDGED:
            diagnostics += design_errors(draft, model, _of_blueprint, _catalog)
            paths = (blueprint_path, inventory_path)
            diagnostics += _later_errors(draft, model, machines, paths, roles, declared, further)
        _raise_errors(draft, diagnostics)
    loaded = _loaded(draft, machines, diagnostics, blueprint_path, inventory_path, roles, declared)
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

    def findings(some: Draft, known: Draft | None) -> Iterator[Finding]:
        yield from _compare(some, known)[0]
        yield from _unreadable(some, folder)

    parts = valid_parts(draft, model, machines, findings)
    if parts is None:
        return []
    loaded = _loaded(parts.blueprint, parts.machines, [], *paths, roles, declared)
    breaches = (*storage_breaches(loaded.room, loaded.served), *loaded.of_software)
    resolved = (*loaded.found, *(diagnostic(draft, breach) for breach in breaches))
    found = (*(entry for entry in resolved if entry.severity == "error"), *further(loaded))
    return [entry for entry in found if parts.concerns(entry)]


def folders_of(blueprint_path: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The folders of roles, and those of smoke tests: the shipped one, then those that a blueprint names.

    Raises InvalidInput with what is wrong there.
    """
    document = with_includes(reader.read_file(blueprint_path, reader.MAX_VALUES), blueprint_path).document
    roles, tests = _own_folders(document, blueprint_path)
    findings = (*roles.findings, *tests.findings)
    found = [*document.diagnostics, *(finding.place(document.root, document.source) for finding in findings)]
    if found:
        raise InvalidInput(found)
    return roles.folders, tests.folders


def own_models(blueprint_path: Path) -> dict[str, tuple[str, ...]]:
    """The names of the models that a blueprint has of its own, by the table of the catalog that they add to."""
    root = with_includes(reader.read_file(blueprint_path, reader.MAX_VALUES), blueprint_path).document.root
    places = {"servers": ("hardware",), **{table: ("parts", table) for table in Parts.model_fields}}
    found = {table: reader.find(root, place) for table, place in places.items()}
    return {table: tuple(section.entries) for table, section in found.items() if isinstance(section, reader.Mapping)}


def _own_folders(document: reader.Document, blueprint_path: Path) -> tuple[OwnFolders, OwnFolders]:
    """Of roles, then of smoke tests; the document of the latter is to be read."""
    folder = blueprint_path.absolute().parent
    roles = own_folders(document, ROLES, folder, bundled.roles())
    return roles, own_folders(roles.document, SMOKE_TESTS, folder, bundled.smoke_tests())


@cache
def _declared(
    role_folders: tuple[Path, ...], test_folders: tuple[Path, ...]
) -> tuple[RoleDeclarations, type[Blueprint]]:
    declared = read_declared(*role_folders)
    return declared, blueprint_model(declared, load_smoke_tests(*test_folders))


def _document(path: Path, instead: Mapping[Path, str], max_values: int) -> reader.Document:
    if path in instead:
        return reader.read_bytes(instead[path].encode(), str(path), max_values)
    return reader.read_file(path, max_values)


def _raise_errors(draft: Draft, diagnostics: Iterable[Diagnostic]) -> None:
    ordered = in_order(draft.document.source, (entry for entry in diagnostics if entry.severity != "not-checked"))
    if any(entry.severity == "error" for entry in ordered):
        raise InvalidInput(ordered)


def _loaded(
    draft: Draft,
    machines: Draft | None,
    warnings: list[Diagnostic],
    blueprint_path: Path,
    inventory_path: Path | None,
    roles: OwnFolders,
    declared: RoleDeclarations,
) -> Loaded:
    """Place what stands in racks, connect fabrics, and resolve the rest."""
    folder, source, catalog = blueprint_path.absolute().parent, draft.document.source, _catalog(draft)
    blueprint = cast("Blueprint", draft.model)
    inventory = cast("Inventory", machines.model) if machines else None
    pins = {name: PinnedPosition(at.rack, at.u) for name, at in (inventory.positions if inventory else {}).items()}
    addressed = networks(blueprint, inventory)
    warnings = [*warnings, *draft.place(addressed.wrong_in_blueprint)]
    warnings += machines.place(addressed.wrong_in_inventory) if machines else []
    connected = fabrics(blueprint, catalog, inventory)
    warnings += machines.place(_unknown_switches(inventory, connected.built)) if machines and inventory else []
    floor = room(blueprint, catalog, pins, mounts(blueprint, catalog, connected.built))
    layout = place(floor)
    cluster = resolve(
        blueprint,
        inventory,
        catalog,
        {name: key_lines(user, folder) for name, user in blueprint.users.items()},
        folder,
        _private_key(inventory.access if inventory else None, inventory_path),
        {name: (rack, item.u) for name, (rack, item) in layout.place_of.items()},
        addressed,
        connected.built,
        programs(blueprint),
        _repository_key(blueprint, folder),
    )
    cluster = replace(cluster, feeds=power_feeds(floor), shared_cores=blueprint.wants_lab)
    if any(program.declared for program in cluster.programs):
        cluster = _designed(cluster, floor, layout, {fabric.name: fabric for fabric in connected.built})
    warnings += draft.place(chain(interface_findings(cluster), route_findings(cluster)))
    warnings += draft.place(_empty(blueprint, cluster))
    warnings += draft.place(memory_findings(blueprint, cluster, catalog, declared.memory))
    warnings += draft.place(release_findings(cluster))
    warnings += draft.place(topology_findings(blueprint, cluster, catalog, pins))
    warnings += draft.place(impossible_tests(blueprint, cluster))
    warnings += draft.place(missing_variables(blueprint, declared, cluster))
    warnings += draft.place(subordinate_findings(cluster))
    warnings += draft.place(driver_findings(blueprint.software, cluster))
    return Loaded(
        blueprint=blueprint,
        cluster=cluster,
        found=in_order(source, warnings),
        room=floor,
        layout=layout,
        connected=connected,
        role_folders=roles.folders,
        switch_said=_said(inventory),
        blueprint_path=blueprint_path,
        secrets_path=folder / (blueprint.secrets or f"{blueprint_path.stem}.age"),
        inventory_path=inventory_path,
        inventory=inventory,
        draft=draft,
    )


def _designed(cluster: Cluster, floor: Room, layout: Layout, built: Mapping[str, Fabric]) -> Cluster:
    """The cluster with what the design allows: nodes that may work at once, and each client's share of storage."""
    turns = working(budgets(floor, layout), [node.name for node in cluster.workers]).turns
    shares = {system.name: (system.each("read"), system.each("write")) for system in served(cluster, floor, built)}
    return replace(cluster, power_turns=turns, storage_shares=shares)


def _empty(blueprint: Blueprint, cluster: Cluster) -> Iterator[Finding]:
    """Yield sets of the wrong size that name racks of which it was not known before what stands there."""
    empty = [partition.name for partition in cluster.slurm.partitions if not partition.nodes]
    for name in empty:
        yield checks.no_worker(("slurm", "partitions", name, "nodes"), blueprint.slurm.partitions[name].nodes)
    for reservation in cluster.slurm.reservations:
        if not reservation.nodes:
            loc = ("slurm", "reservations", reservation.name, "nodes")
            yield checks.no_worker(loc, blueprint.slurm.reservations[reservation.name].nodes)
    for index, role in enumerate(cluster.site_roles):
        if not role.on:
            yield checks.no_node(("software", "site_roles", index, "on"), blueprint.software.site_roles[index].on)
    for name, service in blueprint.services.by_name().items():
        if service.on_set is not None:
            offer, on = blueprint.services.offers[name], cluster.services[name].on
            yield from checks.service_findings(name, offer, ("services", name, "on"), on)


def _said(inventory: Inventory | None) -> dict[str, str]:
    switches = inventory.switches if inventory else {}
    return {
        text: name
        for name, switch in switches.items()
        for text in (switch.system_name, switch.guid, switch.mac)
        if text
    }


def _unknown_switches(inventory: Inventory, built: Iterable[Fabric]) -> Iterator[Finding]:
    """Yield switches of the inventory that no fabric has, and ports that a switch does not have."""
    places = {each.name: (fabric, at) for fabric in built for at, each in enumerate(fabric.devices) if each.model}
    known = list(places)
    for name, switch in inventory.switches.items():
        if name not in places:
            hint = did_you_mean(name, known) or "`hpcforge design` lists the names of switches"
            yield Finding(("switches", name), f"{quote(name)} is not a switch of the design", hint, key=True)
        elif switch.ports:
            fabric, at = places[name]
            labels = [port.label for port in PortMaps(fabric).of(at).ports]
            for label in switch.ports.keys() - set(labels):
                message, hint = f"{name} has no port {label}", f"its ports are {labels[0]} to {labels[-1]}"
                yield Finding(("switches", name, "ports", label), message, hint, key=True)


def _compare(draft: Draft, machines: Draft | None) -> tuple[list[Finding], list[Finding]]:
    """Check blueprint, catalog and inventory against each other; return what is wrong in blueprint and inventory."""
    if not draft.document.complete:
        return [], []
    if machines is not None and not machines.document.complete:
        return _first(_of_blueprint(draft)), []
    of_inventory = check_inventory(machines, draft) if machines else ()
    return _first(chain(_of_blueprint(draft), check_addresses(draft, machines))), _first(of_inventory)


def _of_blueprint(draft: Draft) -> Iterator[Finding]:
    yield from checks.check(draft)
    yield from check_catalog(draft, _catalog(draft))


def _first(findings: Iterable[Finding]) -> list[Finding]:
    """Return them up to as many errors as are shown: where there are more, the rest is not looked for."""
    found: list[Finding] = []
    errors = 0
    for finding in findings:
        found.append(finding)
        errors += finding.severity == "error"
        if errors == MAX_SHOWN:
            break
    return found


def _catalog(draft: Draft) -> Catalog:
    """The catalog with the blueprint's own hardware."""
    return load_catalog().extended(draft.sections["hardware"] or {}, draft.sections["parts"] or Parts.model_construct())


def _named_inventory(draft: Draft, folder: Path) -> Path | None:
    named = draft.sections["inventory"]
    return folder / named if isinstance(named, str) and draft.intact("inventory") else None


def _private_key(access: InventoryAccess | None, inventory_path: Path | None) -> Path | None:
    if inventory_path is None or access is None or access.key is None:
        return None
    return inventory_path.absolute().parent / _own(Path(access.key))


def _own(path: Path) -> Path:
    """Return the path with `~` expanded; a path with an unknown user stays unchanged."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _unreadable_key(machines: Draft, inventory_path: Path) -> Iterator[Finding]:
    """Yield that the private key an inventory names is not there."""
    key = _private_key(machines.sections["access"], inventory_path)
    if key and not (_is_there(key) and key.is_file()) and machines.intact("access", "key"):
        yield Finding(("access", "key"), f"there is no key {quote(key.name)} there", f"{_RELATIVE} inventory")


def _unreadable(draft: Draft, folder: Path) -> Iterator[Finding]:
    """Yield the files and folders that a blueprint names and that cannot be used."""
    for name, user in (draft.sections["users"] or {}).items():
        for index, key in enumerate(user.keys):
            if is_path(key) and draft.intact("users", name, "keys"):
                for message, hint in key_file_problems(folder / key):
                    yield Finding(("users", name, "keys", index), message, hint)
    software = draft.sections["software"]
    if software and draft.intact("software", "site_roles"):
        for index, role in enumerate(software.site_roles):
            for message, hint in _role_problems(folder / role.path, role.path):
                yield Finding(("software", "site_roles", index, "path"), message, hint)
    if software and software.sources.nvidia and all(draft.intact("software", key) for key in ("os", "sources")):
        asked = software.sources.nvidia
        for message, hint in repository_key_problems(folder / asked.key, wanted_fingerprint(software)):
            yield Finding(("software", "sources", "nvidia", "key"), message, hint)


def _repository_key(blueprint: Blueprint, folder: Path) -> str:
    """The text of the key of NVIDIA's repository; "" where the blueprint names none."""
    asked = blueprint.software.sources.nvidia
    return armoured(folder / asked.key) if asked else ""


def _is_there(path: Path) -> bool:
    """Tell whether a path leads to something; not if a part of it is too long, or may not be entered."""
    try:
        return path.exists()
    except OSError:
        return False


def _role_problems(path: Path, given: str) -> Iterator[tuple[str, str | None]]:
    """Yield what is wrong with the folder of a site's Ansible role."""
    if not _is_there(path) or not path.is_dir():
        yield f"there is no folder {quote(given)}", f"{_RELATIVE} blueprint"
    elif not any((path / "tasks" / name).is_file() for name in ("main.yml", "main.yaml")):
        yield f"{quote(path.name)} is not an Ansible role: it has no tasks/main.yml", None
    elif not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", path.name):
        yield f"{quote(path.name)} is not a role name", "letters, digits, _ and -"
    else:
        try:
            files_inside(path)
        except OutsideError as error:
            yield str(error), "a role is planned by its content: copy what a link points to"
        except OSError as error:
            yield f"{quote(path.name)} cannot be read: {error.strerror}", None
