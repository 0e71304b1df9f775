"""Hints from the schema for a location of a file: the expected type, and how to write a misplaced value there. Pure."""

from __future__ import annotations

import re
import types
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hpcforge.blueprint.diagnostics import closest, closest_or_all, quote
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.suggestions import pairs, whole

_MAPPINGS = (dict, Mapping)
_PART = 3  # letters of a word that is part of an existing key
_SHOWN = 6  # entries of a list that are shown


def rewritten(model: type[BaseModel], loc: Loc, value: Any) -> str | None:
    """Say how to write a value of the wrong kind: text where a list is due, a list where a mapping is, and so on."""
    expected, key = _bare(_annotation_at(model, loc)), str(loc[-1]) if loc else ""
    if (
        isinstance(value, str)
        and (_is_model(expected) or get_origin(expected) in _MAPPINGS)
        and (mapping := pairs(value))
    ):
        return f"Write {quote(f'{key}: {mapping}')}."
    if get_origin(expected) is tuple:
        return _as_list(value)
    if get_origin(expected) in _MAPPINGS:
        inner = _bare(get_args(expected)[1])
        entry = _required(inner, None) if _is_model(inner) else "..."
        return f"Write {quote(f'{key}: {{NAME: {entry}}}')}."
    if _is_model(expected):
        entry = _required(expected, value)
        return f"Write {quote(entry if isinstance(loc[-1], int) else f'{key}: {entry}')}."
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        shown = ",".join(value[:_SHOWN]) + ",..." * (len(value) > _SHOWN)
        return f"Write {quote(value[0] if len(value) == 1 else chr(34) + shown + chr(34))}, without brackets."
    return None


