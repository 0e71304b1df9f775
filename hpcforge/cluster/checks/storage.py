"""Check file systems against the catalog's kinds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcforge.blueprint import hostlist
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.sections.nodes import LabSection
from hpcforge.blueprint.sections.storage import FileSystemSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import counted
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.catalog import Catalog
from hpcforge.catalog.file_systems import FileSystemKind

Findings = Iterator[Finding]

_EXAMPLES = {"glusterfs": "examples/glusterfs", "s3": "examples/object_storage"}  # kinds with an example of a site role

_MOUNT_OPTIONS = {  # options that decide when, and by which program, it is mounted
    "_netdev": "hpcforge mounts it after the network is up",
    "auto": "hpcforge mounts it at every start",
    "defaults": "it is not a mount option",
    "noauto": "hpcforge mounts it at every start",
    "nofail": "a start never waits for it",
    "owner": "root mounts it",
    "user": "root mounts it",
    "users": "root mounts it",
}


def storage_kind_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield unknown kinds, and addresses and options that are wrong for their kind."""
    systems: dict[str, FileSystemSection] = draft.sections["storage"] or {}
    for name, file_system in systems.items():
        loc = ("storage", name)
        kind = catalog.file_systems.get(file_system.kind)
        if kind is None:
            message = f"unknown kind of file system {quote(file_system.kind)}"
            yield Finding((*loc, "kind"), message, _kind_hint(file_system.kind, catalog))
            continue
        yield from _location(loc, file_system, kind)
        yield from _options(loc, file_system, kind)
        if file_system.drives is not None:
            yield from _drives(draft, loc, file_system, file_system.drives, catalog)
        if kind.address is None:
            continue
        if file_system.server is not None and not kind.served:
            served = ", ".join(name for name, other_kind in catalog.file_systems.items() if other_kind.served)
            hint = f'external: "{kind.address.example}"; a node of this blueprint may serve {served}'
            yield Finding((*loc, "server"), f"no role serves {file_system.kind}", hint)
        if file_system.external is not None and not re.fullmatch(kind.address.pattern, file_system.external):
            message = f"{quote(file_system.external)} is not an address of {file_system.kind}: {kind.address.form}"
            yield Finding((*loc, "external"), message, f'for example "{kind.address.example}"')


def _kind_hint(kind: str, catalog: Catalog) -> str | None:
    if kind in _EXAMPLES:
        return f"copy the roles of {_EXAMPLES[kind]}, and name them in `role_folders`"
    return did_you_mean(kind, catalog.file_systems)


def _location(loc: Loc, file_system: FileSystemSection, kind: FileSystemKind) -> Findings:
    """Check that a kind on drives has drives, and that another kind has none."""
    key = "server" if file_system.server else "external" if file_system.external else ""
    if kind.address is None and key:
        hint = "name drives from the hardware's `nvme`, such as drives: 8 x 3.84TB"
        yield Finding((*loc, key), f"{file_system.kind} needs `drives` of each node", hint)
    if kind.address is not None and file_system.drives is not None:
        yield Finding((*loc, "drives"), f"{file_system.kind} cannot use `drives`", "say kind: xfs")


def _drives(draft: Draft, loc: Loc, file_system: FileSystemSection, drives: str, catalog: Catalog) -> Findings:
    """Drives that the hardware of these nodes is not known to have, and machines that have none."""
    lab = draft.sections["inventory"]
    if isinstance(lab, LabSection) and lab.lab == "nspawn":
        message = "containers have no drives of their own"
        yield Finding((*loc, "drives"), message, "rehearse on virtual machines: inventory: {lab: vm}")
        return
    declared = NamedNodes(draft)
    if not (declared.names_known and all(map(draft.intact, ("nodes", "hardware")))):
        return
    nodes = (
        declared.named(draft, (*loc, "on"), file_system.on)[0] if file_system.on else declared.with_function("worker")
    )
    count, model = counted(drives)
    lacking: dict[str, list[str]] = {}
    for node in nodes or ():
        hardware = declared.groups[declared.group_of[node]].hardware
        fitted = map(counted, catalog.servers[hardware].nvme) if hardware in catalog.servers else ((count, model),)
        if not any(fitted_model == model and number >= count for number, fitted_model in fitted):
            lacking.setdefault(hardware, []).append(node)
    for hardware, names in lacking.items():
        has_ = ", ".join(catalog.servers[hardware].nvme)
        like = "" if hardware in draft.keys("hardware") else f"like: {hardware}, "
        hint = f"if the nodes have them: hardware: {{{hardware}: {{{like}nvme: [{drives}]}}}}"
        differ = f"differ: {has_}" if has_ else "are not known"
        yield Finding((*loc, "drives"), f"the NVMe drives of {hostlist.fold(names)} ({hardware}) {differ}", hint)


def _options(loc: Loc, file_system: FileSystemSection, kind: FileSystemKind) -> Findings:
    if file_system.options and kind.mounted_by:
        message = f"{file_system.kind} is mounted by {kind.mounted_by}"
        yield Finding((*loc, "options"), message, "set its options there", key=True)
        return
    first_of: dict[str, str] = {}
    for place, option in enumerate(file_system.options):
        word = option.partition("=")[0]
        danger = kind.refused.get(option) or kind.refused.get(word)
        if danger:
            shown = option if option in kind.refused else word  # the value may be a key
            yield Finding(
                (*loc, "options", place), f"`{shown}` is not safe for {file_system.kind}: {danger}", "leave it out"
            )
        elif word in _MOUNT_OPTIONS or word.startswith(("x-", "comment")):
            reason = _MOUNT_OPTIONS.get(word, "hpcforge writes the unit itself")
            yield Finding((*loc, "options", place), f"`{option}` cannot be set here: {reason}", "leave it out")
        elif first_of.setdefault(word, option) != option or option in file_system.options[:place]:
            yield Finding((*loc, "options", place), f"`{word}` is repeated", f"first as `{first_of[word]}`")
