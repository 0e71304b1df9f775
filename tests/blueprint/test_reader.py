from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import render
from hpcforge.blueprint.reader import MAX_BYTES, MAX_MACHINE_VALUES, MAX_VALUES, mark_of, plain, read_bytes, read_file


def said(content: bytes) -> str:
    return "\n".join(render(entry) for entry in read_bytes(content, "f").diagnostics)


def test_scalars_stay_the_text_that_was_written() -> None:
    text = b"a: 12.10\nb: no\nc: 0640\nd: 10:20:30:40:50:55\ne: 2026-11-20\nf: 1_000\ng: 'null'\nh: true\ni: 1e3\n"
    root = read_bytes(text, "f").root
    assert list(plain(root).values()) == (
        ["12.10", "no", "0640", "10:20:30:40:50:55", "2026-11-20", "1_000", "null", "true", "1e3"]
    )


def test_null_is_missing_however_it_is_spelled() -> None:
    assert plain(read_bytes(b"a:\nb: ~\nc: null\n", "f").root) == {"a": None, "b": None, "c": None}


def test_every_value_and_key_has_its_place() -> None:
    root = read_bytes(b"a: {b: [x, 'yy']}\n", "f").root
    place = mark_of(root, ("a", "b", 1))
    assert (place.line, place.column, place.width) == (1, 12, 4)
    assert mark_of(root, ("a", "b"), key=True).column == 5
    assert mark_of(root, ("a", "nothing")).column == 1  # where it should be: the key of the mapping around it


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff", "f:1:4: error: the file is not UTF-8: byte 0xff"),
        ("a: b".encode("utf-16"), "f:1:1: error: the file is not UTF-8: byte 0xff"),
        (b"a: b\x00c", "f: error: not valid YAML"),
        (b"a: \x1b[31m", "f: error: not valid YAML"),
        (b"x" * (MAX_BYTES + 1), "f: error: the file is larger than 16 MiB"),
        (b"", "f:1:1: error: the file is empty"),
        (b"[" * 100_000, "f:1:1: error: nested more than 16 levels deep"),
        (b"{" * 100_000, "nested more than 16 levels deep"),
    ],
)
def test_files_that_are_no_yaml(content: bytes, message: str) -> None:
    assert message.removeprefix("f:1:1: ") in said(content)
    assert "\x1b" not in said(content)


def test_a_byte_order_mark_is_not_part_of_the_first_key() -> None:
    assert plain(read_bytes(b"\xef\xbb\xbfa: b", "f").root) == {"a": "b"}


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\u2028"])
def test_lines_are_counted_as_the_parser_counts_them(line_break: str) -> None:
    document = read_bytes(line_break.join(["a: 1", "b: 2", "a: 3"]).encode(), "f")
    assert [(entry.line, entry.source.lines[2]) for entry in document.diagnostics] == [(3, "a: 3")]


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", Path("/dev/zero")):
        [entry] = read_file(path).diagnostics
        assert entry.message.startswith("the file ")


def test_aliases_cost_nothing() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    assert len(read_bytes("\n".join(lines).encode(), "f").diagnostics) == 60 + 59


def test_an_unquoted_hostlist_in_braces_is_told_to_be_quoted() -> None:
    text = said(b"partitions:\n  main: {nodes: w[01-04], default: true}\n")
    assert "f:2:18: error: not valid YAML" in text
    assert text.endswith('hint: within braces a hostlist needs quotes: `"w[01-04]"`')
    assert "quotes" not in said(b"a: {b: 'c' d}\n")


def test_an_inventory_may_have_more_values_than_a_blueprint() -> None:
    text = b"a: [" + b"1," * MAX_VALUES + b"1]"
    assert not read_bytes(text, "blueprint.yaml").complete
    assert read_bytes(text, "machines.yaml", MAX_MACHINE_VALUES).complete
