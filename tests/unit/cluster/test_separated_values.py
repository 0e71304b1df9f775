"""Records of comma-separated values: their cells, places and ends."""

from __future__ import annotations

import pytest

from hpcforge.cluster.separated_values import CellError, decode, record, records, separator_of


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("a,b,c", ["a", "b", "c"]),
        ('"a","b ""c""",', ["a", 'b "c"', ""]),
        (' "a" , b', ["a", "b"]),
        ('\'0123,="0456"', ["0123", "0456"]),
        ("\u200b\u00a0a\u00a0", ["a"]),
    ],
)
def test_the_cells_of_a_line(line: str, texts: list[str]) -> None:
    cells, end = record([line], 1, ",")
    assert [cell.text for cell in cells] == texts
    assert end == 1


def test_a_cell_over_several_lines_keeps_its_place_and_the_lines_behind_it() -> None:
    lines = ['a,"b', "# c", 'd",e', "", "# comment", "f,,"]
    found = list(records(lines, 1, ","))
    assert [(each.line, [cell.text for cell in each.cells]) for each in found] == [
        (1, ["a", "b\n# c\nd", "e"]),
        (6, ["f", "", ""]),
    ]
    assert [(cell.mark.line, cell.mark.column) for cell in found[0].cells] == [(1, 1), (1, 3), (3, 4)]
    assert next(records([",,"], 1, ",")).empty


def test_a_quote_without_an_end_takes_no_record_with_it() -> None:
    lines = ['a,"b', 'c,"d"']
    found = list(records(lines, 1, ",", lambda line: line.startswith("c")))
    assert [each.error is not None for each in found] == [True, False]
    [*_, last] = records(['a,"b', *["x"] * 60], 1, ",")
    assert last.line == 61


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_spreadsheets_save_is_text(encoding: str) -> None:
    assert decode("M\u00fcnchen;1\n".encode(encoding)) == "M\u00fcnchen;1\n"


@pytest.mark.parametrize(
    ("content", "said"), [("M\u00fcnchen".encode("cp1252"), "not UTF-8"), ("a\n".encode("utf-16-le"), "not text")]
)
def test_another_encoding_is_refused_with_the_way_out(content: bytes, said: str) -> None:
    with pytest.raises(CellError, match=said) as caught:
        decode(content)
    assert "CSV UTF-8" in caught.value.hint


def test_the_separator_is_the_most_frequent_one() -> None:
    assert [separator_of(line) for line in ("a;b;c,d", "a\tb", "a|b", "a")] == [";", "\t", "|", ","]
