"""The folders of a blueprint for a site's own roles and smoke tests, next to the shipped ones.

They are read before the rest of the blueprint, since they decide which keys are valid there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.reader import Document, Loc, Mapping, Scalar, find
from hpcforge.blueprint.reader import Sequence as Items
from hpcforge.blueprint.untrusted_files import having
from hpcforge.blueprint.validate import Finding
from hpcforge.blueprint.values import FILE_PATH


@dataclass(frozen=True)
class Addition:
    """A kind of folder that a site may add: each folder NAME in it has a certain file."""

    what: str  # the word in messages, such as "role"
    file: str  # a folder with this file is one
    key: Loc  # where a blueprint names the folders
    known_by: tuple[Loc, ...]  # parts of a blueprint that depend on the existing folders
    is_name: Callable[[str], object]
    a_name: str  # the form of a name, for messages


@dataclass(frozen=True)
class OwnFolders:
    """The folders that can be used, the shipped one first; and what is wrong with others, or in them.

    `document` is the blueprint. Where a folder cannot be used, what follows from such folders counts as not read: by
    what is in that folder it may be right.
    """

    folders: tuple[Path, ...]
    findings: tuple[Finding, ...]
    document: Document


def own_folders(document: Document, addition: Addition, blueprint_folder: Path, shipped: Path) -> OwnFolders:
    """Return the folders that a blueprint names, relative to its own. One with an error is left out."""
    folders, readable, findings = [shipped], [shipped], []
    for index, written in _written_paths(document, addition):
        folder = blueprint_folder / written
        wrong = [*_wrong(addition, folder, readable, shipped)]
        findings += [Finding((*addition.key, index), message, hint) for message, hint in wrong]
        if not wrong:
            folders.append(folder)
        if _in(folder, addition):
            readable.append(folder)
    return OwnFolders(tuple(folders), tuple(findings), _unread(document, addition) if findings else document)


def _in(folder: Path, addition: Addition) -> tuple[str, ...]:
    """Return the names in a folder; none if it cannot be read."""
    return tuple(path.name for path in having(folder, addition.file))


def _unread(document: Document, addition: Addition) -> Document:
    root = document.root
    for loc in addition.known_by:
        root = _without(root, loc)
    return replace(document, root=root)


def _without(tree: Mapping, loc: Loc) -> Mapping:
    """Return the tree with the value at a location marked as not read, if it is there."""
    key, rest = str(loc[0]), loc[1:]
    entry = tree.entries.get(key)
    if entry is None or (rest and not isinstance(entry, Mapping)):
        return tree
    unread = _without(entry, rest) if rest and isinstance(entry, Mapping) else replace(entry, broken=True)
    return replace(tree, entries={**tree.entries, key: unread})


def _written_paths(document: Document, addition: Addition) -> Iterator[tuple[int, str]]:
    """Yield the values that can be a path; the schema reports errors in all others."""
    listed = find(document.root, addition.key)
    for index, item in enumerate(listed.items if isinstance(listed, Items) else ()):
        if isinstance(item, Scalar) and item.text and re.fullmatch(FILE_PATH.pattern, item.text):
            yield index, item.text


def _wrong(addition: Addition, folder: Path, before: Sequence[Path], shipped: Path) -> Iterator[tuple[str, str | None]]:
    """Yield why a folder cannot be used, each with a hint; `before` are earlier folders with content."""
    kind, name, inside = addition.what, quote(folder.name), _in(folder, addition)
    try:
        exists = folder.is_dir()
        same = any(folder.samefile(earlier) for earlier in before) if exists else False
    except OSError as error:
        yield f"{name} cannot be read: {error.strerror}", None
        return
    if not exists:
        yield f"the folder {name} does not exist", f"a path is relative to the blueprint; looked for as {folder}"
    elif same:
        yield f"{name} is already a folder of {kind}s", "leave it out"
    elif not inside:
        within = (folder / addition.file).is_file()
        example = f"{folder.name}/{kind.upper().replace(' ', '_')}/{addition.file}"
        yield (
            f"{name} is {f'a {kind} itself' if within else f'no folder of {kind}s'}",
            "name the folder around it" if within else f"each {kind} is a folder in it: {example}",
        )
    for added_name in () if same else inside:
        if not addition.is_name(added_name):
            yield f"{quote(added_name)} in it is not a {kind} name", addition.a_name
        for earlier in before:
            if added_name in _in(earlier, addition):
                owner = f"a shipped {kind}" if earlier == shipped else f"in {quote(earlier.name)}"
                yield f"{quote(added_name)} in it is {owner}, too", f"rename it: a {kind} cannot replace another"
