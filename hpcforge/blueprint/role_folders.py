"""The folders that a blueprint names under `role_folders`: a site's own roles, beside the shipped ones.

They are read before the rest of the blueprint, since what that may say of services and of roles' variables follows from
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.reader import Document, Scalar, find
from hpcforge.blueprint.reader import Sequence as Items
from hpcforge.blueprint.validate import Finding
from hpcforge.blueprint.values import FILE_PATH

_KEY = "role_folders"
_FOR_ROLES = ("services", "roles")  # the sections of a blueprint that follow from roles
_ROLE_NAME = r"(?!site_)[a-z][a-z0-9_]{0,62}"  # site_NAME is a role of `software.site_roles`


@dataclass(frozen=True)
class RoleFolders:
    """The folders of roles that can be used, the shipped one first; and what is wrong with others, or in them.

    `document` is the blueprint. Where a folder cannot be used, what stands in it for roles counts as not read: by the
    roles of that folder it may be right.
    """

    folders: tuple[Path, ...]
    findings: tuple[Finding, ...]
    document: Document


def role_folders(document: Document, blueprint_folder: Path, shipped: Path) -> RoleFolders:
    """The folders that a blueprint names, relative to its own. One in which something is wrong is left out."""
    folders, there, findings = [shipped], [shipped], []
    for index, named in _named(document):
        folder = blueprint_folder / named
        wrong = [*_wrong(folder, there, shipped)]
        findings += [Finding((_KEY, index), message, hint) for message, hint in wrong]
        if not wrong:
            folders.append(folder)
        if roles_in(folder):
            there.append(folder)
    return RoleFolders(tuple(folders), tuple(findings), _unread(document) if findings else document)


def roles_in(folder: Path) -> tuple[str, ...]:
    """The names of the roles in a folder: those of its folders that have a `role.yaml`; none if it cannot be read."""
    try:
        return tuple(path.parent.name for path in sorted(folder.glob("*/role.yaml")))
    except OSError:
        return ()


def _unread(document: Document) -> Document:
    entries = document.root.entries
    unread = {key: replace(entries[key], broken=True) for key in _FOR_ROLES if key in entries}
    return replace(document, root=replace(document.root, entries={**entries, **unread}))


def _named(document: Document) -> Iterator[tuple[int, str]]:
    """What can be a path; of the rest the schema says what is wrong with it."""
    listed = find(document.root, (_KEY,))
    for index, item in enumerate(listed.items if isinstance(listed, Items) else ()):
        if isinstance(item, Scalar) and item.text and re.fullmatch(FILE_PATH.pattern, item.text):
            yield index, item.text


def _wrong(folder: Path, before: Sequence[Path], shipped: Path) -> Iterator[tuple[str, str | None]]:
    """Why a folder of roles cannot be used, each with a hint; `before` are those that hold roles, up to this one."""
    name, roles = quote(folder.name), roles_in(folder)
    try:
        there = folder.is_dir()
        same = any(folder.samefile(other) for other in before) if there else False
    except OSError as error:
        yield f"{name} cannot be read: {error.strerror}", None
        return
    if not there:
        yield f"there is no folder {name} there", f"a path is relative to the blueprint; looked for as {folder}"
    elif same:
        yield f"{name} is a folder of roles already", "leave it out"
    elif not roles:
        within = (folder / "role.yaml").is_file()
        yield (
            f"{name} is {'a role itself' if within else 'no folder of roles'}",
            "name the folder around it" if within else f"each role is a folder in it: {folder.name}/ROLE/role.yaml",
        )
    for role in () if same else roles:
        if not re.fullmatch(_ROLE_NAME, role):
            hint = "lower-case letters, digits and _, a letter first; site_... are those of `software.site_roles`"
            yield f"{quote(role)} in it is not a role name", hint
        for other in before:
            if role in roles_in(other):
                whose = "a shipped role" if other == shipped else f"in {quote(other.name)}"
                yield f"{quote(role)} in it is {whose}, too", "give it another name: no role replaces another"
