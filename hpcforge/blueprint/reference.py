"""A JSON Schema as a reference for people: one row a key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_TEXTS = ("expression", "template")  # formats of text that say more than its type
_HEAD = """\
# {title}: reference

Made by `{made_by}`; a test keeps it so. `<name>` is a key of your own; unknown keys are refused.

| key | value | default | meaning |
|---|---|---|---|
"""


def reference(schema: dict[str, Any], made_by: str) -> str:
    """Markdown: a table with every key of the schema, nested keys as `a.b`. `made_by` is the command that prints it."""
    return _HEAD.format(title=schema["title"], made_by=made_by) + "".join(
        f"| {' | '.join(row)} |\n" for row in _rows(schema, schema, "")
    )


def _rows(schema: dict[str, Any], part: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        yield from _field(schema, field, prefix + name, name in required)


def _field(
    schema: dict[str, Any], field: dict[str, Any], path: str, required: bool
) -> Iterator[tuple[str, str, str, str]]:
    default = "required" if required else _default(field)
    yield f"`{path}`", _kind(schema, field), default, field.get("description", "").replace("|", "\\|")
    for inner in _alternatives(schema, field):
        yield from _rows(schema, inner, f"{path}.")
        free = [inner.get("additionalProperties"), *inner.get("patternProperties", {}).values()]
        for values in (one for one in free if isinstance(one, dict)):
            for value in _alternatives(schema, values):
                yield from _rows(schema, value, f"{path}.<name>.")
        for item in _alternatives(schema, inner.get("items", {})):
            yield from _rows(schema, item, f"{path}[].")


def _alternatives(schema: dict[str, Any], field: dict[str, Any]) -> list[dict[str, Any]]:
    """What a field may hold, references followed, null left out."""
    if "$ref" in field:
        return [schema["$defs"][field["$ref"].rpartition("/")[2]]]
    for several in ("anyOf", "oneOf"):
        if several in field:
            return [one for part in field[several] for one in _alternatives(schema, part)]
    return [] if field.get("type") == "null" else [field]


def _kind(schema: dict[str, Any], field: dict[str, Any]) -> str:
    kinds = []
    for one in _alternatives(schema, field):
        if "enum" in one:
            kinds.append(", ".join(f"`{value}`" for value in one["enum"]))
        elif "const" in one:
            kinds.append(f"`{one['const']}`")
        elif one.get("type") == "array":
            kinds.append(f"list of {_kind(schema, one.get('items', {})) or 'anything'}")
        elif one.get("type") == "object":
            kinds.append("mapping")
        else:
            kind = one["format"] if one.get("format") in _TEXTS else one.get("type", "")
            kinds.append(" or ".join(kind) if isinstance(kind, list) else str(kind))
    return " or ".join(dict.fromkeys(kinds))


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    return "" if value in (None, [], {}) else f"`{json.dumps(value)}`"
