"""Files that a blueprint includes: parts that several clusters share. They are merged before anything is typed.

Mappings merge key by key, and the file that includes has the last word. What two included files both set is an error,
unless the blueprint sets it, too. A path is relative to the file that includes, and leads into its folder or below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcforge.blueprint.diagnostics import Diagnostic, Mark, SourceFile, quote
from hpcforge.blueprint.reader import MAX_VALUES, Document, Mapping, Scalar, Sequence, Tree, find, read_inside_of

MOST_FILES = 64
DEEPEST = 4  # levels of files that include each other
KEY = "include"


@dataclass(frozen=True)
class Included:
    """A blueprint with its included parts, and the files of these."""

    document: Document
    files: tuple[Path, ...] = ()


@dataclass
class _Reading:
    """The state of reading. `values` counts keys and values of all files."""

    files: list[Path] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    complete: bool = True
    values: int = 0


def with_includes(document: Document, blueprint: Path) -> Included:
    """Return the blueprint with the content of the files that it includes, and every mistake of them at its place."""
    if KEY not in document.root.entries:
        return Included(document)
    reading = _Reading()
    root = _merged(document, (blueprint,), reading)
    merged = replace(
        document,
        root=root,
        diagnostics=(*document.diagnostics, *reading.diagnostics),
        complete=document.complete and reading.complete,
    )
    return Included(merged, tuple(reading.files))


def _merged(document: Document, chain: tuple[Path, ...], reading: _Reading) -> Mapping:
    """Merge the root of a file with its includes; `chain` has the files that led to it, itself last."""
    root = document.root
    shared = Mapping(root.mark)
    for path in _included_paths(root):
        part = _read(document.source, path, chain, reading)
        if part is not None:
            _refuse_both(root, shared, part, (), reading)
            shared = _over(shared, part)
    return _over(root, shared)


def _included_paths(root: Mapping) -> Iterator[Scalar]:
    """Yield the paths as they are written; the schema reports errors in anything else."""
    listed = root.entries.get(KEY)
    items = listed.items if isinstance(listed, Sequence) else [listed]
    yield from (item for item in items if isinstance(item, Scalar) and item.text)


def _read(source: SourceFile, written: Scalar, chain: tuple[Path, ...], reading: _Reading) -> Mapping | None:
    name = written.text or ""
    path = chain[-1].parent / name

    def refuse(message: str, hint: str | None = None) -> None:
        reading.diagnostics.append(Diagnostic("error", message, source, written.mark, hint))
        reading.complete = False

    if path in chain:
        refuse(f"{quote(name)} includes itself: {' -> '.join(file.name for file in (*chain, path))}", "remove one")
        return None
    if path in reading.files:
        return None  # another file includes it, too
    if len(chain) > DEEPEST or len(reading.files) == MOST_FILES:
        refuse(f"more than {DEEPEST} files include each other, or there are more than {MOST_FILES}", "merge some files")
        return None
    document = read_inside_of(chain[-1].parent, name)
    reading.files.append(path)
    reading.complete = reading.complete and document.complete
    for entry in document.diagnostics:
        if entry.mark is None:
            hint = entry.hint or "a path is relative to the file that includes, without `..`"
            refuse(f"{quote(name)}: {entry.message}", hint)
        else:
            reading.diagnostics.append(entry)
    root = _stamped(document.root, document.source, reading)
    if reading.values > MAX_VALUES:
        refuse(f"included files have more than {MAX_VALUES:,} keys and values", "is this the right file?")
        return None
    assert isinstance(root, Mapping)
    _refuse_no_paths(root, document.source, reading)
    merged = _merged(replace(document, root=root), (*chain, path), reading)
    rest = {key: value for key, value in merged.entries.items() if key != KEY}
    return replace(merged, entries=rest, keys={key: merged.keys[key] for key in rest})


def _refuse_no_paths(root: Mapping, source: SourceFile, reading: _Reading) -> None:
    """Report entries under `include` of an included file that are not paths; the schema does not check them."""
    listed = root.entries.get(KEY)
    for item in listed.items if isinstance(listed, Sequence) else [listed] if listed is not None else []:
        if not isinstance(item, Scalar):
            message, hint = "a file to include is a path", "include: [parts/a.yaml]"
            reading.diagnostics.append(Diagnostic("error", message, source, item.mark, hint))
            reading.complete = False


def _stamped(tree: Tree, source: SourceFile, reading: _Reading) -> Tree:
    """Return the tree with the file in each mark. At most as deep as the reader goes."""
    reading.values += 1
    mark = replace(tree.mark, source=source)
    if isinstance(tree, Mapping):
        entries = {key: _stamped(value, source, reading) for key, value in tree.entries.items()}
        keys = {key: replace(at, source=source) for key, at in tree.keys.items()}
        return replace(tree, mark=mark, entries=entries, keys=keys)
    if isinstance(tree, Sequence):
        return replace(tree, mark=mark, items=[_stamped(item, source, reading) for item in tree.items])
    return replace(tree, mark=mark)


def _over(upper: Mapping, lower: Mapping) -> Mapping:
    """Merge two mappings: mappings in both are merged, and otherwise the upper's value wins."""
    entries, keys = dict(upper.entries), dict(upper.keys)
    for key, value in lower.entries.items():
        own = entries.get(key)
        if own is None:
            entries[key], keys[key] = value, lower.keys[key]
        elif isinstance(own, Mapping) and isinstance(value, Mapping):
            entries[key] = _over(own, value)
    return replace(upper, entries=entries, keys=keys, broken=upper.broken or lower.broken)


def _refuse_both(root: Mapping, first: Mapping, second: Mapping, loc: tuple[str, ...], reading: _Reading) -> None:
    """Refuse what two included files set and the file that includes them does not."""
    for key, value in second.entries.items():
        first_value, place = first.entries.get(key), (*loc, key)
        if first_value is None:
            continue
        if isinstance(value, Mapping) and isinstance(first_value, Mapping):
            _refuse_both(root, first_value, value, place, reading)
        elif find(root, place) is None:
            at: Mark = first.keys[key]
            position = f"{at.source.name if at.source else ''}:{at.line}"
            hint = f"keep one, or set `{'.'.join(place)}` in the file that includes both"
            message = f"{quote('.'.join(place))} is also set in {position}"
            mark = second.keys[key]
            reading.diagnostics.append(Diagnostic("error", message, mark.source or SourceFile(""), mark, hint))
