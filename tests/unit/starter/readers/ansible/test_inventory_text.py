"""The text of an inventory becomes groups."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import StarterError
from hpcforge.starter.readers.ansible.inventory_text import HostVariable, parse


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("w[1:3]", "w1 w2 w3"),
        ("w[01:10:3]", "w01 w04 w07 w10"),
        ("r[a:c]-[1:2].hpc.org", "ra-1.hpc.org ra-2.hpc.org rb-1.hpc.org rb-2.hpc.org rc-1.hpc.org rc-2.hpc.org"),
        ("w[01-03]", "w01 w02 w03"),
        ("w[3:1] w", ""),
        ("w[1:2:0]", "w1 w2"),
        ('"w 1"', "w 1"),
    ],
)
def test_ranges_of_hosts(pattern: str, names: str) -> None:
    hosts = parse(f"[g]\n{pattern}\n").by_name["g"].hosts
    assert " ".join(hosts) == names


def test_a_name_of_thousands_of_brackets_is_left_out() -> None:
    groups = parse("[g]\nn" + "[1:" * 1_000_000 + "\nn1\n")
    assert list(groups.by_name["g"].hosts) == ["n1"]
    assert [left_out.line for left_out in groups.left_out] == [2]


def test_ini_has_hosts_variables_and_children() -> None:
    text = "n0\n[g]  # of g\nn1:2222 a=\"b c\" d='e'  # f\n;n2\n[g:vars]\nx = 'y z'\n[all:children]\ng ; h\n"
    groups = parse(text).by_name
    assert list(groups) == ["ungrouped", "g", "all"]
    line, variables = groups["g"].hosts["n1"]
    assert line == 3
    assert {name: variable.text for name, variable in variables.items()} == {
        "a": "b c",
        "d": "e",
        "ansible_port": "2222",
    }
    assert groups["g"].variables == {"x": HostVariable(6, "y z")}
    assert groups["all"].children == {"g": 8}


def test_yaml_and_json_have_the_same() -> None:
    yaml = parse("g:\n  hosts: {n1: {a: b}}\n  vars: {x: y}\n  children: {h: }\n")
    json = parse(
        '{"_meta": {"hostvars": {"n1": {"a": "b"}}},\n "g": {"hosts": ["n1"], "vars": {"x": "y"}, "children": ["h"]}}'
    )
    for groups in (yaml.by_name, json.by_name):
        assert groups["g"].hosts["n1"][1]["a"].text == "b"
        assert groups["g"].variables["x"].text == "y"
        assert list(groups["g"].children) == ["h"]


def test_merged_variables_yield_to_a_hosts_own() -> None:
    hosts = (
        parse("a: {vars: &v {x: '1', y: '2'}}\ng: {hosts: {n1: {<<: [*v], y: '3', z: [{k: l}, m]}}}\n")
        .by_name["g"]
        .hosts
    )
    variables = hosts["n1"][1]
    assert (variables["x"].text, variables["y"].text, variables["z"].parts) == ("1", "3", ({"k": "l"}, {}))


def test_text_that_is_no_tree_of_groups_is_refused() -> None:
    with pytest.raises(StarterError, match="not YAML"):
        parse("a: [\n")
    assert parse("").by_name["ungrouped"].hosts == {}
