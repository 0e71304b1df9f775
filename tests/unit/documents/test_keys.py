"""docs/keys.md names keys that a blueprint takes."""

from __future__ import annotations

import re

import pytest

from tests.unit.documents.test_documents import ROOT

PAGE = (ROOT / "docs" / "keys.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "blueprint.md").read_text("utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| (`[^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)


def keys(cell: str) -> list[str]:
    """Return the keys of a cell, in full: `.preempt` is beside the one before it."""
    full: list[str] = []
    for key in re.findall(r"`(\.?[a-z_]+(?:\.[A-Za-z_]+)*)`", cell):
        full.append(full[-1].rpartition(".")[0] + key if key.startswith(".") else key)
    return full


@pytest.mark.parametrize(("goal", "cell"), ROWS)
def test_the_key_is_one_of_the_blueprint(goal: str, cell: str) -> None:
    named = keys(cell)
    assert named, goal
    for key in named:
        assert f"| `{key.replace('NAME', '<name>')}` |" in REFERENCE, key


def test_the_table_answers_many_wishes() -> None:
    assert len(ROWS) > 35
