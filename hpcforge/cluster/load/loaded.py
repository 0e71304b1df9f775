"""A loaded blueprint, its resolved cluster, the reports of the design's rules, and the files that it was read from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import Diagnostic, in_order
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.public_keys import is_path
from hpcforge.blueprint.reader import mark_of
from hpcforge.blueprint.role_declarations import ROLES, RoleDeclarations
from hpcforge.blueprint.schema import Blueprint
from hpcforge.blueprint.sections.hardware import Parts
from hpcforge.blueprint.site_folders import OwnFolders
from hpcforge.blueprint.untrusted_files import having
from hpcforge.blueprint.validate import Draft
from hpcforge.catalog import Catalog, load_catalog
from hpcforge.cluster import check_table
from hpcforge.cluster.checks.files import armoured, key_lines, private_key
from hpcforge.cluster.checks.gpus import driver_findings
from hpcforge.cluster.model import Cluster, Node
from hpcforge.cluster.networks import Networks, networks
from hpcforge.cluster.resolve import resolve
from hpcforge.cluster.smoke_tests import programs
from hpcforge.design.facility.rules import Breach
from hpcforge.errors import ChangedFileError
from hpcforge.software.rule_checks import breaches as software_breaches

if TYPE_CHECKING:
    from hpcforge.design.fabric.cabling import Cabled
    from hpcforge.design.fabric.graph import Fabric
    from hpcforge.design.facility.design import Remark
    from hpcforge.design.site import PlacedSite
    from hpcforge.design.storage.capacity import ServedFileSystem


@dataclass(frozen=True)
class RuleResults:
    """Findings of the rules of racks, power, cooling, fabrics, cables, storage and software.

    `diagnostics` have what was found before, too.
    `not_checked` is what rules could not judge; of racks, power and cooling nothing where the blueprint has no site.
    """

    diagnostics: tuple[Diagnostic, ...]
    not_checked: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Loaded:
    """A valid blueprint with its resolved cluster. Further parts are computed at first use, once."""

    blueprint: Blueprint
    cluster: Cluster
    found: tuple[Diagnostic, ...]  # warnings of reading and resolving
    design: PlacedSite | None  # None: it has no machines, fabrics or file systems to judge
    role_folders: tuple[Path, ...]  # the shipped folder, then those of the blueprint
    switch_said: Mapping[str, str]  # identity of a switch (name, GUID, MAC) to its name in the design
    blueprint_path: Path
    secrets_path: Path
    inventory_path: Path | None  # None: there is no inventory
    inventory: Inventory | None
    draft: Draft  # the places of the blueprint's values
    included: tuple[Path, ...] = ()  # files that the blueprint includes
    digests: Mapping[Path, str] = field(default_factory=dict)  # SHA-256 of blueprint and inventory when read

    def text(self, path: Path) -> str:
        """Return the blueprint's or the inventory's text, with its line endings. Raises `ChangedFileError`."""
        content = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(content).hexdigest() != self.digests[path]:
            raise ChangedFileError(path)
        return content.decode("utf-8")

    def without_driver(self, nodes: Iterable[Node]) -> list[Diagnostic]:
        """Return the warning for these nodes that an image is installed on, if their GPUs get no driver."""
        return self.draft.place(driver_findings(self.blueprint.software, self.cluster, nodes))

    def require_unchanged(self) -> None:
        """Raise `ChangedFileError` unless blueprint and inventory are the files that were read."""
        for path in self.digests:
            self.text(path)

    @cached_property
    def placed(self) -> PlacedSite:
        """Return the fabrics, and the place of everything."""
        return self.design or _place(self.blueprint, self.catalog, self.inventory)

    @property
    def fabrics(self) -> tuple[Fabric, ...]:
        """Return the fabrics that can be built, in the blueprint's order."""
        return self.design.fabrics if self.design else ()

    @cached_property
    def catalog(self) -> Catalog:
        """Return the catalog with the blueprint's own hardware."""
        return self.design.room.catalog if self.design else catalog_of(self.draft)

    @cached_property
    def served(self) -> tuple[ServedFileSystem, ...]:
        """Return the file systems that nodes serve, in numbers."""
        return _served(self.cluster, self.design) if self.design else ()

    @cached_property
    def judged(self) -> RuleResults:
        """Load racks, cut cables, and judge by all rules."""
        of_room, others = self._of_design if self.design else ((), ())
        shown = [breach for breach in of_room if self.blueprint.site or breach.judged != "not-checked"]
        entries = [diagnostic(self.draft, breach) for breach in (*shown, *others, *self.of_software)]
        every = in_order(self.draft.document.source, [*self.found, *entries])
        return RuleResults(
            diagnostics=tuple(entry for entry in every if entry.severity != "not-checked"),
            not_checked=tuple(entry for entry in every if entry.severity == "not-checked"),
        )

    @property
    def _of_design(self) -> tuple[Sequence[Breach], Sequence[Breach]]:
        """Return the findings of rules of racks, power and cooling, then those of fabrics and storage."""
        placed = self.placed
        return placed.facility.breaches, (*placed.fabric_breaches, *placed.storage_breaches(self.served))

    @property
    def of_software(self) -> tuple[Breach, ...]:
        """Return what rules say of drivers and what goes with them."""
        os, catalog = self.blueprint.software.os, catalog_of(self.draft)
        system = catalog.distributions.get((os.name, os.release))
        return software_breaches(self.blueprint, catalog, system) if system else ()

    @property
    def cables(self) -> tuple[Cabled, ...]:
        """Return the fabrics, with their cables cut to length."""
        return self.placed.cables

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Return results of the rules of the facility, of fabrics, then of storage, in the order of the rules."""
        of_room, others = self._of_design
        return tuple(remark(self.draft, breach) for breach in (*of_room, *others))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return warnings, and what breaks a rule of racks, power, cooling, fabrics, storage and software."""
        return self.judged.diagnostics

    @property
    def not_checked(self) -> tuple[Diagnostic, ...]:
        """Return what rules could not judge."""
        return self.judged.not_checked

    @property
    def wants_lab(self) -> bool:
        """True if the nodes are those of a rehearsal on this machine."""
        return self.blueprint.wants_lab