def _as_list(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    items = value.split(" -") if value.startswith("-") else value.split(",")
    if value.startswith("-") and value[1:2] not in ("", " ", "-"):
        return f"Write a space after each hyphen: {quote(f'- {items[0][1:]}')}."
    return f"Write {quote('[' + ', '.join(item.strip() for item in items[:_SHOWN]) + ']')}."


def _required(model: type[BaseModel], value: Any) -> str:
    """Return the required keys of a mapping; the written value belongs to the first."""
    keys = [key for key, name in aliases(model).items() if model.model_fields[name].is_required()]
    keys = keys or list(aliases(model))[:1]
    fits = (
        isinstance(value, str) and re.fullmatch(r"[\w./-]{1,80}", value) and (len(keys) == 1 or not value.isdecimal())
    )
    shown = value if fits else "..."
    return "{" + ", ".join(f"{key}: {'...' if place else shown}" for place, key in enumerate(keys)) + "}"


@cache
def renamed_keys() -> Mapping[str, str]:
    """Return old names of keys, and their new names."""
    text = resources.files(__package__).joinpath("renamed_keys.yaml").read_text(encoding="utf-8")
    files: dict[str, dict[str, str]] = yaml.safe_load(text)
    return {place.rpartition(".")[2]: new for rows in files.values() for place, new in rows.items()}


def unknown_key(model: type[BaseModel], loc: Loc, data: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the hint for an unknown key, and the key that it probably stands for."""
    key, around = str(loc[-1]), _model_at(model, loc[:-1])
    declared = list(aliases(around)) if around else []
    old = {name: new for name, new in renamed_keys().items() if new in declared}
    if key in (not_keys := getattr(around, "not_keys", {})):
        return not_keys[key], None
    parent: Any = data
    for step in loc[:-1]:
        parent = parent[step]
    if around and parent[key] is None and isinstance(parent, dict):
        if hint_and_key := _no_value(key, declared):
            return hint_and_key
        before = list(parent)[: list(parent).index(key)]
        if before and before[-1] in declared and isinstance(parent[before[-1]], str):
            hint = _cut_by_comma(around, before[-1], parent[before[-1]], key)
            return hint or closest_or_all(key, declared), None if hint else closest(key, declared)
    close = closest(key, [*declared, *old])
    if close is not None and close in old and _odd_space(key) is None:
        return f"did you mean `{old[close]}`?", old[close]
    within = [name for name in declared if len(key) >= _PART and key in name]
    if close is None and len(within) == 1:
        return f"did you mean `{within[0]}`?", within[0]
    return _odd_space(key) or closest_or_all(key, declared), closest(key, declared)


def _odd_space(key: str) -> str | None:
    odd = next((c for c in key if c.isspace() and not c.isascii()), None)
    return odd and f"write a space for U+{ord(odd):04X} {unicodedata.name(odd, '')}".rstrip()


def _no_value(key: str, declared: list[str]) -> tuple[str, str] | None:
    """`{user:ops}` and `{user ops}`: within braces both are keys without a value."""
    for mark in (":", "=", " "):
        name, separator, value = key.partition(mark)
        if separator and value and name.strip() in declared:
            return f"write {quote(f'{name.strip()}: {value.strip()}')}, with a colon and a space", name.strip()
    return None


def _cut_by_comma(model: type[BaseModel], key: str, first: str, rest: str) -> str | None:
    """`{reason: RMA 12, two DIMMs}`: within braces a comma ends the value."""
    if number := whole(f"{first},{rest}"):
        return f"write {quote(f'{key}: {number}')}"
    several = get_origin(_bare(model.model_fields[aliases(model)[key]].annotation)) is tuple
    if not several and " " not in first + rest:
        return None
    written = f"[{first}, {rest}]" if several else f'"{first}, {rest}"'
    return f"write {quote(f'{key}: {written}')}, if this belongs to it"


def aliases(model: type[BaseModel]) -> dict[str, str]:
    """Keys as they are written, with the names of their fields."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def description(model: type[BaseModel], loc: Loc) -> str | None:
    """Return the schema's description of the key at a location."""
    field = _field_at(model, loc)
    return field.description if field else None


def bounds(model: type[BaseModel], loc: Loc) -> str | None:
    """Return the least and the largest number that the schema takes at a location."""
    field = _field_at(model, loc)
    notes = [*field.metadata, *_notes(field.annotation)] if field else _notes(_annotation_at(model, loc))
    least, largest = (
        next((getattr(note, name) for note in notes if getattr(note, name, None) is not None), None)
        for name in ("ge", "le")
    )
    return f"a number from {least or 0} " + (f"to {largest}" if largest is not None else "on")


def _notes(annotation: object) -> list[object]:
    """Return the metadata of Annotated on a type, and on each type of a union."""
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        fields = [entry for note in notes if isinstance(note, FieldInfo) for entry in note.metadata]
        return [*notes, *fields, *_notes(inner)]
    union = get_origin(annotation) in (Union, types.UnionType)
    return [note for part in get_args(annotation) for note in _notes(part)] if union else []


def _field_at(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    parent = _model_at(model, loc[:-1])
    if not isinstance(parent, type) or not loc:
        return None
    name = aliases(parent).get(str(loc[-1]))
    return parent.model_fields[name] if name else None


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """Return the model at a location, None if it is not one."""
    bare = _bare(_annotation_at(model, loc))
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def _annotation_at(model: type[BaseModel], loc: Loc) -> Any:
    """Walk the types along a location to the one that is there."""
    annotation: Any = model
    for step in loc:
        annotation = _inner(_bare(annotation), step)
    return annotation


def _inner(annotation: Any, step: str | int) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        name = aliases(annotation).get(str(step))
        return annotation.model_fields[name].annotation if name else None
    arguments = get_args(annotation)
    if get_origin(annotation) in _MAPPINGS:
        return arguments[1]
    return arguments[0] if get_origin(annotation) is tuple else None


def _bare(annotation: Any) -> Any:
    """Strip Annotated and unions down to the one part that is a model or a container."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [_bare(part) for part in get_args(annotation)]
        return next((part for part in parts if part not in (str, int, bool, types.NoneType)), None)
    return None if get_origin(annotation) is Literal else annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
