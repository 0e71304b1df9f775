from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from hpcforge.blueprint import inventory, schema
from hpcforge.blueprint.declared import read_declared
from hpcforge.blueprint.networks import Network
from hpcforge.blueprint.reference import reference
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.cluster import model

ROOT = Path(__file__).parents[2]
SCHEMA = schema.json_schema(read_declared(ROOT / "roles"), load_smoke_tests(ROOT / "smoke_tests"))
INVENTORY = inventory.json_schema()
SMOKE_TEST = schema.smoke_test_schema()
PUBLISHED = {
    "blueprints/blueprint.schema.json": SCHEMA,
    "inventory/inventory.schema.json": INVENTORY,
    "smoke_tests/test.schema.json": SMOKE_TEST,
}
REFERENCES = {
    "docs/blueprint.md": (SCHEMA, "hpcforge schema --markdown"),
    "docs/inventory.md": (INVENTORY, "hpcforge schema inventory --markdown"),
}
FILES = pytest.mark.parametrize("of", [SCHEMA, INVENTORY, SMOKE_TEST], ids=["blueprint", "inventory", "smoke-test"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_schema_is_current(name: str, golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / name, json.dumps(PUBLISHED[name], indent=2) + "\n")


@FILES
def test_every_field_has_a_description(of: dict[str, Any]) -> None:
    fields = list(properties(of))
    assert len(fields) > {id(SCHEMA): 60, id(INVENTORY): 20, id(SMOKE_TEST): 15}[id(of)]
    assert [path for path, field in fields if not field.get("description", "").endswith(".")] == []


@FILES
def test_every_mapping_refuses_unknown_keys(of: dict[str, Any]) -> None:
    sections = [of, *of["$defs"].values()]
    assert [section["title"] for section in sections if section.get("additionalProperties") is not False] == []


def test_quantities_carry_their_unit() -> None:
    units = {"GiB": "_gib"}
    for path, field in properties(SCHEMA):
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


@pytest.mark.parametrize("name", REFERENCES)
def test_the_reference_is_current(name: str) -> None:
    of, made_by = REFERENCES[name]
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == reference(of, made_by), f"write it anew: {made_by} > {name}"


def test_the_reference_of_smoke_tests_ends_its_page() -> None:
    _, mark, text = (ROOT / "docs" / "smoke-tests.md").read_text(encoding="utf-8").partition("# hpcforge smoke test")
    made_by = "hpcforge schema smoke-test --markdown"
    assert mark + text == reference(SMOKE_TEST, made_by), f"write it anew: {made_by}"


def test_bounds_are_in_words_that_json_schema_knows() -> None:
    assert '"ge"' not in json.dumps(SCHEMA)


def test_boot_does_not_promise_a_server_to_boot_from() -> None:
    """It only says which network has the nodes' addresses: nothing of hpcforge answers PXE."""
    described = Network.model_fields["boot"].description or ""
    assert "no PXE server" in described
    assert "oot from it" not in described
