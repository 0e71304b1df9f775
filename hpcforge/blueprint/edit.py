"""Edits of a YAML file that keep everything else as it was written: comments, order, spacing, quotes. Pure.

An edit names a place by its keys. The text changes at the positions that the parser gives. The result is read again:
unless it has exactly the requested change, nothing is returned. A file in a form that these edits do not support is
refused, and stays unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from hpcforge.blueprint.reader import MAX_MACHINE_VALUES, Loc, plain, read_bytes
from hpcforge.errors import ExpectedError

# Other tools read these words as a number, a date, a truth value or null (YAML 1.1, https://yaml.org/type/, or 1.2).
# A serial number 0006 becomes 6. `on` is a key of blueprints, and true in YAML 1.1 alone.
_TYPED = re.compile(
    r"(?i)null|true|false|yes|no|off|[0-9][0-9_]*(?:\.[0-9_]*)?(?:e[+-]?[0-9]+)?|0x[0-9a-f_]+|0o[0-7]+|0b[01_]+|"
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[ t].*)?"
)
_PLAIN_BLOCK = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/+=@\[\],-]*")
_PLAIN_FLOW = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/+=@-]*")


class EditError(ExpectedError):
    """The requested edit would change other parts of the file, too; `hint` says what to do."""

    kind = "invalid"


@dataclass(frozen=True)
class SetValue:
    """The value at `loc` becomes `value`: text, a list or a mapping. A key that is not there yet is added last."""

    loc: Loc
    value: Any


@dataclass(frozen=True)
class RenameKey:
    """The last key of `loc` is written as `key`; its value stays."""

    loc: Loc
    key: str


@dataclass(frozen=True)
class RemoveEntry:
    """Remove the entry at `loc`, and the entries around it that become empty."""

    loc: Loc


Edit = SetValue | RenameKey | RemoveEntry


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text after all edits, one after the other. Raises `EditError`; the text must be valid YAML."""
    dos = "\r\n" in text and text.count("\r\n") == text.count("\n")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix(mark).replace("\r\n", "\n") if dos else text.removeprefix(mark)
    for edit in edits:
        text = _checked(text, edit)
    return mark + (text.replace("\n", "\r\n") if dos else text)


def with_values(text: str, section: str, values: Mapping[tuple[str, str], Any]) -> str:
    """Return the text with a value for each (entry of a section, key of it), over one reading: for thousands of nodes.

    An entry may get several values. Raises `EditError`; the text must be valid YAML.
    """
    data = plain(read_bytes(text.encode(), "before", MAX_MACHINE_VALUES).root)
    for (entry, key), value in values.items():
        data = _applied(data, SetValue((section, entry, key), value))
    root = _spans(text)
    entries = root.entries[section][1].entries if section in root.entries else {}
    of_entry: dict[str, dict[str, object]] = {}
    for (entry, key), value in values.items():
        of_entry.setdefault(entry, {})[key] = value
    new = {entry: own for entry, own in of_entry.items() if entry not in entries}
    if new and not entries:
        text = _set(text, root, SetValue((section,), new))
    else:  # from the end of the file on, so that the places before stay valid
        for entry in reversed(new):
            text = _set(text, root, SetValue((section, entry), new[entry]))
    old: list[tuple[float, float, SetValue]] = []
    for entry, own in of_entry.items():
        if entry in new:
            continue
        start, own_keys = entries[entry][0].start, entries[entry][1].entries
        if not own_keys and len(own) > 1:  # all of them get one place
            old.append((start, 0, SetValue((section, entry), own)))
            continue
        for key, value in own.items():
            place = own_keys[key][0].start if key in own_keys else math.inf
            old.append((start, place, SetValue((section, entry, key), value)))
    for _, _, edit in sorted(old, key=lambda row: row[:2], reverse=True):
        text = _set(text, root, edit)
    after = read_bytes(text.encode(), "after", MAX_MACHINE_VALUES)
    if after.diagnostics or plain(after.root) != data:
        raise EditError(f"{section}: hpcforge cannot edit this part safely", "edit it by hand")
    return text


