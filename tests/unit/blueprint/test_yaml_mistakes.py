"""What a hint proposes for broken YAML is YAML again: as it was before one character went."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import quote
from hpcforge.blueprint.reader import read_bytes

SITE = (Path(__file__).parents[1] / "cli" / "planted" / "site.yaml").read_text(encoding="utf-8")
LINES = SITE.splitlines()
QUOTED = [(number, match) for number, line in enumerate(LINES) for match in re.finditer(r'[a-z_]+: "[^"]*"', line)]
CLOSED = [number for number, line in enumerate(LINES) if line.endswith("}") and line.startswith("  ")]


def without(number: int, column: int) -> tuple[int | None, str, str]:
    """Return line, message and hint of the only error once a character is removed."""
    lines = [*LINES]
    lines[number] = lines[number][:column] + lines[number][column + 1 :]
    [error] = read_bytes("\n".join(lines).encode(), "f").diagnostics
    return error.line, error.message, error.hint or ""


@pytest.mark.parametrize(("number", "match"), QUOTED, ids=[match[0] for _, match in QUOTED])
def test_a_quote_left_open_is_named_in_its_line_with_the_text_that_closes_it(number: int, match: re.Match[str]) -> None:
    line, message, hint = without(number, match.end() - 1)
    assert (line, message) == (number + 1, 'the quote `"` is not closed')
    assert f"`{match[0]}" in hint


@pytest.mark.parametrize("number", CLOSED, ids=[LINES[number].split(":")[0].strip() for number in CLOSED])
def test_a_brace_left_open_has_a_hint_that_closes_it(number: int) -> None:
    line, _, hint = without(number, len(LINES[number]) - 1)
    assert line == number + 1
    assert hint == f"end line {number + 1} with `}}`: {quote(LINES[number].strip())}"
