"""A check of input files is a row and its function: it runs in `validate`, and `explain` shows it."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.validate import Draft, Finding, InputCheck
from hpcforge.blueprint.visible_nodes import NamedNodes
from hpcforge.cli import run
from hpcforge.cli.exit_codes import Exit
from hpcforge.cluster import check_table

PACKAGE = Path(check_table.__file__).parents[1]
REHEARSAL = str(bundled.root() / "blueprints" / "rehearsal.yaml")
FINDINGS = ("Findings", "Iterator[Finding]", "Finding")


def no_test_domain(draft: Draft, declared: NamedNodes) -> Iterator[Finding]:
    if "head" in declared.group_of:
        yield Finding(("domain",), "a toy finding", "no hint", severity="warning")


def test_a_row_runs_in_validate_and_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HPCFORGE_BLUEPRINT", raising=False)
    row = InputCheck("toy-domains", "domains are no toys", "domain", no_test_domain)
    monkeypatch.setattr(check_table, "BLUEPRINT", (*check_table.BLUEPRINT, row))
    assert run(["validate", REHEARSAL, "--json"]) == Exit.DONE
    messages = [entry["message"] for entry in json.loads(capsys.readouterr().out)["diagnostics"]]
    assert messages.count("a toy finding") == 1
    assert run(["explain", "Toy-domains"]) == Exit.DONE
    text = "toy-domains (check of the blueprint): domains are no toys\n\nReads: domain\n"
    assert capsys.readouterr().out == text
    assert run(["explain"]) == Exit.DONE
    assert re.search("\n  toy-domains +domains are no toys\n", capsys.readouterr().out)
    assert run(["explain", "toy-domain"]) == Exit.INVALID
    assert "nearest: toy-domains" in capsys.readouterr().err


def test_a_code_is_of_one_check_and_of_no_rule_and_no_test(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--json"]) == Exit.DONE
    shown = json.loads(capsys.readouterr().out)
    codes = [entry["code"] for entry in shown["checks"]]
    assert codes == list(check_table.table())
    rows = [call for tuples in _tuples() for call in ast.walk(tuples) if _is_row(call)]
    assert len(rows) == len(codes)  # a second row with a code would hide the first
    assert all(re.fullmatch("[a-z]+(-[a-z]+)+", code) for code in codes)
    assert not set(codes) & {rule["code"].lower() for rule in shown["rules"]}
    assert all(entry["title"] and entry["reads"] for entry in shown["checks"])
    assert {entry["file"] for entry in shown["checks"]} == {"blueprint", "inventory"}


def test_each_check_is_in_the_table_once_or_called_by_one_that_is() -> None:
    rows = Counter(
        name for tuples in _tuples() for node in ast.walk(tuples) if (name := _attribute(node, _imports(TABLE)))
    )
    paths = (*PACKAGE.glob("blueprint/**/*.py"), *PACKAGE.glob("cluster/**/*.py"))
    functions = {name: node for path in paths for name, node in _functions(path)}
    called, waiting = set(rows), [*rows]
    while waiting:
        name = waiting.pop()
        if name in functions:
            new = _calls(name, functions[name]) - called
            called |= new
            waiting += new
    homes = re.compile(r"\.(checks|sections)\b")
    checks = {name for name in functions if homes.search(name[0]) and _yields(functions[name])}
    assert len(checks) > 45
    assert sorted(checks - called) == []
    assert [name for name, count in rows.items() if count > 1] == []


TABLE = Path(check_table.__file__)


def _tuples() -> list[ast.AnnAssign]:
    return [node for node in ast.parse(TABLE.read_text("utf-8")).body if isinstance(node, ast.AnnAssign)]


def _is_row(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "InputCheck"


def _module(path: Path) -> str:
    return ".".join(("hpcforge", *path.relative_to(PACKAGE).with_suffix("").parts))


def _imports(path: Path) -> dict[str, str]:
    """What the names of a module stand for."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _attribute(node: ast.AST, imports: dict[str, str]) -> tuple[str, str] | None:
    """Return module and name of `module.name`; None for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imports:
        return imports[node.value.id], node.attr
    return None


def _functions(path: Path) -> Iterator[tuple[tuple[str, str], ast.FunctionDef]]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield (_module(path), node.name), node


def _calls(name: tuple[str, str], function: ast.FunctionDef) -> set[tuple[str, str]]:
    """Return the functions that a function names."""
    imports = _imports(PACKAGE.joinpath(*name[0].split(".")[1:]).with_suffix(".py"))
    named = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    elsewhere = {tuple(imports[each].rsplit(".", 1)) for each in named if each in imports}
    return {(name[0], each) for each in named - set(imports)} | elsewhere  # type: ignore[operator]


def _yields(function: ast.FunctionDef) -> bool:
    public = not function.name.startswith("_")
    return public and function.returns is not None and ast.unparse(function.returns) in FINDINGS
