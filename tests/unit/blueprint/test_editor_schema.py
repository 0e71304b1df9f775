from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML  # YAML 1.2, as yaml-language-server and check-jsonschema read it

from hpcforge.blueprint import inventory
from hpcforge.blueprint.editor_schema import for_editors
from hpcforge.blueprint.inventory import Inventory
from hpcforge.blueprint.reader import read_bytes
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import blueprint_model, json_schema
from hpcforge.blueprint.section import schema_of
from hpcforge.blueprint.smoke_tests import SmokeTestSpec, load_smoke_tests
from hpcforge.blueprint.validate import validate
from hpcforge.plan.roles.spec import json_schema as role_schema

ROOT = Path(__file__).parents[3]
OF_BLUEPRINT = (read_declared(ROOT / "roles"), load_smoke_tests(ROOT / "smoke_tests"))
BLUEPRINT = """\
schema: 1
name: lab
domain: lab.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.77.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-12]", gpus: {model: fake, count: 2}}
networks: {cluster: {cidr: 10.77.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}, frameworks: {pytorch: 2.13.0}}
slurm: {controller: head, partitions: {main: {nodes: "w[01-02]", default: true, settings: {PriorityTier: two}}}}
users: {tests: {uid: 2002}}
"""
INVENTORY = "schema: 1\nnodes:\n  head: {address: 10.77.0.10, serial: S47}\n"
# Places of BLUEPRINT and INVENTORY as somebody else writes them, all of which hpcforge's reader takes.
TAKEN = {
    "a release without quotes": ('release: "12"', "release: 12"),
    "a version that is a number": ("pytorch: 2.13.0", "pytorch: 2.13"),
    "a number in quotes": ("count: 2", 'count: "2"'),
    "an identity in quotes": ("uid: 2002", "uid: '2002'"),
    "a truth value in quotes": ("default: true", 'default: "true"'),
    "a setting that is a number": ("PriorityTier: two", "PriorityTier: 2"),
    "a setting that is a truth value": ("PriorityTier: two", "PriorityTier: true"),
    "the version of the schema in quotes": ("schema: 1\nname", 'schema: "1"\nname'),
    "a section without a value": ("users: {tests: {uid: 2002}}", "users:"),
    "a key without a value": ("gpus: {model: fake, count: 2}", "gpus: "),
    "a partition of digits": ("{main: {", '{"2027": {'),
    "a path with letters of other languages": (
        "schema: 1\nname",
        "inventory: Ger\u00e4te/\u6a5f\u68b0.yaml\nschema: 1\nname",
    ),
    "a serial number of digits": ("serial: S47", "serial: 4711"),
    "a serial number that is a float": ("serial: S47", "serial: 47e11"),
    "machines without a value": ("nodes:\n  head: {address: 10.77.0.10, serial: S47}", "nodes:"),
}
REFUSED = {
    "a word for a number": ("count: 2", "count: two"),
    "a quoted word for a number": ("count: 2", 'count: "two"'),
    "a truth value for a number": ("count: 2", "count: true"),
    "a number for a truth value": ("default: true", "default: 1"),
    "a number for a name": ("name: lab", "name: 12"),
    "a truth value for an address": ("address: 10.77.0.10", "address: true"),
    "a key that is not there": ("count: 2", "counts: 2"),
    "a required key without a value": ("model: fake", "model:"),
}


@cache
def validators() -> dict[str, jsonschema.Draft202012Validator]:
    of_file = {"blueprint": json_schema(*OF_BLUEPRINT), "inventory": inventory.json_schema()}
    return {name: jsonschema.Draft202012Validator(for_editors(of, empty=True)) for name, of in of_file.items()}


def verdicts(text: str, kind: str) -> tuple[bool, bool]:
    """Whether hpcforge's reader takes a file, and whether its JSON Schema does."""
    model = {"blueprint": blueprint_model(*OF_BLUEPRINT), "inventory": Inventory}[kind]
    _, diagnostics = validate(model, read_bytes(text.encode(), kind))
    return not diagnostics, validators()[kind].is_valid(YAML(typ="safe", pure=True).load(text))


def changed(old: str, new: str) -> tuple[str, str]:
    kind, text = ("blueprint", BLUEPRINT) if old in BLUEPRINT else ("inventory", INVENTORY)
    assert text.count(old) == 1
    return text.replace(old, new), kind


@pytest.mark.parametrize("case", TAKEN)
def test_what_the_reader_takes_the_schema_takes(case: str) -> None:
    assert verdicts(*changed(*TAKEN[case])) == (True, True)


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_reader_refuses_the_schema_refuses(case: str) -> None:
    assert verdicts(*changed(*REFUSED[case])) == (False, False)


def test_the_files_are_right_before_they_are_changed() -> None:
    assert (verdicts(BLUEPRINT, "blueprint"), verdicts(INVENTORY, "inventory")) == ((True, True), (True, True))


def patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (node["pattern"] for _ in [0] if isinstance(node.get("pattern"), str))
        yield from node.get("patternProperties", ())
        for value in node.values():
            yield from patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from patterns(value)


@pytest.mark.parametrize("kind", ["blueprint", "inventory", "smoke-test", "role"])
def test_patterns_are_those_of_ecma_262(kind: str) -> None:
    r"""No \A, \Z, named group or flag of Python's, and no \w, \d or \b, which are ASCII alone in ECMA 262."""
    made = {
        "blueprint": json_schema(*OF_BLUEPRINT),
        "inventory": inventory.json_schema(),
        "smoke-test": schema_of(SmokeTestSpec, "smoke test"),
        "role": role_schema(),
    }[kind]
    found = set(patterns(for_editors(made, empty=True)))
    assert len(found) > 5
    only_here = re.compile(r"\\[AZwWdDbB'\"#@_,;%& ]|\(\?[^:=!]|[*+?}]\+")
    bare = {pattern: re.sub(r"\[\^?\]?[^\\\]]*\]", "[]", pattern) for pattern in found}  # without sets of characters
    assert [pattern for pattern in sorted(found) if only_here.search(bare[pattern])] == []
    assert [pattern for pattern in sorted(found) if re.search(r"\\[wd]", pattern)] == []


def test_formats_and_bounds_are_known_to_other_tools() -> None:
    made = [for_editors(role_schema(), empty=False), *(validator.schema for validator in validators().values())]
    keys = {key for of in made for key in keywords(of)}
    assert not keys & {"ge", "le", "gt", "lt", "x-catalog"}
    assert {value for of in made for value in formats(of)} <= {"date", "ipv4"}


def keywords(node: Any, names: bool = False) -> Iterator[str]:
    if isinstance(node, dict):
        yield from () if names else node
        for key, value in node.items():
            if key not in ("default", "const", "enum"):
                yield from keywords(value, not names and key in ("properties", "$defs", "patternProperties"))
    elif isinstance(node, list):
        for value in node:
            yield from keywords(value)


def formats(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (node["format"] for _ in [0] if isinstance(node.get("format"), str))
        for value in node.values():
            yield from formats(value)
    elif isinstance(node, list):
        for value in node:
            yield from formats(value)