def quoted(value: object, *, flow: bool = True) -> str:
    """Return a value as YAML on one line: bare where that is safe, in double quotes else."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)}: {quoted(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(quoted(item) for item in value) + "]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    bare = (_PLAIN_FLOW if flow else _PLAIN_BLOCK).fullmatch(text) and not text.endswith(" ")
    if bare and not (isinstance(value, str) and _TYPED.fullmatch(text)):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(text: str, edit: Edit) -> str:
    """Make one edit, and check that nothing else has changed."""
    place = ".".join(map(str, edit.loc))
    try:
        expected = _applied(plain(read_bytes(text.encode(), "before", MAX_MACHINE_VALUES).root), edit)
        new = _edit(text, edit)
    except KeyError:
        raise EditError(f"{place} is not in this file", "edit the included file that has it, by hand") from None
    after = read_bytes(new.encode(), "after", MAX_MACHINE_VALUES)
    if after.diagnostics or plain(after.root) != expected:
        raise EditError(f"{place}: hpcforge cannot edit this place safely", "edit it by hand")
    return new


def _applied(data: Any, edit: Edit) -> Any:
    """Return the data of the edited file."""
    parent, last = data, edit.loc[-1]
    for step in edit.loc[:-1]:
        if isinstance(edit, SetValue) and isinstance(parent, dict):
            parent[step] = parent.get(step) or {}  # a section without a value
        parent = parent[step]
    if isinstance(edit, SetValue):
        parent[last] = _as_read(edit.value)
    elif isinstance(edit, RenameKey):
        entries = [(edit.key if key == last else key, value) for key, value in parent.items()]
        parent.clear()
        parent.update(entries)
    else:
        del parent[last]
        if not parent and len(edit.loc) > 1:
            return _applied(data, RemoveEntry(edit.loc[:-1]))
    return data


def _as_read(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_read(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_read(item) for item in value]
    return str(value)


@dataclass
class _Span:
    """The place of a value: offsets of its first character and of the end."""

    start: int
    end: int
    kind: str  # "scalar", "mapping", "sequence"
    flow: bool = False  # written in braces or brackets
    style: str | None = None  # quote of a scalar; None: it has none
    entries: dict[str | int, tuple[_Span, _Span]] = field(default_factory=dict)  # spans of key and value


def _edit(text: str, edit: Edit) -> str:
    root = _spans(text)
    if isinstance(edit, SetValue):
        return _set(text, root, edit)
    around = _chain(root, edit.loc)
    if isinstance(edit, RenameKey):
        key, _ = around[-1].entries[edit.loc[-1]]
        return text[: key.start] + _like(text, key, edit.key, flow=around[-1].flow) + text[key.end :]
    depth = len(edit.loc)
    while depth > 1 and len(around[depth - 1].entries) == 1:
        depth -= 1
    return _without(text, around[depth - 1], edit.loc[depth - 1])


def _chain(root: _Span, loc: Loc) -> list[_Span]:
    """Return the collections that a location passes through, the root first."""
    spans = [root]
    for step in loc[:-1]:
        spans.append(spans[-1].entries[step][1])
    return spans


def _set(text: str, root: _Span, edit: SetValue) -> str:
    parent, depth = root, 0
    while depth < len(edit.loc) and edit.loc[depth] in parent.entries:
        key, value = parent.entries[edit.loc[depth]]
        depth += 1
        if depth == len(edit.loc):
            new = _like(text, value, edit.value, flow=parent.flow)
            gap = " " if value.start == value.end == key.end + 1 else ""  # `key:` without a value
            return text[: value.start] + gap + new + text[value.end :]
        if value.kind == "scalar":  # an empty section
            inner = _nested(edit.loc[depth:], edit.value)
            return text[: key.end] + _section(inner, parent, text, key) + text[value.end :]
        parent = value
    rest = edit.loc[depth:]
    return _appended(text, parent, str(rest[0]), _nested(rest[1:], edit.value))


def _nested(loc: Sequence[str | int], value: Any) -> Any:
    for step in reversed(loc):
        value = {step: value}
    return value


def _section(inner: Any, parent: _Span, text: str, key: _Span) -> str:
    if parent.flow or not isinstance(inner, dict):
        return ": " + quoted(inner)
    indent = " " * (_column(text, key.start) + 2)
    return ":" + "".join(f"\n{indent}{quoted(name, flow=False)}: {quoted(item)}" for name, item in inner.items())


def _appended(text: str, parent: _Span, key: str, value: Any) -> str:
    """Add an entry behind the last one of a mapping."""
    if not parent.entries:
        body = f"{quoted(key)}: {quoted(value)}"
        return text[: parent.start] + "{" + body + "}" + text[parent.end :]
    first, _ = next(iter(parent.entries.values()))
    _, last = list(parent.entries.values())[-1]
    if parent.flow:
        return text[: last.end] + f", {quoted(key)}: {quoted(value)}" + text[last.end :]
    column = _column(text, first.start)
    if column == 0 and isinstance(value, dict):
        inner = "".join(f"\n  {quoted(name, flow=False)}: {quoted(item)}" for name, item in value.items())
        line = f"\n{quoted(key, flow=False)}:{inner}\n"
    else:
        line = " " * column + f"{quoted(key, flow=False)}: {quoted(value)}\n"
    end = _line_end(text, last.end)
    before = text[:end] if text[:end].endswith("\n") else text[:end] + "\n"
    return before + line + text[end:]


def _without(text: str, parent: _Span, step: str | int) -> str:
    """Take an entry out; of one on lines of its own, the lines, with the comment at their end."""
    spans = list(parent.entries.items())
    place = [key for key, _ in spans].index(step)
    key, value = spans[place][1]
    if parent.flow:
        if place + 1 < len(spans):
            return text[: key.start] + text[spans[place + 1][1][0].start :]
        before = spans[place - 1][1][1].end if place else parent.start + 1
        return text[:before] + text[value.end :]
    start = text.rfind("\n", 0, key.start) + 1
    if parent.kind == "sequence":
        start = text.rfind("\n", 0, value.start) + 1
    return text[:start] + text[_line_end(text, value.end) :]


def _like(text: str, old: _Span, value: Any, *, flow: bool) -> str:
    """Write a new value in the quotes of the old one; a bare one stays bare where it can."""
    if old.kind == "scalar" and old.style == "'" and isinstance(value, str) and "'" not in value:
        return f"'{value}'"
    if old.kind == "scalar" and old.style == '"' and isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if old.kind == "sequence" and old.flow and isinstance(value, list | tuple) and "\n" in text[old.start : old.end]:
        raise EditError("hpcforge does not rewrite a list that spans several lines", "edit it by hand")
    return quoted(value, flow=flow)


def _column(text: str, offset: int) -> int:
    return offset - text.rfind("\n", 0, offset) - 1


def _line_end(text: str, offset: int) -> int:
    """Return the offset after the line break that ends a line."""
    position = text.find("\n", offset)
    return len(text) if position < 0 else position + 1


def _spans(text: str) -> _Span:
    """Return the places of all keys and values of a document, which is a mapping of plain values."""
    root: _Span | None = None
    opened: list[_Span] = []
    keys: list[tuple[str, _Span] | None] = []
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent):
            style = event.style if event.style in ("'", '"') else None
            span = _Span(*_offsets(event), "scalar", False, style)
            _place(opened, keys, span, event.value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            span = _Span(*_offsets(event), kind, bool(event.flow_style))
            _place(opened, keys, span, "")
            root = root or span
            opened.append(span)
            keys.append(None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            span = opened.pop()
            keys.pop()
            # the parser ends a block at the next token, behind comments that belong elsewhere
            last = max((value.end for _, value in span.entries.values()), default=span.end)
            span.end = _offsets(event)[1] if span.flow else last
    if root is None:
        raise EditError("the file is empty", "write it by hand")
    return root


def _offsets(event: Any) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


def _place(opened: list[_Span], keys: list[tuple[str, _Span] | None], span: _Span, text: str) -> None:
    if not opened:
        return
    parent, waiting = opened[-1], keys[-1]
    if parent.kind == "sequence":
        parent.entries[len(parent.entries)] = (span, span)
    elif waiting is None:
        keys[-1] = (text, span)
    else:
        keys[-1] = None
        parent.entries[waiting[0]] = (waiting[1], span)
