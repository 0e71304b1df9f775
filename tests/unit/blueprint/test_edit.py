from __future__ import annotations

import pytest

from hpcforge.blueprint.edit import Edit, EditError, RemoveEntry, RenameKey, SetValue, edited, quoted
from hpcforge.blueprint.reader import plain, read_bytes

TEXT = """\
# what a person wrote
nodes:                       # by hostlist
  head: {functions: [head]}  # one

  # the workers
  w[01-03]: {addresses: "10.0.0.[11-13]",   # in order
             gpus: 2}
overrides:
  w02: {memory_gib: 8, reason: 'a "quoted" one'}
services: {dns: {on: head}, time: {on: head}}
machines:
  head:
    address: 10.0.0.1        # by hand
    host_keys:
      - ssh-ed25519 AAAA
  w01:
    address: 10.0.0.2
empty:
"""

CASES: dict[str, tuple[Edit, str, str]] = {
    "a quoted value keeps its quotes": (
        SetValue(("nodes", "w[01-03]", "addresses"), "10.0.0.[11-14]"),
        '"10.0.0.[11-13]"',
        '"10.0.0.[11-14]"',
    ),
    "single quotes stay where they can": (
        SetValue(("overrides", "w02", "reason"), "none"),
        "'a \"quoted\" one'",
        "'none'",
    ),
    "a bare value in braces is quoted when it must be": (
        SetValue(("services", "dns", "on"), "w[01-03]"),
        "{dns: {on: head}",
        '{dns: {on: "w[01-03]"}',
    ),
    "a key is renamed": (RenameKey(("nodes", "w[01-03]"), "w[01-04]"), "w[01-03]:", "w[01-04]:"),
    "an entry on a line of its own goes with its comment": (
        RemoveEntry(("nodes", "head")),
        "  head: {functions: [head]}  # one\n",
        "",
    ),
    "the last entry takes its section with it": (
        RemoveEntry(("overrides", "w02")),
        "overrides:\n  w02: {memory_gib: 8, reason: 'a \"quoted\" one'}\n",
        "",
    ),
    "an entry over several lines goes whole": (
        RemoveEntry(("machines", "head")),
        "  head:\n    address: 10.0.0.1        # by hand\n    host_keys:\n      - ssh-ed25519 AAAA\n",
        "",
    ),
    "the first in braces goes with its comma": (RemoveEntry(("services", "dns")), "{dns: {on: head}, ", "{"),
    "the last in braces goes with its comma": (RemoveEntry(("services", "time")), ", time: {on: head}", ""),
    "a new entry comes last, indented as its neighbours": (
        SetValue(("machines", "w02"), {"address": "10.0.0.3", "host_keys": ["ssh-ed25519 AAAA="]}),
        "    address: 10.0.0.2\n",
        "    address: 10.0.0.2\n  w02: {address: 10.0.0.3, host_keys: [ssh-ed25519 AAAA=]}\n",
    ),
    "a new key inside an entry": (
        SetValue(("machines", "w01", "host_keys"), ["ssh-ed25519 BBBB"]),
        "    address: 10.0.0.2\n",
        "    address: 10.0.0.2\n    host_keys: [ssh-ed25519 BBBB]\n",
    ),
    "a new key in braces": (SetValue(("services", "depot"), {"on": "head"}), "}}\n", "}, depot: {on: head}}\n"),
    "a section without a value is filled": (
        SetValue(("empty", "w01"), {"u": 3}),
        "empty:\n",
        "empty:\n  w01: {u: 3}\n",
    ),
    "a section that was not there": (
        SetValue(("positions", "w01"), {"rack": "r1"}),
        "empty:\n",
        "empty:\n\npositions:\n  w01: {rack: r1}\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_what_was_asked_for_changes(name: str) -> None:
    edit, old, new = CASES[name]
    assert TEXT.count(old) == 1
    assert edited(TEXT, [edit]) == TEXT.replace(old, new)


def test_several_edits_follow_each_other() -> None:
    edits = [RenameKey(("nodes", "w[01-03]"), "w01"), SetValue(("nodes", "w01", "addresses"), "10.0.0.11")]
    assert '  w01: {addresses: "10.0.0.11",   # in order\n' in edited(TEXT, edits)


def test_line_endings_and_byte_order_mark_stay() -> None:
    text = "\ufeff" + TEXT.replace("\n", "\r\n")
    assert edited(text, [SetValue(("machines", "w02"), {"address": "10.0.0.3"})]) == "\ufeff" + edited(
        TEXT, [SetValue(("machines", "w02"), {"address": "10.0.0.3"})]
    ).replace("\n", "\r\n")


def test_a_file_that_does_not_end_in_a_line_break() -> None:
    assert edited("a:\n  b: 1", [SetValue(("a", "c"), 2)]) == "a:\n  b: 1\n  c: 2\n"


def test_wide_characters_do_not_shift_positions() -> None:
    text = "# 東京 \U0001f600\nname: 'é'  # 東\nnodes: {w01: 1}\n"
    assert edited(text, [SetValue(("nodes", "w01"), 2)]) == text.replace("1}", "2}")


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("nodes:\n  ? w01\n  : 1\n", RemoveEntry(("nodes", "w01"))),
        ("nodes: {a: 1,\n  b: [x,  # why\n  y]}\n", SetValue(("nodes", "b"), ["z"])),
        ("nodes: >-\n  one\nlast: 1\n", SetValue(("nodes",), "two")),
    ],
)
def test_a_place_that_cannot_be_edited_safely_is_refused_and_named(text: str, edit: Edit) -> None:
    with pytest.raises(EditError, match=r"edit this (place|part) safely|does not rewrite"):
        edited(text, [edit])


@pytest.mark.parametrize(
    "value", ["a: b", "#x", "x #y", "[a", "{a", "yes: ", "- a", '"', "\\", "null", "~", "", " a", "a "]
)
def test_any_text_is_read_back_as_it_was(value: str) -> None:
    for old in ("k: v\n", "k: 'v'\n", 'k: "v"\n', "{k: v}\n"):
        assert plain(read_bytes(edited(old, [SetValue(("k",), value)]).encode(), "t").root) == {"k": value}
    assert plain(read_bytes(f"k: {quoted(value)}\n".encode(), "t").root) == {"k": value}


@pytest.mark.parametrize(
    "text",
    [
        "4711", "0006", "1e5", "12e10", "1.10", "0x1F", "0o17", "1_000", "10:20:30", "2027-03-31", ".5", "true", "No",
        "off", "null", "12:34:56:12:34:56",
    ],
)  # fmt: skip
def test_text_that_other_tools_take_for_a_number_is_quoted(text: str) -> None:
    """YAML 1.1 and 1.2, Schema resolution: https://yaml.org/type/ and https://yaml.org/spec/1.2.2/#103-core-schema"""
    assert quoted(text) == f'"{text}"'
    assert quoted({"serial": text}) == f'{{serial: "{text}"}}'
    assert edited("w01: {}\n", [SetValue(("w01", "serial"), text)]) == f'w01: {{serial: "{text}"}}\n'


def test_what_is_a_number_or_a_truth_value_stays_bare() -> None:
    assert quoted({"on": "head", "u": 12, "default": True, "serial": "3c-ec", "release": "v12"}) == (
        "{on: head, u: 12, default: true, serial: 3c-ec, release: v12}"
    )
