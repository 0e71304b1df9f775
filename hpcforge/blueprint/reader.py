"""YAML to a tree of text with positions, by PyYAML's C parser.

Scalars stay the text that was written, so `12.10`, `no`, `0640`, `01:00:00` and dates mean what they look like until
the schema types them. Only what a mapping of plain values needs is accepted: no tags, anchors, aliases, merge keys or
second documents. The tree is built from parser events, not by recursion: nesting in a file cannot exhaust the stack.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hpcforge.blueprint.diagnostics import MAX_KEPT, Diagnostic, Mark, SourceFile, others, quote
from hpcforge.blueprint.untrusted_files import MAX_YAML, OutsideError, read_inside
from hpcforge.blueprint.yaml_mistakes import explain, less_deep

MAX_BYTES = 16 << 20  # an inventory of 10,000 nodes with three host keys each has about 8 MiB
MAX_DEPTH = 16
MAX_VALUES = 250_000  # 100 MB and a second to read
MAX_MACHINE_VALUES = 1_000_000  # values of an inventory: 100,000 nodes with an address and a host key have 700,000
MAX_LINES = 500_000

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_COMMENT = re.compile(r": (#[\w.-]++) *+$")  # one word directly behind the `#`
_IS_IT_THIS_FILE = "is this the right file?"

Loc = tuple[str | int, ...]


@dataclass(slots=True)
class Scalar:
    """Text; None where YAML says null, or where an alias stood (`broken`)."""

    text: str | None
    mark: Mark
    broken: bool = False


@dataclass(slots=True)
class Sequence:
    """A list."""

    mark: Mark
    broken: bool = False
    items: list[Tree] = field(default_factory=list)


@dataclass(slots=True)
class Mapping:
    """A mapping; `keys` has where each key stands. `broken`: something in it could not be read."""

    mark: Mark
    broken: bool = False
    entries: dict[str, Tree] = field(default_factory=dict)
    keys: dict[str, Mark] = field(default_factory=dict)


Tree = Scalar | Sequence | Mapping


@dataclass(frozen=True)
class Document:
    """A file after reading: the root mapping (empty after errors that stop the parser) and the errors of its YAML."""

    source: SourceFile
    root: Mapping
    diagnostics: tuple[Diagnostic, ...] = ()
    complete: bool = True  # False: the parser stopped, so a missing key means nothing
    sha256: str = ""  # checksum of the bytes that were read


def read_file(path: Path, max_values: int = MAX_VALUES) -> Document:
    """Read a YAML file; everything that is wrong, down to its absence, is in the document's diagnostics."""
    source = SourceFile(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return _failed(source, "the file is not a regular one")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _failed(source, f"the file cannot be read: {error.strerror}")
    return read_bytes(content, str(path), max_values)


def read_inside_of(folder: Path, name: str) -> Document:
    """Read a YAML file of a role's or a smoke test's folder, as `hpcforge.blueprint.untrusted_files` does."""
    path = str(folder / name)
    try:
        return read_bytes(read_inside(folder, name, MAX_YAML), path)
    except OSError as error:
        return _failed(SourceFile(path), f"the file cannot be read: {error.strerror}")
    except OutsideError as error:
        return _failed(SourceFile(path), f"the file cannot be read: {error}")


def read_bytes(content: bytes, name: str, max_values: int = MAX_VALUES) -> Document:
    """Read YAML from memory; `name` is how diagnostics call it."""
    source = SourceFile(name)
    if len(content) > MAX_BYTES:
        return _failed(source, f"the file is larger than {MAX_BYTES >> 20} MiB", hint=_IS_IT_THIS_FILE)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"the file is not UTF-8: byte 0x{content[error.start]:02x}"
        return _failed(SourceFile.of(name, before), message, mark, "save the file as UTF-8")
    source = SourceFile.of(name, text, MAX_LINES)
    if len(source.lines) > MAX_LINES:
        return _failed(SourceFile(name), f"the file has more than {MAX_LINES:,} lines", hint=_IS_IT_THIS_FILE)
    return replace(_Builder(source, max_values).build(text), sha256=hashlib.sha256(content).hexdigest())


def plain(tree: Tree) -> Any:
    """Return the tree as dicts, lists and text, without positions."""
    if isinstance(tree, Mapping):
        return {key: plain(value) for key, value in tree.entries.items()}
    if isinstance(tree, Sequence):
        return [plain(item) for item in tree.items]
    return tree.text


def find(tree: Tree, loc: Loc) -> Tree | None:
    """Return the subtree at a location, or None."""
    subtree: Tree | None = tree
    for step in loc:
        if isinstance(subtree, Mapping) and isinstance(step, str):
            subtree = subtree.entries.get(step)
        elif isinstance(subtree, Sequence) and isinstance(step, int) and step < len(subtree.items):
            subtree = subtree.items[step]
        else:
            return None
    return subtree


def mark_of(root: Mapping, loc: Loc, *, key: bool = False) -> Mark:
    """Return where a location stands in the file: its value, or its key; the nearest enclosing one if it is absent."""
    parent = find(root, loc[:-1])
    step = loc[-1] if loc else None
    if isinstance(parent, Mapping) and isinstance(step, str) and step in parent.keys:
        value = parent.entries[step]
        return parent.keys[step] if key or (isinstance(value, Scalar) and value.text is None) else value.mark
    if isinstance(parent, Sequence) and isinstance(step, int) and step < len(parent.items):
        return parent.items[step].mark
    if isinstance(parent, Scalar) and step == 0:  # a list of one item, written short
        return parent.mark
    return mark_of(root, loc[:-1], key=True) if loc else root.mark


def broken_locs(tree: Tree, at: Loc = ()) -> Iterator[Loc]:
    """Yield where something stood that could not be read."""
    if tree.broken:
        yield at
    if isinstance(tree, Scalar):
        return
    children: Iterator[tuple[str | int, Tree]] = (
        iter(tree.entries.items()) if isinstance(tree, Mapping) else iter(enumerate(tree.items))
    )
    for step, child in children:
        yield from broken_locs(child, (*at, step))


def values_in_comments(document: Document) -> Iterator[Diagnostic]:
    """Warn of keys without a value where the line has `#word`, as in `slack_channel: #aurora`."""
    trees: list[Tree] = [document.root]
    while trees:
        tree = trees.pop()
        if isinstance(tree, Mapping):
            nulls = [key for key, value in tree.entries.items() if isinstance(value, Scalar) and value.text is None]
            for key in nulls:
                mark = tree.keys[key]
                source = mark.source or document.source
                line = source.lines[mark.line - 1] if mark.line <= len(source.lines) else ""
                if word := _COMMENT.search(line, mark.column - 1):
                    quoted = quote(f'{key}: "{word[1]}"')
                    hint = f"the rest of the line is a comment; as a value: {quoted}"  # the word may be a password
                    yield Diagnostic("warning", f"{quote(key)} has no value", source, mark, hint)
            trees += tree.entries.values()
        elif isinstance(tree, Sequence):
            trees += tree.items


def _failed(source: SourceFile, message: str, mark: Mark | None = None, hint: str | None = None) -> Document:
    diagnostic = Diagnostic("error", message, source, mark, hint)
    return Document(source, Mapping(Mark(1, 1)), (diagnostic,), complete=False)


class _Builder:
    """Turns parser events into a tree; keeps going after everything but a syntax error."""

    def __init__(self, source: SourceFile, max_values: int) -> None:
        self.source = source
        self.max_values = max_values
        self.diagnostics: list[Diagnostic] = []
        self.open: list[Sequence | Mapping] = []
        self.pending: list[tuple[str, Mark] | None] = []  # for each open mapping the key that waits for its value
        self.root: Tree | None = None
        self.documents = 0
        self.values = 0
        self.errors = 0
        self.aliases: set[str | None] = set()

    def build(self, text: str) -> Document:
        complete = True
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                if not self._take(event):
                    complete = False
                    break
        except yaml.YAMLError as error:
            shallower = less_deep(error, text)
            if shallower is not None:  # hpcforge's limit is reached before the parser's
                return _Builder(self.source, self.max_values).build(shallower)
            self._error(*explain(error, self.source, text))
            complete = False
        if self.values > self.max_values:
            message = f"the file has more than {self.max_values:,} keys and values"
            return _failed(self.source, message, hint=_IS_IT_THIS_FILE)
        if isinstance(self.root, Mapping):
            return Document(self.source, self.root, self._all_diagnostics(), complete)
        if complete:
            content = "empty" if self.root is None else "not a mapping of keys to values"
            hint = None if self.root is None else "write `key: value`, with a space after the colon, a line each"
            self._error(f"the file is {content}", Mark(1, 1), hint)
        return Document(self.source, Mapping(Mark(1, 1)), self._all_diagnostics(), complete=False)

    def _take(self, event: Any) -> bool:
        """Take one event, the most frequent kinds first; False ends reading."""
        if isinstance(event, yaml.ScalarEvent):
            self._check_properties(event)
            self._place(Scalar(None if _is_null(event) else event.value, _mark(event), event.tag is not None))
        elif isinstance(event, yaml.CollectionStartEvent):
            return self._descend(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._ascend()
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._error("a second document", _mark(event), "keep the part above `---` in this file")
                return False
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.aliases:  # once for each: a bomb has thousands
                self._error(
                    f"aliases are not accepted: {quote(f'*{event.anchor}')}", _mark(event), "write the value out"
                )
            self.aliases.add(event.anchor)
            self._place(Scalar(None, _mark(event), broken=True))
        return self.values <= self.max_values

    def _descend(self, event: Any) -> bool:
        self._check_properties(event)
        if len(self.open) == MAX_DEPTH:
            self._error(f"nested more than {MAX_DEPTH} levels deep", _mark(event))
            return False
        kind = Mapping if isinstance(event, yaml.MappingStartEvent) else Sequence
        tree = kind(_mark(event), broken=event.tag is not None)
        self._place(tree)
        self.open.append(tree)
        self.pending.append(None)
        return True

    def _ascend(self) -> None:
        self.open.pop()
        self.pending.pop()

    def _place(self, tree: Tree) -> None:
        """Put a value where it belongs: the root, a list, a key's value, or a key itself."""
        self.values += 1
        if not self.open:
            self.root = tree
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(tree)
        elif (waiting := self.pending[-1]) is None:
            self.pending[-1] = (self._key(tree), tree.mark)
        else:
            self.pending[-1] = None
            self._enter(parent, *waiting, tree)

    def _key(self, tree: Tree) -> str:
        """Return a key's text; another key was reported, and becomes one that the schema ignores."""
        if isinstance(tree, Scalar) and tree.text is not None:
            if tree.text == "<<":
                self._error("merge keys are not accepted: `<<`", tree.mark, "write the values out")
            return tree.text
        if not (isinstance(tree, Scalar) and tree.broken):
            twice = self.source.lines[tree.mark.line - 1][tree.mark.column - 2 :].startswith("{{")
            hint = "templates are not accepted here: write the value itself" if twice else "quote it, if it is text"
            self._error("a key must be text", tree.mark, hint)
        return "<<"

    def _enter(self, parent: Mapping, key: str, mark: Mark, value: Tree) -> None:
        if key == "<<":
            parent.broken = True
            return
        if key in parent.keys:
            first = parent.keys[key]
            self._error(f"duplicate key {quote(key)}", mark, f"first used in line {first.line}")
            return
        parent.entries[key] = value
        parent.keys[key] = mark

    def _check_properties(self, event: Any) -> None:
        if event.anchor is not None:
            mark = _mark(event, 1 + len(event.anchor))
            hint = "write the plain value; text that begins with `&` needs quotes"
            self._error(f"anchors are not accepted: {quote('&' + event.anchor)}", mark, hint)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._error(
                f"tags are not accepted: {quote(tag)}",
                _mark(event),
                "write the plain value; text that begins with `!` needs quotes",
            )

    def _error(self, message: str, mark: Mark | None = None, hint: str | None = None) -> None:
        self.errors += 1
        if self.errors <= MAX_KEPT:
            self.diagnostics.append(Diagnostic("error", message, self.source, mark, hint))

    def _all_diagnostics(self) -> tuple[Diagnostic, ...]:
        return (*self.diagnostics, *others(self.source, self.errors - MAX_KEPT))


def _is_null(event: Any) -> bool:
    return event.value in _NULLS and event.implicit[0]


def _mark(event: Any, width: int | None = None) -> Mark:
    start, end = event.start_mark, event.end_mark
    line, column = start.line, start.column
    if width is None:
        is_one_line = end.line == line and not isinstance(event, yaml.CollectionStartEvent)
        width = max(1, end.column - column) if is_one_line else 1
    return Mark(line + 1, column + 1, width)
