"""Mistakes of lines: where each is, and that the edit in its hint makes the file what was meant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import yaml

from hpcforge.blueprint.diagnostics import Mark
from hpcforge.blueprint.yaml_errors import Refusal, Told
from hpcforge.blueprint.yaml_mistakes import lines

Look = Callable[[Refusal], Told | None]


def refused(text: str) -> Refusal:
    """The parser's error, as it is."""
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        list(yaml.parse(text, Loader=yaml.CSafeLoader))
    error = caught.value
    place, begun = error.problem_mark or error.context_mark, error.context_mark
    assert place is not None
    message = ", ".join(part for part in (error.context, error.problem) if part)
    start = (begun.line, begun.column) if begun and error.context else None
    return Refusal(tuple(text.split("\n")), message, place.line, place.column, start)


@pytest.mark.parametrize(
    ("look", "text", "place", "data"),
    [
        (lines.second_colon, "a: b: c\n", (1, 4), {"a": "b: c"}),
        (lines.second_colon, "a: 1\n  b: 2\n", (2, 3), {"a": 1, "b": 2}),
        (lines.second_colon, "a b\nc: 1\n", (1, 1), {"a": "b", "c": 1}),
        (lines.second_colon, "a:b\nc: 1\n", (1, 2), {"a": "b", "c": 1}),
        (lines.begun_without_colon, "a: 1\nb = 2\n", (2, 1), {"a": 1, "b": 2}),
        (lines.begun_without_colon, "a: 1\nb\n", (2, 1), {"a": 1, "b": None}),
        (lines.begun_without_colon, "a:\n  - x\n-y\n", (3, 1), None),
        (lines.no_key, "a:\n  b: 1\n c: 2\n", (3, 2), None),
        (lines.no_key, "  a: 1\nb: 2\n", (1, 3), {"a": 1, "b": 2}),
        (lines.no_key, 'a: "b" c\n', (1, 8), None),
        (lines.no_key, "a: [1]]\n", (1, 7), {"a": [1]}),
        (lines.no_key, "a: [1] c\n", (1, 8), None),
        (lines.no_key, "a:\n  b: 1\n  - c\n", (3, 3), None),
        (lines.no_key, "a:\n  - b: 1\n   - c: 2\n", (3, 4), {"a": [{"b": 1}, {"c": 2}]}),
        (lines.no_key, 'a: "x\nb: "y"\n', (1, 4), None),
        (lines.outside, "a: 1\n...\nb: 2\n", (2, 1), None),
        (lines.end_of_file, "a: {b: 'c, d: e}\nf: 1\n", (1, 8), None),
        (lines.end_of_file, 'a: "b\nc: 1\n', (1, 4), None),
        (lines.first_character, "a: @b\n", (1, 4), {"a": "@b"}),
        (lines.first_character, "a: `b`\n", (1, 4), {"a": "`b`"}),
        (lines.first_character, "a:\n\tb: 1\n", (2, 1), None),
        (lines.escape, 'a: "\\d"\n', (1, 5), None),
        (lines.key_among_items, "a:\n  - x\n  b: 1\n", (3, 3), None),
    ],
)
def test_a_mistake_is_named_at_its_place_with_an_edit_that_fixes_it(
    look: Look, text: str, place: tuple[int, int], data: object
) -> None:
    refusal = refused(text)
    mistake = look(refusal)
    assert mistake is not None
    mark = mistake[1]
    assert isinstance(mark, Mark)
    assert (mark.line, mark.column) == place
    if data is not None:
        edit = mistake[3]  # type: ignore[misc]
        assert yaml.safe_load("\n".join(edit.get(number, line) for number, line in enumerate(refusal.lines))) == data


def test_a_conflict_of_versions_is_named_as_such() -> None:
    mistake = lines.begun_without_colon(refused("a: 1\n<<<<<<< ours\nb: 2\n"))
    assert mistake is not None and mistake[1] is not None
    assert (mistake[1].line, mistake[1].width) == (2, 7)


@pytest.mark.parametrize("look", [lines.second_colon, lines.begun_without_colon, lines.outside, lines.open_quote])
def test_without_such_a_mistake_nothing_is_claimed(look: Look) -> None:
    assert look(Refusal(("a: 1", "b: 2"), "x", 1, 0, None)) is None


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a:\n  b: 1\n c: 2\n", [3, 1]),
        ("- a: 1\n b: 2\n", [3]),
        ("a: 1\nb:\n  c: 2\n  d: 3\n e: 4\n", [3, 1]),
        ("a:\n  - b: 1\n    c: 2\n   d: 3\n", [5, 1]),
    ],
)
def test_a_key_between_two_columns_may_belong_to_either(text: str, columns: list[int]) -> None:
    mistake = lines.no_key(refused(text))
    assert mistake is not None
    assert [int(column) for column in re.findall(r"column (\d+)", mistake[2] or "")] == columns


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ('a: "b\nc: 1\n', 'a: "b"'),
        ("a: {b: 'c, d: e}\nf: 1\n", "b: 'c', d: e}"),
        ("a: {b: 'c}\nf: 1\n", "b: 'c'}"),
        ('a: "b  # why\nc: 1\n', 'a: "b"  # why'),
    ],
)
def test_a_quote_is_closed_where_the_text_most_likely_ends(text: str, closed: str) -> None:
    mistake = lines.end_of_file(refused(text))
    assert mistake is not None
    assert f"`{closed}`" in (mistake[2] or "")
