from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from hpcforge.blueprint.diagnostics import Mark, SourceFile, render
from hpcforge.blueprint.reader import (
    MAX_BYTES,
    MAX_MACHINE_VALUES,
    MAX_VALUES,
    mark_of,
    plain,
    read_bytes,
    read_file,
    values_in_comments,
)
from hpcforge.blueprint.yaml_mistakes import explain


def said(content: bytes) -> str:
    return "\n".join(render(entry) for entry in read_bytes(content, "f").diagnostics)


def test_scalars_stay_the_text_that_was_written() -> None:
    text = b"a: 12.10\nb: no\nc: 0640\nd: 10:20:30:40:50:55\ne: 2026-11-20\nf: 1_000\ng: 'null'\nh: true\ni: 1e3\n"
    root = read_bytes(text, "f").root
    assert list(plain(root).values()) == (
        ["12.10", "no", "0640", "10:20:30:40:50:55", "2026-11-20", "1_000", "null", "true", "1e3"]
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("slack_channel: #aurora\n", 'the rest of the line is a comment; as a value: `slack_channel: "#aurora"`'),
        ("a:\n  - b: #x  \n", 'the rest of the line is a comment; as a value: `b: "#x"`'),
        ("password: #hunter2\n", "the rest of the line is a comment; as a value: `password: (not shown)`"),
        ("password: # of the database\n", None),
        ("a: # aurora\n", None),  # a comment as people write them
        ("a: #1 of three\n", None),
        ("a: #group\n  b: 1\n", None),  # its value is below
        ("a: '' #aurora\n", None),
        ("a:\n", None),
    ],
)
def test_a_comment_in_the_place_of_a_value_is_named(text: str, hint: str | None) -> None:
    diagnostics = list(values_in_comments(read_bytes(text.encode(), "f")))
    assert [(entry.severity, entry.hint) for entry in diagnostics] == ([("warning", hint)] if hint else [])


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
        (b"a: b\x00c", "f:1:5: error: the character U+0000 is not allowed in a text file"),
        ("ä: b\nö: \x1b[31m".encode(), "f:2:4: error: the character U+001B is not allowed in a text file"),
        (b"x" * (MAX_BYTES + 1), "f: error: the file is larger than 16 MiB"),
        (b"", "f:1:1: error: the file is empty"),
        (b"[" * 100_000, "f:1:1: error: nested more than 16 levels deep"),
        (b"{" * 100_000, "nested more than 16 levels deep"),
    ],
)
def test_files_that_are_no_yaml(content: bytes, message: str) -> None:
    assert message.removeprefix("f:1:1: ") in said(content)
    assert "\x1b" not in said(content)


@pytest.mark.parametrize("opening", ["[", "{a: [", "{"])
@pytest.mark.parametrize("before", ["", "a: ", "- "])
def test_a_file_that_is_nested_too_deep_says_so_whatever_the_parsers_own_limit(opening: str, before: str) -> None:
    """libyaml 0.2.6 refuses 1,001 brackets before it tells of the first; 0.2.5 has no limit."""
    shallow, deep = (said((before + opening * count).encode()) for count in (100, 100_000))
    assert "error: nested more than 16 levels deep" in shallow
    assert [line for line in deep.splitlines() if "error" in line] == [
        line for line in shallow.splitlines() if "error" in line
    ]


def test_brackets_beyond_the_parsers_limit_move_no_other_error() -> None:
    text = b"a: b\n" + b"[" * 1200 + b"\n"
    assert "f:2:1026: error: not valid YAML: a key without a colon after it" in said(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%YAML 1.3\n---\na: b\n", "1:1: error: not valid YAML: a version of YAML other than 1.1 or 1.2"),
        ("%FOO\n", "1:5: error: not valid YAML: a line that begins with `%`"),
        ("a: !zz!b c\n", "1:4: error: not valid YAML: a wrong tag"),
        ("a: - b\n", "1:4: error: not valid YAML: a list item cannot start here"),
        ("a: 'b\n---\n", "2:1: error: not valid YAML: a line `---` or `...` within quotes"),
        ("a:\né", "3:1: error: not valid YAML: a key without a colon after it"),
        ("... x\n", "1:1: error: not valid YAML: a value is missing"),
        (": \n", "1:1: error: not valid YAML: a key is missing"),
        ('a: "b"?\n', "1:7: error: not valid YAML\n"),  # a question mark where a key cannot begin
    ],
)
def test_what_is_no_common_mistake_is_named_in_our_words(text: str, message: str) -> None:
    assert f"f:{message}" in said(text.encode()) + "\n"


