from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from hpcforge.blueprint import schema
from hpcforge.blueprint.reference import reference
from hpcforge.cluster import model

PUBLISHED = Path(__file__).parents[2] / "blueprints" / "blueprint.schema.json"


def test_published_schema_is_current(request: pytest.FixtureRequest) -> None:
    text = json.dumps(schema.json_schema(), indent=2) + "\n"
    if request.config.getoption("--refresh-golden"):
        PUBLISHED.write_text(text)
    assert PUBLISHED.read_text() == text


def test_every_field_has_a_description() -> None:
    fields = list(properties(schema.json_schema()))
    assert len(fields) > 60
    assert [path for path, field in fields if not field.get("description", "").endswith(".")] == []


def test_every_mapping_refuses_unknown_keys() -> None:
    sections = [schema.json_schema(), *schema.json_schema()["$defs"].values()]
    assert [section["title"] for section in sections if section.get("additionalProperties") is not False] == []


def test_quantities_carry_their_unit() -> None:
    units = {"GiB": "_gib"}
    for path, field in properties(schema.json_schema()):
        for unit, suffix in units.items():
            assert (unit in field["description"]) == path.endswith(suffix), path


def test_functions_are_those_of_the_model() -> None:
    assert get_args(schema.Function) == model.FUNCTIONS


def properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, field in node.get("properties", {}).items():
            yield f"{path}.{name}", field
        for key, value in node.items():
            yield from properties(value, f"{path}.{key}")


def test_the_reference_is_current() -> None:
    text = (PUBLISHED.parents[1] / "docs" / "blueprint.md").read_text(encoding="utf-8")
    assert text == reference(schema.json_schema()), "write it anew: hpcforge schema --markdown > docs/blueprint.md"


def test_bounds_are_in_words_that_json_schema_knows() -> None:
    assert '"ge"' not in json.dumps(schema.json_schema())