def resolved(
    draft: Draft,
    machines: Draft | None,
    warnings: list[Diagnostic],
    blueprint_path: Path,
    inventory_path: Path | None,
    roles: OwnFolders,
    declared: RoleDeclarations,
) -> Loaded:
    """Place what stands in racks, connect fabrics, resolve the rest, and check that."""
    catalog, folder = catalog_of(draft), blueprint_path.absolute().parent
    blueprint = cast("Blueprint", draft.model)
    inventory = cast("Inventory", machines.model) if machines else None
    addressed = networks(blueprint, inventory)
    warnings = [*warnings, *draft.place(addressed.wrong_in_blueprint)]
    design = _place(blueprint, catalog, inventory) if _is_designed(blueprint, catalog) else None
    if machines and inventory:
        warnings += machines.place(addressed.wrong_in_inventory)
        fabrics = design.fabrics if design else ()
        warnings += machines.place(check_table.run(check_table.SWITCHES, inventory, fabrics))
    key = private_key(inventory.access if inventory else None, inventory_path)
    cluster = _cluster((blueprint, inventory, catalog), folder, key, design, addressed)
    inputs = check_table.Resolved(blueprint, cluster, catalog, declared, inventory.positions if inventory else ())
    for check in check_table.RESOLVED:  # each check has its own limit of findings
        warnings += draft.place(check.function(inputs))
    return Loaded(
        blueprint=blueprint,
        cluster=cluster,
        found=in_order(draft.document.source, warnings),
        design=design,
        role_folders=roles.folders,
        switch_said=_switch_names(inventory),
        blueprint_path=blueprint_path,
        secrets_path=folder / (blueprint.secrets or f"{blueprint_path.stem}.age"),
        inventory_path=inventory_path,
        inventory=inventory,
        draft=draft,
    )


def catalog_of(draft: Draft) -> Catalog:
    """Return the catalog with the blueprint's own hardware."""
    return load_catalog().extended(draft.sections["hardware"] or {}, draft.sections["parts"] or Parts.model_construct())


def _cluster(
    inputs: tuple[Blueprint, Inventory | None, Catalog],
    folder: Path,
    key: Path | None,
    design: PlacedSite | None,
    addressed: Networks,
) -> Cluster:
    """Resolve a cluster; `folder` has the files that the blueprint names, `key` is for logins to nodes."""
    blueprint = inputs[0]
    cluster = resolve(
        *inputs,
        {name: key_lines(user, folder) for name, user in blueprint.users.items()},
        folder,
        key,
        design.positions if design else {},
        addressed,
        design.fabrics if design else (),
        programs(blueprint),
        _repository_key(blueprint, folder),
    )
    cluster = replace(cluster, feeds=design.power_feeds if design else (), shared_cores=blueprint.wants_lab)
    if any(program.declared for program in cluster.programs):
        return _designed(cluster, design)
    return cluster