def test_words_of_a_parser_to_come_are_not_passed_on() -> None:
    """Each version words its errors as it likes: what is printed must not depend on it."""
    mark = yaml.Mark("f", 0, 0, 0, None, None)
    error = yaml.MarkedYAMLError("while reading", mark, "something new", mark)
    assert explain(error, SourceFile.of("f", "a"), "a") == ("not valid YAML", Mark(1, 1), None)
    assert explain(yaml.YAMLError("something new"), SourceFile.of("f", "a"), "a") == ("not valid YAML", None, None)


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


@pytest.mark.parametrize(
    ("text", "place", "quoted"),
    [
        ("partitions:\n  main: {nodes: w[01-04], default: true}", "2:17", 'nodes: "w[01-04]"'),
        ("a: {default: true, nodes: w[01,03]}", "1:27", 'nodes: "w[01,03]"'),
        ("a: {nodes: w[01-04],x[01-02], b: c}", "1:12", 'nodes: "w[01-04],x[01-02]"'),
        ("w[01-02]: {functions: [worker],\n    addresses: 10.1.0.[11-14]}", "2:16", 'addresses: "10.1.0.[11-14]"'),
        ("nodes: {w[01-04]: {functions: [worker]}}", "1:9", '"w[01-04]"'),
        ("row: [g[01-04], i01]", "1:7", '"g[01-04]"'),
        ("nodes:\n  nodes: [01-04]x\n", "2:17", 'nodes: "[01-04]x"'),
        ("a:\n  reason: RMA 4711: eight out\n", "2:11", 'reason: "RMA 4711: eight out"'),
        ("a: {reason: RMA 4711: eight out, b: c}", "1:13", 'reason: "RMA 4711: eight out"'),
        ("a: {reason: RMA #4711}\nb: c", "1:4", 'reason: "RMA #4711"'),
        ("a: *.example.org", "1:4", 'a: "*.example.org"'),
        ("a: [b, @c]", "1:8", '"@c"'),
        ("a: |x", "1:4", 'a: "|x"'),
        ("a: 'it's'", "1:8", 'a: "it\'s"'),
        ('a: "b" c', "1:8", 'a: "b c"'),
    ],
)
def test_what_needs_quotes_is_shown_with_them(text: str, place: str, quoted: str) -> None:
    lines = said(text.encode()).splitlines()
    assert lines[0].startswith(f"f:{place}: error: ")
    assert lines[-1].endswith(f"quote it: `{quoted}`")


