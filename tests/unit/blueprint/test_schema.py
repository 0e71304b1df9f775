from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from hpcforge.blueprint import inventory
from hpcforge.blueprint.editor_schema import for_editors
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import json_schema, smoke_test_schema
from hpcforge.blueprint.sections.networks import NetworkSection
from hpcforge.blueprint.sections.nodes import Function
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.catalog import load_catalog
from hpcforge.cluster import model
from tools.blueprint_reference import page

ROOT = Path(__file__).parents[3]
_OF = (read_declared(ROOT / "roles"), load_smoke_tests(ROOT / "smoke_tests"))
SCHEMA = json_schema(*_OF, load_catalog().names())
INVENTORY = inventory.json_schema()
SMOKE_TEST = smoke_test_schema()
PUBLISHED = {
    "blueprints/blueprint.schema.json": SCHEMA,
    "inventory/inventory.schema.json": INVENTORY,
    "smoke_tests/test.schema.json": SMOKE_TEST,
}
FILES = pytest.mark.parametrize("of", [SCHEMA, INVENTORY, SMOKE_TEST], ids=["blueprint", "inventory", "smoke-test"])


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_schema_is_current(name: str, golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / name, json.dumps(for_editors(PUBLISHED[name], empty=True), indent=2) + "\n")


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
    assert get_args(Function) == model.FUNCTIONS


def properties(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, field in node.get("properties", {}).items():
            yield f"{path}.{name}", field
        for key, value in node.items():
            yield from properties(value, f"{path}.{key}")


@pytest.mark.parametrize("name", ["blueprint", "inventory"])
def test_the_reference_is_current(name: str, golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs" / f"{name}.md", page(name))


def test_the_reference_of_smoke_tests_ends_its_page() -> None:
    _, mark, text = (ROOT / "docs" / "smoke-tests.md").read_text(encoding="utf-8").partition("# hpcforge smoke test")
    assert mark + text == page("smoke-test"), "write it: python -m tools.blueprint_reference smoke-test"


OFFERED = {
    "NodeGroup.hardware": "dgx-h100",
    "GpusSection.model": "h100-sxm",
    "OverrideGpus.model": "a100-80",
    "FabricSection.switch": "sn3420",
    "FabricSection.spine_switch": "sn4600",
    "SiteRacks.model": "rack-48u",
    "SiteRacks.pdu": "pdu-415v-32a",
    "FeedUps.model": "galaxy-vl-300kw",
    "FileSystemSection.kind": "lustre",
    "OperatingSystemSection.name": "debian",
    "OperatingSystemSection.release": "13",
    "Override.release": "13",
    "Frameworks.pytorch": "2.13.0",
    "Server.like": "dgx-h100",
    "Server.cpu": "xeon-8570",
    "Gpu.like": "h100-sxm",
    "Switch.like": "qm9700",
    "CableModel.like": "dac-25g",
}


@pytest.mark.parametrize("place", OFFERED)
def test_editors_offer_the_names_of_the_catalog_and_accept_others(place: str) -> None:
    section, _, field = place.partition(".")
    found = SCHEMA["$defs"][section]["properties"][field]
    options = list(alternatives(found))
    assert OFFERED[place] in {name for option in options for name in option.get("enum", ())}
    assert [option for option in options if option.get("type") == "string" and "enum" not in option], (
        "a model of its own"
    )
    assert found["description"].endswith(".")
    assert "x-catalog" not in json.dumps(SCHEMA)


def test_names_that_are_offered_are_accepted() -> None:
    for alternative in alternatives(SCHEMA["$defs"]["FabricSection"]["properties"]["switch"]):
        for name in alternative.get("enum", ()):
            assert re.fullmatch(pattern(SCHEMA["$defs"]["FabricSection"]["properties"]["switch"]), name)


def alternatives(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "anyOf" in node:
        for one in node["anyOf"]:
            yield from alternatives(one)
    else:
        yield node


def pattern(node: dict[str, Any]) -> str:
    return next(alternative["pattern"] for alternative in alternatives(node) if "pattern" in alternative)


def test_models_of_a_blueprint_are_offered_for_it() -> None:
    """As to who edits it: those in its `hardware` and `parts`, beside those of the catalog."""
    path = ROOT / "blueprints" / "dgx-h100-site.yaml"
    printed = subprocess.run(
        [sys.executable, "-m", "hpcforge", "schema", "blueprint", str(path)], check=True, capture_output=True, text=True
    ).stdout
    places = json.loads(printed)["$defs"]
    switches = {
        name
        for alternative in alternatives(places["FabricSection"]["properties"]["switch"])
        for name in alternative.get("enum", ())
    }
    assert {"our-qm9700", "our-sn4600", "qm9700"} <= switches
    assert "our-qm9700" not in json.dumps(SCHEMA)


def test_bounds_are_in_words_that_json_schema_knows() -> None:
    assert '"ge"' not in json.dumps(SCHEMA)


def test_boot_names_the_command_that_serves_it() -> None:
    """A network with `boot` is not served before somebody starts `hpcforge netboot serve`."""
    described = NetworkSection.model_fields["boot"].description or ""
    assert "hpcforge netboot" in described
