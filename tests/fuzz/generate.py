"""Inputs for `validate`, each a function of a seed: right blueprints made from the schema, and what becomes of them
when one place is replaced, a line of YAML comes between, or bytes are changed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hpcforge import bundled
from hpcforge.blueprint.edit import quoted
from hpcforge.blueprint.reader import plain, read_file
from hpcforge.blueprint.role_declarations import read_declared
from hpcforge.blueprint.schema import json_schema
from hpcforge.blueprint.smoke_tests import load_smoke_tests
from hpcforge.catalog import load_catalog
from tests.fuzz.pool import Input
from tests.fuzz.regular import matching

Dice = random.Random
_UNIT = Path(__file__).parents[1] / "unit"
_RIGHT = [
    _UNIT / "blueprint" / "cases" / "valid.yaml",
    _UNIT / "blueprint" / "cases" / "networks.yaml",
    _UNIT / "design" / "facility" / "cases" / "valid.yaml",
]
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ"
_MEMORY_GIB, _CORES = 4, 2  # of the smallest server of the catalog that a worker may be


def inputs(seed: int, count: int) -> Iterator[Input]:
    """The inputs of a seed: each depends on its own number alone, so that one can be made again without the others."""
    return (singular(seed, number) for number in range(count))


def singular(seed: int, number: int) -> Input:
    dice = random.Random(f"{seed}/{number}")
    blueprint = right(dice) if dice.random() < 0.8 else dice.choice(_shipped())
    inventory = _inventory(dice, blueprint) if dice.random() < 0.3 else None
    name, as_json = f"{seed}-{number}", dice.random() < 0.2
    if inventory is not None:
        blueprint = {**blueprint, "inventory": "machines.yaml"}
    if dice.random() < 0.5:  # nothing is wrong with it
        return Input(name, written(dice, blueprint), inventory and written(dice, inventory), as_json)
    if inventory is not None and dice.random() < 0.5:
        return Input(name, written(dice, blueprint), spoilt(dice, inventory), as_json)
    return Input(name, spoilt(dice, blueprint), inventory and written(dice, inventory), as_json)


def right(dice: Dice) -> dict[str, Any]:
    """A blueprint with nothing wrong in it: what must agree is made to agree, the rest is drawn from the schema."""
    drawn, schema = _Drawn(dice), _schema()["$defs"]
    groups = {f"{stem}{_numbers(dice)}": stem for stem in _words(dice, dice.randint(1, 4))}
    fourth = iter(range(11, 250))
    nodes: dict[str, Any] = {"head": {"functions": ["head"], "hardware": "generic-1u", "addresses": "10.1.0.1"}}
    names: dict[str, list[str]] = {}
    for key in groups:
        stem, _, numbers = key.partition("[")
        first, last = (int(number) for number in numbers.rstrip("]").split("-"))
        width = len(numbers.partition("-")[0])
        names[key] = [f"{stem}{number:0{width}}" for number in range(first, last + 1)]
        taken = [next(fourth) for _ in names[key]]
        nodes[key] = {
            "functions": ["worker"],
            "hardware": dice.choice(_workers()),
            "addresses": f"10.1.0.[{taken[0]}-{taken[-1]}]" if len(taken) > 1 else f"10.1.0.{taken[0]}",
        }
    partitions = {
        word: {"nodes": dice.choice(["all", *groups]), "max_time": drawn.at(schema["PartitionSection"], "max_time")}
        for word in _words(dice, dice.randint(1, 4))
    }
    partitions["every"] = {"nodes": "all", "default": "true"}
    users = {f"u-{word}": {"uid": 2000 + place, "keys": dice.choice([[], [_KEY]])}
             for place, word in enumerate(_words(dice, dice.randint(1, 5)))}  # fmt: skip
    whole: dict[str, Any] = {
        "schema": 1,
        "name": drawn.at(_schema(), "name"),
        "domain": f"{dice.choice(_words(dice, 3))}.example.org",
        "access": {"user": f"u{drawn.at(schema['AccessSection'], 'user')}"[:32].rstrip("-"),
                   "become": drawn.at(schema["AccessSection"], "become")},
        "nodes": nodes,
        "networks": {"mgmt": {"cidr": "10.1.0.0/24"}},
        "services": {"dns": {"on": "head"}, "time": {"on": "head"}, "depot": {"on": "head"}},
        "software": {"os": {"name": "debian", "release": "12"}},
        "slurm": {"controller": "head", "reserve": {"cores": 1, "memory_gib": 1}, "partitions": partitions},
        "users": users,
    }  # fmt: skip
    if dice.random() < 0.5:
        whole["rollout"] = drawn.value(schema["RolloutSection"])
    if dice.random() < 0.5:
        whole["acceptance"] = {"run_as": dice.choice(list(users)), "tests": {"allreduce": {"nodes": "all"}}}
    if dice.random() < 0.3:
        name = dice.choice([name for several in names.values() for name in several])
        whole["overrides"] = {name: {"sockets": dice.randint(1, 8), "cores_per_socket": dice.randint(4, 64),
                                     "threads_per_core": dice.randint(1, 2), "memory_gib": dice.randint(8, 4096),
                                     "reason": drawn.at(schema["Override"], "reason")}}  # fmt: skip
    return whole


def _inventory(dice: Dice, blueprint: dict[str, Any]) -> dict[str, Any]:
    """Machines for a blueprint: some of them with host keys, some only here."""
    machines: dict[str, Any] = {"head": {"host_keys": [_KEY]}} if "head" in blueprint["nodes"] else {}
    machines |= {f"gone{number}": {"host_keys": [_KEY]} for number in range(dice.randrange(3))}
    return {"schema": 1, "nodes": machines}


def spoilt(dice: Dice, tree: dict[str, Any]) -> bytes:
    """A file with something wrong in it, most often."""
    kind = dice.choice([_another_value, _another_value, _another_line, _other_bytes, _one_long_line])
    return kind(dice, tree)


def written(dice: Dice, tree: dict[str, Any]) -> bytes:
    """A tree as a file: in blocks or in braces, and in what an editor may have made of it."""
    text = dice.choice([_in_blocks, _in_blocks, lambda data: json.dumps(data, indent=dice.choice([None, 1, 4]))])(tree)
    if dice.random() < 0.2:
        text = "".join(f"{line}{dice.choice(['', '  # why', ' '])}\n" for line in text.splitlines())
    text = dice.choice(["", "", "", "---\n", "# \N{GRINNING FACE}\n", "\ufeff"]) + text
    return text.replace("\n", dice.choice(["\n", "\n", "\n", "\r\n"])).encode()


def _in_blocks(tree: dict[str, Any], indent: str = "") -> str:
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict) and value and len(indent) < 4:
            lines.append(f"{indent}{quoted(key, flow=False)}:\n{_in_blocks(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{quoted(key, flow=False)}: {quoted('' if value is None else value)}\n")
    return "".join(lines)


def _another_value(dice: Dice, tree: dict[str, Any]) -> bytes:
    """One place or two have something else: of another type, of another part of the schema, or malicious."""
    for _ in range(dice.randint(1, 2)):
        at = dice.choice(list(_places(tree)))
        drawn = _Drawn(dice)
        value = dice.choice([
            lambda: dice.choice([None, "", "x", "0", [], {}, [[]], ["x"], {"x": None}, {"w[": "y"}, "all"]),
            lambda drawn=drawn: drawn.value(dice.choice(list(_schema()["$defs"].values()))),
            lambda: _hostlist(dice),
            lambda: dice.choice(_ODD_TEXTS),
        ])()  # fmt: skip
        tree = _replaced(tree, at, value, as_key=at != () and dice.random() < 0.2)
        if not isinstance(tree, dict):
            break
    return json.dumps(tree, indent=1).encode() if not isinstance(tree, dict) else written(dice, tree)


def _another_line(dice: Dice, tree: dict[str, Any]) -> bytes:
    lines = written(dice, tree).decode().splitlines(keepends=True)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines) + 1)
        do = dice.randrange(4)
        if do == 0:
            lines.insert(at, dice.choice(["", "  "]) + dice.choice(_LINES) + "\n")
        elif do == 1:
            del lines[at : at + dice.randint(1, 3)]
        elif do == 2:
            lines[at:at] = lines[at : at + dice.randint(1, 3)] * dice.choice([1, 1, 200])
        else:
            lines[at : at + 1] = [dice.choice([" ", "\t", "- ", "? ", ": "]) + line for line in lines[at : at + 1]]
    return "".join(lines).encode()


def _other_bytes(dice: Dice, tree: dict[str, Any]) -> bytes:
    content = bytearray(written(dice, tree))
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(content) + 1)
        do = dice.randrange(4)
        if do == 0:
            content[at : at + 1] = dice.randbytes(dice.randint(1, 4))
        elif do == 1:
            del content[at : at + dice.randint(1, 40)]
        elif do == 2:
            content[at:at] = dice.choice(_LINES + _ODD_TEXTS).encode()
        else:
            content[at:at] = content[at : at + dice.randint(1, 12)] * dice.choice([2, 50, 3_000])
    return bytes(content)


def _one_long_line(dice: Dice, tree: dict[str, Any]) -> bytes:
    """Kilobytes of one thing said again and again, in place of a value or behind all that is right."""
    pump, times = dice.choice([*_ODD_TEXTS, "a", "a-", "[", "[1-2]", ",", "token", "secret ", "k: 1, "]), 30_000
    if dice.random() < 0.5:
        many = ", ".join(f"{dice.choice(['k', 'token', 'nod'])}{place}: {place}" for place in range(3_000))
        return written(dice, tree) + f"\nmore: {{{many}}}\n".encode()
    at = dice.choice([place for place in _places(tree) if place])
    return written(dice, _replaced(tree, at, pump * (times // len(pump)), as_key=dice.random() < 0.2))


_LINES = [
    "<<: x",
    "<<: *a",
    "? [a]",
    "? {a: b}",
    ": x",
    "~: y",
    "--- !x",
    "---",
    "...",
    "!x",
    "&a",
    "*a",
    "&a b: *a",
    "!!str x",
    "%YAML 1.2",
    "%TAG ! x",
    "a: b",
    "a: [",
    "a: {",
    "]",
    "}",
    "- x",
    "'",
    '"',
    "|",
    ">",
    "\t",
    "@",
    "`",
    "null: x",
    "'': x",
    "? ",
    "- - - - - - - - - - - - - - - - - - x",
    "key: ~nouser/x",
    "inventory: ~nouser/x",
    "inventory: /dev/zero",
    "nodes: w[01-32",
    "schema: 18446744073709551616",
    "a: !!binary x",
    "a: 2026-11-20",
    "{a: b, c}",
    "\u2028",
    "\x85",
]
_ODD_TEXTS = [
    "\x1b[31m",
    "\u202e",
    "\x00",
    "\x7f",
    "\ud7ff",
    "\u2028",
    "\N{GRINNING FACE}",
    "e\u0301",
    "a" * 300,
    "~nouser/x",
    "../..",
    "/",
    "/dev/zero",
    "x/" * 200,
    "password: hunter2",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    "{{ x }}",
    "%s%n",
    "$(id)",
    "my-gpu-nodes-room2-rack07-[01-32",
    "n[1-2][1-2]",
    "[1-2]18446744073709551615",
    "n[1-999][1-999]",
    "w[1-16384]",
    "1" * 60,
    _KEY,
    "ssh-ed25519 AAAA",
    "256 x 400G",
    "10.1.0.[1-254]",
    "0x10",
    "1e999",
    "-1",
    "9" * 18,
    "infinite",
    "none",
    "default",
]


def _hostlist(dice: Dice) -> str:
    """Something like a hostlist."""
    pieces = ["w", "a-", ".", ",", "[", "]", "[1-2]", "[01-04]", "-", "7", "[1,3-4]", "@", "99", "rack"]
    return "".join(dice.choice(pieces) for _ in range(dice.randint(1, 60)))


def _numbers(dice: Dice) -> str:
    first = dice.randint(0, 90)
    width = dice.choice([2, 3])
    return f"[{first:0{width}}-{first + dice.randint(0, 8):0{width}}]"


def _words(dice: Dice, count: int) -> list[str]:
    found = dict.fromkeys(
        f"{dice.choice('bcdgnrw')}{matching('[a-z]{1,6}(?:-[a-z]{1,4})?', dice)}" for _ in range(count)
    )
    return list(found)


class _Drawn:
    """Values that the JSON Schema allows."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def at(self, model: dict[str, Any], name: str) -> Any:
        return self.value(model["properties"][name])

    def value(self, part: dict[str, Any], depth: int = 0) -> Any:
        if "$ref" in part:
            return self.value(_schema()["$defs"][part["$ref"].rpartition("/")[2]], depth)
        if "anyOf" in part:
            return self.value(self.dice.choice([one for one in part["anyOf"] if one.get("type") != "null"]), depth)
        if "const" in part or "enum" in part:
            return part["const"] if "const" in part else self.dice.choice(part["enum"])
        kind = part.get("type")
        if kind == "object":
            return self._mapping(part, depth + 1)
        if kind == "array":
            count = 0 if depth > 4 else self.dice.randint(part.get("minItems", 0), part.get("minItems", 0) + 2)
            return [self.value(part.get("items", {"type": "string"}), depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            lowest = int(part.get("minimum", 0))
            return self.dice.randint(lowest, int(part.get("maximum", lowest + 1000)))
        if kind == "boolean":
            return self.dice.choice(["true", "false"])
        return (
            matching(part["pattern"], self.dice)
            if "pattern" in part
            else self.dice.choice(["x", "w[01-04]", "10.1.0.9"])
        )

    def _mapping(self, part: dict[str, Any], depth: int) -> dict[str, Any]:
        required = part.get("required", ())
        named = {
            name: self.value(field, depth)
            for name, field in part.get("properties", {}).items()
            if name in required or (depth < 4 and self.dice.random() < 0.4)
        }
        for pattern, field in part.get("patternProperties", {}).items():
            named[matching(pattern, self.dice)] = self.value(field, depth)
        return named


@cache
def _schema() -> dict[str, Any]:
    return json_schema(read_declared(bundled.root() / "roles"), load_smoke_tests(bundled.root() / "smoke_tests"))


@cache
def _workers() -> list[str]:
    """Servers of the catalog that nothing more need be said about."""
    servers = load_catalog().servers.items()
    return [name for name, one in servers if one.sockets and one.cores_per_socket and one.threads_per_core
            and (one.memory_gib or 0) > _MEMORY_GIB - 1 and one.sockets * one.cores_per_socket >= _CORES]  # fmt: skip


@cache
def _shipped() -> list[dict[str, Any]]:
    return [plain(read_file(path).root) for path in _RIGHT]


def _places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, child in items:
        yield from _places(child, (*at, step))


def _replaced(tree: Any, at: tuple[Any, ...], value: Any, *, as_key: bool = False) -> Any:
    """A copy with another value at a place; or, in a mapping, with another key."""
    if not at:
        return value
    if isinstance(tree, dict) and as_key and len(at) == 1:
        return {(str(value) if key == at[0] else key): child for key, child in tree.items()}
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[at[0]] = _replaced(tree[at[0]], at[1:], value, as_key=as_key)
    return copy