def _designed(cluster: Cluster, design: PlacedSite | None) -> Cluster:
    """Add what the design allows: nodes that may work at once, and each client's share of storage."""
    workers = tuple(node.name for node in cluster.workers)
    if design is None:
        return replace(cluster, power_turns=(workers,) if workers else ())
    shares = {system.name: (system.each("read"), system.each("write")) for system in _served(cluster, design)}
    return replace(cluster, power_turns=design.work_turns(workers), storage_shares=shares)


# Blueprints of rehearsals need none of the 40 modules of the design.
def _is_designed(blueprint: Blueprint, catalog: Catalog) -> bool:
    """Return whether the design has anything to judge: virtual machines and rehearsals have no racks and no power."""
    metal = any(catalog.servers[group.hardware].machine == "metal" for group in blueprint.nodes.values())
    return bool(metal or blueprint.site or blueprint.fabrics or blueprint.storage)


def _place(blueprint: Blueprint, catalog: Catalog, inventory: Inventory | None) -> PlacedSite:
    from hpcforge.design.site import place_site  # noqa: PLC0415

    return place_site(blueprint, catalog, inventory)


def _served(cluster: Cluster, placed: PlacedSite) -> tuple[ServedFileSystem, ...]:
    from hpcforge.cluster.served_storage import served  # noqa: PLC0415

    return served(cluster, placed)


def _repository_key(blueprint: Blueprint, folder: Path) -> str:
    """Return the text of the key of NVIDIA's repository; "" where the blueprint names none."""
    source = blueprint.software.sources.nvidia
    return armoured(folder / source.key) if source else ""


def _switch_names(inventory: Inventory | None) -> dict[str, str]:
    switches = inventory.switches if inventory else {}
    return {
        text: name
        for name, switch in switches.items()
        for text in (switch.system_name, switch.guid, switch.mac)
        if text
    }


def remark(draft: Draft, breach: Breach) -> Remark:
    """Return the entry of a design."""
    from hpcforge.design.facility.design import Remark  # noqa: PLC0415

    mark = mark_of(draft.document.root, breach.loc, key=breach.key) if breach.loc else None
    return Remark(
        code=breach.code,
        severity=breach.judged,
        message=breach.message,
        arithmetic=breach.arithmetic,
        hint=breach.hint,
        file=((mark and mark.source) or draft.document.source).name,
        line=mark.line if mark else None,
        column=mark.column if mark else None,
    )


def diagnostic(draft: Draft, breach: Breach) -> Diagnostic:
    """Return the entry of `validate`: the code in front, the arithmetic in the message."""
    mark = mark_of(draft.document.root, breach.loc, key=breach.key) if breach.loc else None
    message = f"{breach.code}: {breach.message}" + (f": {breach.arithmetic}" if breach.arithmetic else "")
    return Diagnostic(breach.judged, message, draft.document.source, mark, breach.hint)


def inputs(loaded: Loaded) -> tuple[Path, ...]:
    """Return the blueprint, then files that it includes, keys, and the folders of roles and smoke tests.

    No secrets, no inventory.
    They include the shipped roles and tests if the blueprint is in a checkout of hpcforge, whose commit has them.
    """
    blueprint, folder = loaded.blueprint, loaded.blueprint_path.absolute().parent
    keys = [folder / key for user in blueprint.users.values() for key in user.keys if is_path(key)]
    repository = blueprint.software.sources.nvidia
    tests = blueprint.acceptance.tests.folders.values() if blueprint.acceptance else ()
    return (
        loaded.blueprint_path,
        *loaded.included,
        *keys,
        *([folder / repository.key] if repository else []),
        *(role_folder for place in loaded.role_folders[1:] for role_folder in having(place, ROLES.file)),
        *(test.path for test in tests if test.path.parent != bundled.smoke_tests()),
        *(role.path for role in loaded.cluster.site_roles),
        *([bundled.roles(), bundled.smoke_tests()] if _in_checkout(loaded.blueprint_path.resolve()) else []),
    )


def _in_checkout(path: Path) -> bool:
    """Return whether a file is in hpcforge's own checkout, and in no repository inside it."""
    root = bundled.root()
    inside = [folder for folder in path.parents if folder.is_relative_to(root)]
    return bool(inside) and (root / ".git").exists() and not any((folder / ".git").exists() for folder in inside[:-1])
