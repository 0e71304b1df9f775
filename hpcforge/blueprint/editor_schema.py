"""JSON Schemas as other tools need them: editors, check-jsonschema and ajv read YAML with types, hpcforge reads text.

hpcforge's reader keeps `64`, `1.10` and `true` as the text that stands in the file, and takes `"64"` for a number. To
another tool the bare words are numbers and truth values before its schema has a say. So a text may be a number where
its pattern has numbers, a number may be quoted, and a key of a section may be without a value. Patterns are those that
Python and ECMA 262 read alike. Pure.
"""

from __future__ import annotations

import re
from typing import Any

Schema = dict[str, Any]
_PATTERNS = {
    "integer": "^(?:0|[1-9][0-9]{0,17})$",
    "number": r"^(?:0|[1-9][0-9]{0,11})(?:\.[0-9]{1,9})?$",
    "boolean": "^(?:true|false)$",
}  # quoted, as `hpcforge.blueprint.values` reads them
# Words that YAML 1.2 types (https://yaml.org/spec/1.2.2/#103-core-schema), in every length that a pattern may require.
_INTEGERS = ("0", "-4", *("1" * length for length in range(1, 65)))
_NUMBERS = ("0.5", "2.13", "100.25", "1e5", *(f"{'1' * length}e1" for length in range(1, 63)))
_TRUTHS = ("true", "false")
_SETTING = "FORCE:4"  # valid as a setting, invalid as a name: editors would offer `true` for each name
_OF_TEXT = ("expression", "template")  # formats of hpcforge alone: ajv refuses a format that it cannot check
_LITERAL = ("const", "default", "enum", "examples", "required")
_BY_NAME = ("$defs", "patternProperties", "properties")
_ABOUT = ("default", "description", "title")


def for_editors(schema: Schema, *, empty: bool) -> Schema:
    """Return the schema for tools that type YAML. `empty`: keys of a section may be without a value."""
    made: Schema = {key: value if key in _LITERAL else _part(key, value, empty) for key, value in schema.items()}
    if made.get("format") in _OF_TEXT:
        del made["format"]
    if "pattern" in made:
        made["pattern"] = _pattern(made["pattern"])
    if "enum" in made:
        made = _enumerated(made)
    elif "const" in made:
        made = _constant(made)
    elif "type" in made:
        made = _typed(made)
    if empty and made.get("additionalProperties") is False:
        required = made.get("required", ())
        fields = made.get("properties", {})
        made["properties"] = {name: field if name in required else _or_null(field) for name, field in fields.items()}
    return made


def _part(key: str, value: object, empty: bool) -> object:
    if isinstance(value, list):
        return [_part("", item, empty) for item in value]
    if not isinstance(value, dict):
        return value
    if key in _BY_NAME:
        return {_pattern(name): for_editors(part, empty=empty) for name, part in value.items()}
    return for_editors(value, empty=empty)


def _pattern(pattern: str) -> str:
    r"""Return a pattern for Python and ECMA 262, to which `\w` is ASCII alone, as paths are not."""
    return pattern.replace(r"[\w", r"[A-Za-z0-9_\u00aa-\uffff")


def _typed(schema: Schema) -> Schema:
    """Text may be bare where YAML types it, a number or a truth value may be quoted."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "string" in types:
        bare = [] if schema.get("format") else _bare(schema.get("pattern", ""))
        return {**schema, "type": _one_or_more([*types, *bare])}
    quoted = [_PATTERNS[name] for name in types if name in _PATTERNS]
    return {**schema, "type": [*types, "string"], "pattern": quoted[0]} if quoted else schema


def _bare(pattern: str) -> list[str]:
    """Return the types that some text of this pattern has in YAML."""
    fits = re.compile(pattern).search
    numbers = "number" if any(map(fits, _NUMBERS)) else "integer" if any(map(fits, _INTEGERS)) else ""
    truth = "boolean" if all(map(fits, (*_TRUTHS, _SETTING))) else ""
    return [name for name in (numbers, truth) if name]


def _enumerated(schema: Schema) -> Schema:
    bare = [value for text in schema["enum"] if (value := _value(text)) is not None]
    rest = {key: value for key, value in schema.items() if key != "type"} if bare else schema
    return {**rest, "enum": [*schema["enum"], *bare]}


def _constant(schema: Schema) -> Schema:
    """Return the schema of a constant: a number may be quoted, and the text of a number bare."""
    const = schema["const"]
    about = {key: schema[key] for key in _ABOUT if key in schema}
    if (value := _value(const)) is not None:
        return {**about, "enum": [const, value]}
    if isinstance(const, int):
        return {**about, "anyOf": [{"const": const}, {"type": "string", "pattern": f"^{str(const).lower()}$"}]}
    return schema


def _value(text: object) -> float | bool | None:
    """Return what a text is in YAML, if not text."""
    if not isinstance(text, str):
        return None
    if text in _TRUTHS:
        return text == "true"
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
        return float(text) if "." in text else int(text)
    return None


def _or_null(schema: Schema) -> Schema:
    null = {"type": "null"}
    if "anyOf" in schema:
        return schema if null in schema["anyOf"] else {**schema, "anyOf": [*schema["anyOf"], null]}
    if "type" in schema and "enum" not in schema and "const" not in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return {**schema, "type": _one_or_more([*types, "null"])}
    about = {key: value for key, value in schema.items() if key in _ABOUT}
    rest = {key: value for key, value in schema.items() if key not in _ABOUT}
    return {**about, "anyOf": [rest, null]} if rest else schema


def _one_or_more(types: list[str]) -> str | list[str]:
    different = list(dict.fromkeys(types))
    return different[0] if len(different) == 1 else different
