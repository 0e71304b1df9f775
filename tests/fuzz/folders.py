"""Inputs of other kinds: `role.yaml`, templates and `test.yaml` in folders that a right blueprint names."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge.blueprint.reader import plain, read_file
from hpcforge.plan.roles.spec import json_schema
from tests.fuzz.generate import Dice, spoilt, written
from tests.fuzz.pool import Input

_ROOT = Path(__file__).parents[2]
_ROLE, _TEXT, _TEST, _PROGRAM = (
    "roles/tried/role.yaml",
    "roles/tried/text.j2",
    "tests/tried/test.yaml",
    "tests/tried/tried.py",
)


def singular(seed: int, number: int) -> Input:
    """An input: right, or one of its three files is spoilt."""
    dice = random.Random(f"folders/{seed}/{number}")
    role, test, text = _role(dice), _test(dice), _template(dice)
    files = {_ROLE: written(dice, role), _TEST: written(dice, test), _TEXT: text.encode(), _PROGRAM: b"pass\n"}
    kind = dice.choice([None, None, _ROLE, _TEXT, _TEST])
    if kind == _ROLE:
        files[_ROLE] = spoilt(dice, _odd(dice, role))
    elif kind == _TEXT:
        files[_TEXT] = _odd_text(dice, text)
    elif kind == _TEST:
        files[_TEST] = spoilt(dice, test)
    return Input(f"{seed}-{number}", _blueprint(), None, dice.random() < 0.2, files)


@cache
def _blueprint() -> bytes:
    tree: dict[str, Any] = plain(read_file(_ROOT / "blueprints/rehearsal.yaml").root)
    tree["software"].pop("site_roles")  # it lies in another folder
    tree["role_folders"] = ["roles"]
    tree["acceptance"] = {**tree["acceptance"], "folders": ["tests"], "tests": {"tried": {"nodes": "all"}}}
    return json.dumps(tree).encode()


def _role(dice: Dice) -> dict[str, Any]:
    """What a site could write: some resources of each kind that is often used."""
    pieces: dict[str, Any] = {
        "packages": [{"name": "{{ item }}", "for_each": "['a', 'b'] | sort"}, "curl"],
        "directories": [{"path": "/srv/{{ node.name }}", "mode": "0755", "when": _truth(dice)}],
        "units": [{"name": "x.service", "restart_on": ["/etc/tried"], "when": _truth(dice)}],
        "checks": [{"name": "it works", "command": ["true", _value(dice)], "stdout": ".*"}],
        "ports": [{"port": "80", "why": "users"}],
        "sysctls": [{"name": "vm.swappiness", "value": "1", "when": _truth(dice)}],
        "links": [{"path": "/srv/x", "target": "/srv/y"}],
        "vars": {"size": {"type": "whole", "default": "3", "description": "A size."}},
    }
    chosen = {name: piece for name, piece in pieces.items() if dice.random() < 0.5}
    file = {"path": "/etc/tried", "source": "text.j2", "scope": "node"}
    return {"description": "Is tried.", "on": _truth(dice), "files": [file], **chosen}


def _test(dice: Dice) -> dict[str, Any]:
    bound = dice.choice(["at_least", "at_most"])
    size = {"options": {"size": {"type": "whole", "default": "3", "description": "A size."}}}
    return {
        "description": "Is tried.",
        "launcher": dice.choice(["plain", "srun"]),
        "measures": {"speed": {"unit": "GB/s", "better": "higher"}},
        "headline": dice.choice(["{speed} GB/s", "{speed:worst} GB/s on {speed:worst_node}"]),
        "thresholds": dice.choice(["none", {"speed": {bound: str(dice.randint(1, 100))}}]),
        **(size if dice.random() < 0.5 else {}),
    }


def _truth(dice: Dice) -> str:
    return dice.choice(
        ["true", "node.gpus is none", "'worker' in node.functions", "cluster.nodes | length > 2", "not false"]
    )


def _value(dice: Dice) -> str:
    names = [
        "node.name",
        "cluster.name",
        "cluster.nodes | map(attribute='name') | join(',')",
        "node.cpus * 2",
        "'a' ~ 1",
    ]
    return f"{{{{ {dice.choice(names)} }}}}"


def _template(dice: Dice) -> str:
    lines = [
        *(_value(dice), "plain", f"{{% if {_truth(dice)} %}}yes{{% endif %}}"),
        "{% for one in cluster.nodes %}{{ one.name }} {{ loop.index }}\n{% endfor %}",
        "{% set x = [1, 2] %}{{ x | sum }}",
    ]
    return "\n".join(dice.choice(lines) for _ in range(dice.randint(0, 12)))


_WORDS = """
cluster node vars item settings artifacts 1 0 -1 1.5 9999999999 'a' "b" none true [] {} () self loop range namespace
dict cluster.nodes cluster.by_name node.name x
"""
_ATOMS = _WORDS.split()
_AFTER = [
    *(".name", ".nodes", "[0]", "[1:]", "['a']", ".__class__", ".items()", ".append(1)", ".split()", "()", "(3)"),
    *(".format(1)", " | list", " | join", " | length", " | first", " | sort", " | tojson", " | string", " | int"),
    *(" | map('int')", " | sum", " | replace('a', 'aa')", " | indent(9)", " | center(99)", " | round(-9)"),
    *(" | unique", " | nothing", " is none"),
]
_BETWEEN = [
    " + ",
    " * ",
    " ** ",
    " ~ ",
    " % ",
    " // ",
    " - ",
    " == ",
    " in ",
    " < ",
    " and ",
    " or ",
    " if 1 else ",
    ", ",
]
_STATEMENTS = [
    *("{% for i in EXPR %}", "{% endfor %}", "{% if EXPR %}", "{% endif %}", "{% set x = EXPR %}", "{{ EXPR }}"),
    *("{# x #}", "{% macro m(x) %}", "{% endmacro %}", "{{ m(EXPR) }}", "{% set x %}", "{% endset %}", "{% block b %}"),
    *("{% endblock %}", "{% include EXPR %}", "{% import EXPR as x %}", "{% for i in EXPR recursive %}", "{% raw %}"),
    *("{%", "{{", "}}", "#}", "x", "{% for i in range(100000) %}", "{% call m() %}", "{% endcall %}"),
    *("{% filter upper %}", "{% endfilter %}", "{{ secret('x') }}"),
]


def _expression(dice: Dice) -> str:
    text = dice.choice(_ATOMS)
    for _ in range(dice.randint(0, 6)):
        do = dice.random()
        if do < 0.6:
            text += dice.choice(_AFTER)
        elif do < 0.9:
            text += dice.choice(_BETWEEN) + dice.choice(_ATOMS)
        else:
            text = f"{dice.choice('([{-')}{text}{dice.choice(')]}')}"
    return text


def _odd_text(dice: Dice, text: str) -> bytes:
    """Statements in any order; or something that no text has."""
    do = dice.random()
    if do < 0.1:
        return text.encode() + dice.randbytes(9)
    if do < 0.2:
        return (dice.choice(_STATEMENTS).replace("EXPR", _expression(dice)) * 3_000).encode()
    if do < 0.6:
        return f"{text}\n{{{{ {_expression(dice)} }}}}".encode()
    pieces = (dice.choice(_STATEMENTS).replace("EXPR", _expression(dice)) for _ in range(dice.randint(1, 12)))
    return "".join(pieces).encode()


def _odd(dice: Dice, role: dict[str, Any]) -> dict[str, Any]:
    """A key of role.yaml more, with what it should not have; or an expression of any kind."""
    if dice.random() < 0.5:
        return {**role, dice.choice(["on", "sets_clock"]): _expression(dice)}
    key = dice.choice(list(json_schema()["properties"]))
    value = dice.choice(
        [_expression(dice), [_expression(dice)], [{"name": f"{{{{ {_expression(dice)} }}}}"}], {"x": "y"}]
    )
    return {**role, key: value}
