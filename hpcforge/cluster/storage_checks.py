"""What a blueprint says of file systems against the kinds that the catalog has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.storage import FileSystem
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.catalog import Catalog
from hpcforge.catalog.file_systems import FileSystemKind

Findings = Iterator[Finding]

_OURS = {  # options by which whoever mounts is told when, and by whom
    "_netdev": "it is mounted after the network is there",
    "auto": "it is mounted at every start",
    "defaults": "it stands for no option at all",
    "noauto": "it is mounted at every start",
    "nofail": "no start waits for it",
    "owner": "root mounts it",
    "user": "root mounts it",
    "users": "root mounts it",
}


def storage_kind_findings(draft: Draft, catalog: Catalog) -> Findings:
    """Yield kinds that there are not, and addresses and options that are wrong for theirs."""
    systems: dict[str, FileSystem] = draft.sections["storage"] or {}
    for name, one in systems.items():
        loc = ("storage", name)
        kind = catalog.file_systems.get(one.kind)
        if kind is None:
            message = f"unknown kind of file system {quote(one.kind)}"
            yield Finding((*loc, "kind"), message, did_you_mean(one.kind, catalog.file_systems))
            continue
        if one.server is not None and not kind.served:
            served = ", ".join(name for name, each in catalog.file_systems.items() if each.served)
            hint = f'external: "{kind.address.example}"; a node of this blueprint may serve {served}'
            yield Finding((*loc, "server"), f"no role makes a node a server of {one.kind}", hint)
        if one.external is not None and not re.fullmatch(kind.address.pattern, one.external):
            message = f"{quote(one.external)} is no address of {one.kind}: {kind.address.form}"
            yield Finding((*loc, "external"), message, f'for example "{kind.address.example}"')
        yield from _options(loc, one, kind)


def _options(loc: Loc, one: FileSystem, kind: FileSystemKind) -> Findings:
    if one.options and kind.mounted_by:
        message = f"{one.kind} is mounted by {kind.mounted_by}"
        yield Finding((*loc, "options"), message, "say its options there", key=True)
        return
    seen: dict[str, str] = {}
    for place, option in enumerate(one.options):
        word = option.partition("=")[0]
        why = kind.refused.get(option) or kind.refused.get(word)
        if why:
            yield Finding((*loc, "options", place), f"`{option}` is not safe for {one.kind}: {why}", "leave it out")
        elif word in _OURS or word.startswith(("x-", "comment")):
            reason = _OURS.get(word, "hpcforge writes the unit itself")
            yield Finding((*loc, "options", place), f"`{option}` is not to be said here: {reason}", "leave it out")
        elif seen.setdefault(word, option) != option or option in one.options[:place]:
            yield Finding((*loc, "options", place), f"`{word}` is said twice", f"first as `{seen[word]}`")