def test_one_hostlist_without_quotes_names_the_others() -> None:
    lines = ["a: {b: w[1-2]}", "c[1-2]: {d: e, f: 10.1.0.[1-2]}", "g[1-2]: {h: 'i[1]'}", "k: {l: m[1]}  # n"]
    assert said("\n".join(lines).encode()).endswith('quote it: `b: "w[1-2]"`; so in lines 2, 4')


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("name: a\naccess\n  user: ops\n", "2:1", "write `access:`"),
        ("name: a\ndomain b\nnodes: c\n", "2:1", "write `domain: b`"),
        ("name: a\ndomain = b\nnodes: c\n", "2:1", "write `domain: b`"),
        ("slurm:\n  controller head\n  reserve: {cores: 1}\n", "2:3", "write `controller: head`"),
        ("name:a\ndomain: b\n", "1:5", "write `name: a`"),
        ("slurm:\n  a: b\n\n  # c\n  controller:head\nusers: d\n", "5:13", "write `controller: head`"),
        ("slurm:\n  - a\n  -b\n", "3:3", "write `- b`"),
        ("name: a\ndomain:\u00a0b\nc: d\n", "2:8", "write a space for U+00A0 NO-BREAK SPACE"),
        ("a: b\n<<<<<<< HEAD\nc: d\n", "2:1", "keep one of the two versions"),
        ("// mine\nname: a\n", "1:1", "a comment begins with `#`"),
        ("slurm:\n  a: b\n    c: d\n", "3:5", "begin it in column 3, if it belongs beside it"),
        (
            "slurm:\n    a: b\n  c: d\n",
            "3:3",
            "begin it in column 5, as `a` in line 2, or in column 1, as `slurm` in line 1",
        ),
        (" name: a\ndomain: b\n", "1:2", "begin it in column 1"),
        ("a:\n  - b\n - c\n", "3:2", "begin it in column 3, as the item in line 2"),
        ("a:\n  b: c\n  - d\n", "3:3", "the lines above have keys: remove the `-`"),
        (
            "a:\n  - b\n  c: d\n",
            "3:3",
            "begin it in column 5, to belong to the item in line 2, or in column 1, beside what begins in line 1",
        ),
        ("a:\n  b: c\n\td: e\n", "3:1", "write spaces in its place"),
        ('a: "b\nc: d\n', "1:4", 'write `"` where the text ends'),
        ("a: 'b\nc: 'd'\n", "1:4", "write `'` where the text ends"),
        ("a:\n  b: {c: d\n  e: {f: g}\n", "2:6", "end line 2 with `}`: `b: {c: d}`"),
        ("a:\n  b: {c: d,\n      e: f\n      g: h}\n", "3:10", "end line 3 with a comma: `e: f,`"),
        ("nodes: [\n  a: {b: c}\n  d: {e: f}\n", "1:8", "write `]` where it ends, or remove it"),
        ("a: b\nc: [d, e\n", "2:4", "end line 2 with `]`: `c: [d, e]`"),
        ("a: {b: c}}\n", "1:10", "remove it, or write its opening bracket"),
        ("a: {b: [c}\n", "1:10", "write `]` before it"),
        ("a: {b: c,, d: e}\n", "1:10", "remove it"),
        ("a: {b: {c: d} e: f}\n", "1:15", "write a comma before this entry"),
        ("a: {b: 4 c: 8}\n", "1:8", 'write `b: 4, c: ...`, or `b: "4 c: 8"`'),
        ("a: [- b]\n", "1:5", "write [one, two]"),
        ('a: "C:\\d"\n', "1:7", r"write `\\` for it, or use single quotes"),
        ("a: b\n...\nc: d\n", "2:1", "remove it"),
        ("name = a\ndomain = b\n", "1:1", "write `key: value`, with a space after the colon, a line each"),
        ("a: {{ b }}\n", "1:5", "templates are not accepted here: write the value itself"),
    ],
)
def test_a_mistake_is_shown_where_it_was_made(text: str, place: str, hint: str) -> None:
    lines = said(text.encode()).splitlines()
    assert lines[0].startswith(f"f:{place}: error: ")
    assert lines[-1].startswith(f"hint: {hint}")


@pytest.mark.parametrize("piece", ["[a", "a,", "a[01],", '": ', "- ", "a: {", "a:b ", "#", " ", "'", "é"])
@pytest.mark.parametrize("end", ["", ": b: c", "\nd: e: f", "]\n  - x", '"'])
def test_what_is_said_of_a_long_line_takes_no_longer_than_its_length(piece: str, end: str) -> None:
    start = time.process_time()
    said(f"a:\n  {piece * (200_000 // len(piece))}{end}".encode())
    said(("a: {b: [c\n" + f" {piece}\n" * 50_000 + end).encode())
    assert time.process_time() - start < 2


def test_an_inventory_may_have_more_values_than_a_blueprint() -> None:
    text = b"a: [" + b"1," * MAX_VALUES + b"1]"
    assert not read_bytes(text, "blueprint.yaml").complete
    assert read_bytes(text, "machines.yaml", MAX_MACHINE_VALUES).complete
