"""What a node writes is data from outside."""

import json

import pytest

from hpcforge.engines.node_output import CUT, Tail, complaint, last_line, parse_event, split_lines


def test_lines_come_whole_however_they_are_cut() -> None:
    data = "one\ntwo é\r\n\nlast".encode()
    for size in range(1, len(data) + 1):
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert list(split_lines(chunks)) == ["one", "two é", "", "last"]


def test_a_line_comes_before_the_next_chunk_is_asked_for() -> None:
    def chunks():  # type: ignore[no-untyped-def]
        yield b"now\nla"
        raise AssertionError("asked for more before giving what is there")

    assert next(split_lines(chunks())) == "now"


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_an_endless_line_is_cut_and_the_next_one_is_not(size: int) -> None:
    data = b"x" * 1000 + b"\nafter\n" + b"y" * 1000
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert list(split_lines(chunks, limit=100)) == ["x" * 100 + CUT, "after", "y" * 100 + CUT]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert list(split_lines([b"\xff\xfe\x00ok\n"])) == ["\ufffd\ufffd\x00ok"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Warning: something",
        "{",
        "null",
        "[]",
        "7",
        '"text"',
        "{}",
        '{"event": null}',
        '{"event": ["changed"]}',
        '{"event": {"a": 1}}',
        '{"event": "unheard-of"}',
        '{"event": "result", "ok": true}',
        '{"event": "line", "line": "x"}',
        '{"event": "changed", "n": ' + "9" * 10_000 + "}",
        '{"event": "changed", "deep": ' + "[" * 200_000,
        '{"a":' * 100_000,
        '\ufeff{"event": "done"}',
    ],
)
def test_hostile_lines_are_not_events(line: str) -> None:
    assert parse_event(line) is None


def test_an_event_is_its_kind_and_the_rest() -> None:
    assert parse_event('{"event": "changed", "role": "munge", "n": 1}') == ("changed", {"role": "munge", "n": 1})


def test_half_a_surrogate_pair_can_be_printed() -> None:
    parsed = parse_event('{"event": "progress", "detail": ["\\ud800", {"\\udfff": "\\ud83d\\ude00"}]}')
    assert parsed == ("progress", {"detail": ["\ufffd", {"\ufffd": "\U0001f600"}]})
    json.dumps(parsed, ensure_ascii=False).encode()


def test_only_a_failure_without_a_role_is_the_tasks_own() -> None:
    assert complaint("failed", {"role": "munge", "name": "x", "error": "y"}) is None
    assert complaint("failed", {"role": None, "name": "lock", "error": "held"}) == "lock: held"
    assert complaint("no_root", {"user": "ops", "error": "no sudo"}) == "ops cannot become root: no sudo"
    assert complaint("no_root", {"user": "ops", "error": "there is no sudo on this node"}) == (
        "ops cannot become root: there is no sudo on this node; as root there: install sudo, and in "
        "/etc/sudoers.d/ops: ops ALL=(ALL) NOPASSWD: ALL"
    )
    assert complaint("done", {}) is None


def test_a_tail_keeps_the_end() -> None:
    tail = Tail(limit=20)
    for number in range(100):
        tail.add(f"line {number}")
    assert tail.text() == "line 98\nline 99\n"
    tail.add("z" * 1000)
    assert tail.text() == "z" * 20 + "\n"


def test_last_line_skips_blanks() -> None:
    assert last_line("first\n  reason \n\n \n") == "reason"
    assert last_line("\n") == ""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        # as sudo 1.9 prints them: sudoers(5), requiretty and secure_path
        ("sudo: sorry, you must have a tty to run sudo", "Defaults:ops !requiretty"),
        (
            "sudo: python3: command not found",
            "Defaults:ops secure_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:",
        ),
        ("sudo: a password is required", "ops ALL=(ALL) NOPASSWD: ALL"),
        ("ops is not in the sudoers file.", "ops ALL=(ALL) NOPASSWD: ALL"),
    ],
)
def test_what_keeps_sudo_from_root_is_named_with_the_line_for_sudoers(error: str, line: str) -> None:
    said = str(complaint("no_root", {"user": "ops", "error": error}))
    assert said.startswith(f"ops cannot become root: {error}; as root there: in /etc/sudoers.d/ops: {line}")
