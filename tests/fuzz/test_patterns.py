"""Every regular expression of the project takes time that grows with the text and no faster, whatever the text says.

All are found in the source; for each part that repeats, strings are made that repeat it, with an end that does not fit.
"""

from __future__ import annotations

import ast
import gc
import math
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.catalog import slurm as slurm_catalog
from hpcforge.metal.bmc.makes import makes
from hpcforge.starter.readers import slurm, slurm_settings
from tests.fuzz.regular import characters, parser, repeats, shortest

ROOT = Path(__file__).parents[2]
METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
LENGTH = 8_000  # characters: nearly all take less than a millisecond, and need not be looked at twice
WORTH_A_LOOK_S, TOO_LONG_S = 0.003, 0.25
MOST_GROWTH = 9  # of the time for four times the text: 4 is linear, 16 quadratic

# What is put together where it is used: examples of it, by the expression in the source.
MADE_THERE = {
    "self.pattern": (),  # each `Matches(...)` is found by itself
    "pattern": (),  # of apt_transactions.py, of metal/bmc/makes.py, of slurm_settings.py: below; of values.py: as above
    "f'[{comments}]'": ("[#]", "[#;]"),
    "form": (),  # of catalog/slurm.py: below
    "keys": (),  # of readers/slurm.py: below
    "check['stdout']": (),  # of roles: below
    "lines": (),  # as those
    "kind.address.pattern": tuple(
        file_system.address.pattern for file_system in load_catalog().file_systems.values() if file_system.address
    ),
    "f'\\\\b{re.escape(name)} \\\\([^()]{{1,{_LONGEST_ADDRESS}}}\\\\)'": (r"\bw01 \([^()]{1,64}\)",),
    "f'(?:{fabrics})-(?:leaf|spine|core)-[0-9]+'": ("(?:compute|storage-1)-(?:leaf|spine|core)-[0-9]+",),
}
# Tables of expressions, which are used one by one.
TABLES = {
    "hpcforge/catalog/slurm.py: _FORMS": [form for form, _ in slurm_catalog._FORMS.values()],
    "hpcforge/metal/bmc/makes.yaml": [pattern for row in makes() for pattern in row.match.values()],
    "hpcforge/starter/readers/slurm/__init__.py: _NODE_REASONS": list(slurm._NODE_REASONS),
    "hpcforge/starter/readers/slurm_settings.py": [*slurm_settings._PLACES, *slurm_settings._PARTITION_PLACES],
}


def expressions() -> Iterator[tuple[str, str, str, int]]:
    """Where it stands, the expression, the method it is used with, and flags."""
    for path in sorted((ROOT / "hpcforge").rglob("*.py")):
        text = path.read_text()
        if re.search(r"\bre\.|Matches\(", text):
            yield from _of_module(path, list(ast.walk(ast.parse(text))))
    module = "hpcforge/node/package_manager/apt/transactions.py"
    kinds = import_module("hpcforge.node.package_manager.apt.transactions")._KINDS
    yield from ((f"{module}: {name}", pattern, "search", 0) for name, pattern in kinds)
    for place, patterns in TABLES.items():
        yield from ((place, pattern, "fullmatch", re.IGNORECASE) for pattern in patterns)
    for path in sorted((ROOT / "roles").glob("*/role.yaml")):
        for found in re.findall(r'stdout: +"(.*)"\}?,?', path.read_text()):
            text = re.sub(r"\{\{.*?\}\}", "name7", found.partition('", ')[0])
            yield str(path.relative_to(ROOT)), text, "search", re.MULTILINE
        for found in re.findall(r'lines: +"(.*)"\}', path.read_text()):
            yield str(path.relative_to(ROOT)), found, "fullmatch", 0


