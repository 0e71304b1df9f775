"""Lines around an error of YAML: their parts, and edits of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.blueprint import yaml_errors as lines
from hpcforge.blueprint.yaml_errors import Refusal


@pytest.mark.parametrize(
    ("line", "content", "indent", "column", "word"),
    [
        ("key: value  # why", "key: value", 0, 0, "key"),
        ("  - name: a", "- name: a", 2, 4, "name"),
        ("  -   name: a", "-   name: a", 2, 6, "name"),
        ("    # comment", "", 4, 4, "#"),
        ("word and more", "word and more", 0, 0, "word"),
        ("a: b#c", "a: b#c", 0, 0, "a"),
    ],
)
def test_parts_of_a_line(line: str, content: str, indent: int, column: int, word: str) -> None:
    assert (lines.content(line), lines.indent(line)) == (content, indent)
    assert (lines.key_column(line), lines.first_word(line)) == (column, word)
    assert lines.is_item_line(line) == (column > indent)


@pytest.mark.parametrize(
    ("line", "column", "key", "value"),
    [
        ("name: a: b  # why", 6, "name", "a: b"),
        ("{name: a b, other: c}", 7, "name", "a b"),
        ("{name: [a, b]}", 8, "", "a"),
        ("- item", 2, "", "item"),
    ],
)
def test_the_key_and_the_value_at_a_column(line: str, column: int, key: str, value: str) -> None:
    assert (lines.key_before(line, column), lines.value_at(line, column)) == (key, value)


@pytest.mark.parametrize(
    ("text", "quoted"), [("a: b", '"a: b"'), ('a "b"', "'a \"b\"'"), ("it's a \\", "'it''s a \\'")]
)
def test_a_text_in_quotes_of_yaml(text: str, quoted: str) -> None:
    assert lines.quoted(text) == quoted


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ('a: "b', 3),
        ('a: "b"', None),
        ("a: it's", None),
        ('a#: "b', 4),
        ('a: b # "', None),
        ("a: ['b', 'c", 9),
        ("a: \"b'c", 3),
    ],
)
def test_a_quote_that_its_line_leaves_open(line: str, column: int | None) -> None:
    assert lines.open_quote_of(line) == column


REFUSAL = Refusal(("a:", "  b: 1", "", "    c: 2", "d: 3", "  # x"), "x", 3, 4, None)


def test_edits_insert_replace_and_move() -> None:
    assert REFUSAL.inserted(1, 5, "9", 1) == {1: "  b: 9"}
    assert REFUSAL.inserted(0, 2, " x") == {0: "a: x"}
    assert REFUSAL.moved(3, 2) == {3: "  c: 2"}
    assert REFUSAL.moved(0, 2) == {0: "  a:", 1: "    b: 1", 3: "      c: 2"}  # with what is within it
    assert REFUSAL.moved(0, 2, alone=True) == {0: "  a:"}


def test_an_edit_helps_when_the_parser_reads_on() -> None:
    refusal = replace(REFUSAL, column=5)  # where the parser stops
    assert not refusal.parses({})
    assert refusal.parses({3: "  c: 2"})
    assert not refusal.parses({4: "d: 4"})  # another line


def test_lines_beyond_the_file_are_empty() -> None:
    assert [REFUSAL.text(line) for line in (-1, 6)] == ["", ""]
    assert (REFUSAL.current, REFUSAL.character) == ("    c: 2", "c")
    assert [REFUSAL.above(line) for line in (3, 1, 0)] == [1, 0, None]
