"""What needs nodes is in tests/stories, and nothing else is: `make test` tells them apart by their marks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ON_DEMAND

TESTS = Path(__file__).parents[2]
MARKS = {"lab", *(mark.replace("-", "_") for mark in ON_DEMAND)}


def marked(file: Path) -> Iterator[tuple[str, bool]]:
    """Each test of a file, and whether it has one of these marks, of its own or of the file's."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    of_file = {mark for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
               for mark in marks(node.value)}  # fmt: skip
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            own = {mark for decorator in node.decorator_list for mark in marks(decorator)}
            name = f"{file.relative_to(TESTS)}::{node.name}"
            yield name, bool(MARKS & (of_file | own))


def marks(expression: ast.expr) -> Iterator[str]:
    """X of each `pytest.mark.X` in it."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pytest.mark":
            yield node.attr


def of_folder(name: str) -> dict[str, bool]:
    return {test: has for file in sorted((TESTS / name).rglob("test_*.py")) for test, has in marked(file)}


def test_every_story_is_marked() -> None:
    found = of_folder("stories")
    assert len(found) > 300
    assert [test for test, has in found.items() if not has] == []


def test_nothing_else_is_marked() -> None:
    found = of_folder("unit") | of_folder("fuzz")
    assert len(found) > 1000
    assert [test for test, has in found.items() if has] == []