def _of_module(path: Path, nodes: list[ast.AST]) -> Iterator[tuple[str, str, str, int]]:
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    assigned = {id(node.value): node.targets[0].id for node in nodes
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
    used: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
            used.setdefault(node.value.id, set()).add(node.attr)
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        where = f"{path.relative_to(ROOT)}:{call.lineno}"
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == "Matches":
            yield from ((where, text, "fullmatch", 0) for text in _texts(call.args[0], module))
        elif name in ("compile", *METHODS) and _is_re(call.func) and call.args:
            flags = [
                one for one in ("MULTILINE", "IGNORECASE", "DOTALL", "VERBOSE") if f"re.{one}" in ast.unparse(call)
            ]
            bits = sum(int(getattr(re, flag)) for flag in flags)
            methods = used.get(assigned.get(id(call), ""), {"search"}) if name == "compile" else {name}
            for text in _texts(call.args[0], module):
                yield from ((where, text, method, bits) for method in sorted(methods))


def _is_re(function: ast.expr) -> bool:
    """Whether it is `re.` and a name."""
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"


def _texts(argument: ast.expr, module: Any) -> tuple[str, ...]:
    if (spelled := ast.unparse(argument)) in MADE_THERE:
        return MADE_THERE[spelled]
    return (eval(spelled, vars(module)),)


ALL = list(dict.fromkeys(expressions()))


def attacks(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """How a text begins, what it repeats (what a part of the pattern may repeat, or something like it), how it ends."""
    whole = sorted(characters(list(parser.parse(pattern, flags))))[:20]
    found: dict[tuple[str, str, str], None] = dict.fromkeys(product([""], whole, ("", "\n!")))
    for before, item in repeats(pattern, flags):
        some = sorted(characters(item))[:4]
        one = shortest(item)
        pumps = {one, before + one, *some, *("".join(pair) for pair in product(some, some)), f"{one},", f" {one}"}
        found |= dict.fromkeys(product(sorted({"", before}), sorted(pumps - {""}), ("", "\n!", "]")))
    yield from found


def seconds(compiled: re.Pattern[str], method: str, text: str) -> float:
    """CPU time of one use; infinite where it is cut off as far too much, whatever a busy machine counts till then."""

    def late(*_: object) -> None:
        raise TimeoutError

    former = signal.signal(signal.SIGVTALRM, late)
    gc.disable()  # a full collection, late in a long run of tests, takes as long as what is too long here
    start, ended = time.process_time(), False
    with suppress(TimeoutError):
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, TOO_LONG_S)
            subject = text.encode() if isinstance(compiled.pattern, bytes) else text
            found = getattr(compiled, method)(*(["", subject] if method in ("sub", "subn") else [subject]))
            if method == "finditer":
                list(found)
            ended = True
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            gc.enable()
    signal.signal(signal.SIGVTALRM, former)
    return time.process_time() - start if ended else math.inf


def slow(pattern: str, method: str, flags: int = 0) -> str | None:
    """A text, in short, for which the time grows faster than the text; None where none was found."""
    compiled = re.compile(pattern, flags)

    def took(start: str, pump: str, end: str, length: int) -> float:
        return seconds(compiled, method, start + pump * (length // len(pump)) + end)

    def suspect(attack: tuple[str, str, str]) -> str | None:
        short, long = (min(took(*attack, length) for _ in range(2)) for length in (LENGTH, 4 * LENGTH))
        if long > 0.9 * TOO_LONG_S or long > MOST_GROWTH * short > MOST_GROWTH * WORTH_A_LOOK_S / 2:
            return f"{attack}: {short:.3f} s, then {long:.3f} s"
        return None

    # A busy machine makes anything slow once, also by its CPU time: what is slow is so when it is looked at again.
    for attack in attacks(pattern, flags):
        if took(*attack, LENGTH) > WORTH_A_LOOK_S and suspect(attack) and (found := suspect(attack)):
            return found
    return None


def test_all_of_them_are_found() -> None:
    assert len(ALL) > 100
    assert {where.partition(":")[0].split("/")[0] for where, *_ in ALL} == {"hpcforge", "roles"}


@pytest.mark.parametrize(("where", "pattern", "method", "flags"), ALL, ids=[f"{one[0]}-{one[2]}" for one in ALL])
def test_time_grows_with_the_text_and_no_faster(where: str, pattern: str, method: str, flags: int) -> None:
    assert (found := slow(pattern, method, flags)) is None, f"{where}: {method} of {pattern!r} on {found}"


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(?:[a-z0-9.-]+|\[[0-9]{1,18}\])+", "fullmatch"),  # endless, of hostlists as they were
        (r",(?![^\[]*\])", "split"),
        (r"(.*?)([0-9]+)", "fullmatch"),
        (r"(?i)(token\w*\s*[:=]\s*)\S.*", "sub"),
        (r"\s+$", "search"),
    ],
)
def test_what_is_slow_is_found(pattern: str, method: str) -> None:
    assert slow(pattern, method)
