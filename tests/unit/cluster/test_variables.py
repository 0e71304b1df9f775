"""What a role lets the blueprint choose is declared by the role, and arrives in its files and its code as data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcforge import bundled
from hpcforge.blueprint.role_declarations import DeclarationError, read_declared
from hpcforge.blueprint.schema import json_schema
from hpcforge.cluster import load
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.desired import Desired
from hpcforge.plan.roles.role import RoleError, load_roles
from tests.support.shipped import ROOT
from tools.blueprint_reference import reference

CASE = ROOT / "tests" / "unit" / "blueprint" / "cases" / "valid.yaml"
MOTD = """\
description: What people read when they log in.
vars:
  text: {type: text, description: What it says.}
  shown: {type: truth, default: "true", description: Whether it is shown.}
  every: {type: duration, default: 2h, description: How often it is made anew.}
  hosts: {list_of: host, default: [a.example.org, 192.0.2.7], description: Who else shows it.}
  items: {type: whole, default: "3", at_most: 9, description: A name that dictionaries have.}
on: vars.shown and "head" in node.functions
files:
  - /etc/motd
checks:
  - {name: it is short, command: [test, "{{ vars.items }}", -lt, "9"]}
inputs: {text: vars.text, hosts: vars.hosts, every_s: vars.every, shown: vars.shown}
"""
TEMPLATE = "{{ vars.text }}\n{{ vars.hosts | join(' ') }} {{ vars.every + 1 }} {{ vars.items + 1 }} {{ vars.shown }}\n"


@pytest.fixture
def roles(tmp_path: Path) -> Path:
    """A site's folder of roles, with one in it."""
    folder = tmp_path / "ours" / "motd"
    (folder / "files" / "etc").mkdir(parents=True)
    (folder / "role.yaml").write_text(MOTD)
    (folder / "files" / "etc" / "motd.j2").write_text(TEMPLATE)
    (folder / "deploy.py").write_text("")
    return tmp_path / "ours"


def desired(roles: Path, said: str) -> Desired:
    path = roles.parent / "b.yaml"
    path.write_text(f"role_folders: [{roles.name}]\nroles: {{motd: {{{said}}}}}\n{CASE.read_text()}")
    loaded = load(path)
    assert loaded.role_folders == (bundled.roles(), roles)
    return compile_desired(loaded.cluster, load_roles(*loaded.role_folders), {})


def motd(made: Desired) -> list[tuple[str, dict[str, Any]]]:
    """What the file says and the code is told, on each node."""
    wanted = [one for node in made.nodes.values() for one in node if one.role == "motd"]
    return [(made.texts[str(one.of(File)[0].digest)], dict(one.opaque.inputs)) for one in wanted if one.opaque]


def test_files_and_code_get_typed_values_and_defaults(roles: Path) -> None:
    [(text, inputs)] = motd(desired(roles, "text: Welcome"))
    assert text == "Welcome\na.example.org 192.0.2.7 7201 4 True\n"
    assert inputs == {"text": "Welcome", "hosts": ["a.example.org", "192.0.2.7"], "every_s": 7200, "shown": True}
    [(text, _)] = motd(desired(roles, "text: Welcome, hosts: [], every: 5s, items: 9"))
    assert text == "Welcome\n 6 10 True\n"
    assert motd(desired(roles, "text: Welcome, shown: false")) == []


@pytest.mark.parametrize("value", ["{{ 1+1 }}", "{% raw %}", "$(id) `id` ${HOME}", "a: b # c", "%{host}", "{# x #}"])
def test_a_value_is_data(roles: Path, value: str) -> None:
    [(text, inputs)] = motd(desired(roles, f"text: '{value}'"))
    assert text.splitlines()[0] == value
    assert inputs["text"] == value


def test_another_value_is_another_input_of_its_code(roles: Path) -> None:
    digests = set()
    for said in ("text: a", "text: b", "text: b, every: 3h", "text: b, items: 4"):  # the last is no input
        [wanted] = [one for one in desired(roles, said).nodes["head"] if one.role == "motd"]
        assert wanted.opaque is not None
        digests.add(wanted.opaque.digest)
    assert len(digests) == 3


def test_a_role_knows_its_own_variables_only(roles: Path) -> None:
    other = roles / "other"
    other.mkdir()
    (other / "role.yaml").write_text(
        'description: Another.\non: "true"\nfiles:\n  - {path: /etc/other, content: "{{ vars.text }}"}\n'
    )
    with pytest.raises(RoleError, match=r"ours/other/role\.yaml: /etc/other: .*no attribute 'text'"):
        desired(roles, "text: Welcome")


def test_schema_and_reference_follow(roles: Path) -> None:
    schema = json_schema(read_declared(bundled.roles(), roles), {})
    [chosen] = [part for name, part in schema["$defs"].items() if "every" in part.get("properties", {})]
    assert chosen["additionalProperties"] is False
    assert list(chosen["properties"]) == ["text", "shown", "every", "hosts", "items"]
    assert chosen["properties"]["items"] | {"title": ""} == {
        "type": "integer", "maximum": 9, "default": 3, "title": "",
        "description": "A name that dictionaries have.",
    }  # fmt: skip
    rows = [line for line in reference(schema, "").splitlines() if line.startswith("| `roles.motd")]
    assert rows[1:4] == [
        "| `roles.motd.text` | string |  | What it says. Required where the role runs. |",
        "| `roles.motd.shown` | boolean | `true` | Whether it is shown. |",
        '| `roles.motd.every` | string | `"2h"` | How often it is made anew. |',
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("type: text", "type: txt", "vars.text.type: Input should be 'text'"),
        ("type: text", "list_of: text, type: text", "give exactly one of type, list_of and one_of"),
        ("{type: text, description: What it says.}", "{type: text}", "vars.text.description: Field required"),
        ('default: "3"', 'default: "10"', "vars.items: Value error, default: Input should be less than or equal to 9"),
        ("default: 2h", "default: 2 hours", "`2 hours` is not a time such as 90s, 15min or 2h"),
        ("at_most: 9", "at_most: 9, at_least: 10", "at_least is more than at_most"),
        ("type: text", "type: text, at_most: 9", "at_least and at_most are for whole and number"),
        ("  text:", "  Text:", "should match pattern"),
        ("type: text", "tpye: text", "Extra inputs are not permitted"),
    ],
)
def test_a_role_that_declares_it_wrongly_is_named(roles: Path, old: str, new: str, said: str) -> None:
    path = roles / "motd" / "role.yaml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(DeclarationError, match=r"ours/motd/role\.yaml") as raised:
        read_declared(bundled.roles(), roles)
    assert said in str(raised.value)
