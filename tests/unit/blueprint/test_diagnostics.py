from __future__ import annotations

import time

import pytest

from hpcforge.blueprint.diagnostics import (
    MAX_SHOWN,
    Diagnostic,
    Mark,
    SourceFile,
    closest,
    closest_or_all,
    did_you_mean,
    quote,
    render,
    render_all,
    to_json,
)
from hpcforge.blueprint.reader import read_bytes


def shown(line: str, column: int, width: int) -> list[str]:
    return render(Diagnostic("error", "m", SourceFile("f", (line,)), Mark(1, column, width))).splitlines()[1:]


def test_caret_under_wide_characters_and_tabs() -> None:
    assert shown("\t東 x", 4, 1) == ["    1 | \t東 x", "      | \t   ^"]
    assert shown("東京", 1, 2)[1] == "      | ^^^^"
    assert shown("e\u0301x", 3, 1)[1] == "      |  ^"


def test_a_long_line_is_shown_around_the_caret() -> None:
    excerpt, caret = shown("x" * 5000 + "HERE" + "y" * 5000, 5001, 4)
    assert len(excerpt) < 200
    assert excerpt[caret.index("^") : caret.rindex("^") + 1] == "HERE"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "".join(shown("a: \x1b[31m", 4, 3))
    assert quote("\x1b[31m\n") == "`\\x1b[31m\\n`"
    assert len(quote("x" * 10_000)) < 100


def test_secrets_are_not_shown() -> None:
    for line in ("password: hunter2", "db_passwd: hunter2", "api-token: 'hunter2'", "x: {secret: hunter2}",
                 "- -----BEGIN OPENSSH PRIVATE KEY----- hunter2", "k: AGE-SECRET-KEY-1hunter2"):  # fmt: skip
        assert "hunter2" not in "".join(shown(line, 1, 1))
    assert "hunter2" not in quote("-----BEGIN PRIVATE KEY-----hunter2")
    assert "aurora.age" in shown("secrets: aurora.age", 1, 1)[0]


def test_json_has_every_part() -> None:
    entry = Diagnostic("warning", "m", SourceFile("f", ("x",)), Mark(1, 1), "h")
    assert list(to_json(entry).values()) == ["warning", "m", "f", 1, 1, "h"]
    assert to_json(Diagnostic("error", "m", SourceFile("f")))["line"] is None


def test_did_you_mean() -> None:
    assert did_you_mean("haed", ["head", "login"]) == "did you mean `head`?"
    assert did_you_mean("xyz", ["head", "login"]) == "known: head, login"
    assert did_you_mean("xyz", map(str, range(100))) is None


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("acess", "access"),
        ("lgos", "logs"),
        ("KillWiat", "KillWait"),
        ("memory", "memory_gib"),
        ("dgx-h10", "dgx-h100"),
    ],
)
def test_what_is_close_is_suggested(word: str, known: str) -> None:
    assert closest(word, ["accounting", known, "partitions"]) == known


@pytest.mark.parametrize(
    ("word", "known"), [("monitoring", "accounting"), ("login", "logs"), ("gres", "gpus"), ("firewall", "file")]
)
def test_what_is_not_close_is_not_suggested(word: str, known: str) -> None:
    """More than a third of the letters differ, and neither is a part of the other."""
    assert closest(word, [known]) is None
    assert did_you_mean(word, [known]) == f"known: {known}"


def test_every_key_is_listed_where_none_is_close() -> None:
    known = [f"key-{number:03}" for number in range(20)]
    assert closest_or_all("monitoring", known) == f"known: {', '.join(known)}"
    many = closest_or_all("monitoring", [f"key-{number:03}" for number in range(500)])
    assert many is not None
    assert many.startswith("known: key-000, ")
    shown = many.count("key-")
    assert many.endswith(f"key-{shown - 1:03} and {500 - shown} more")


def test_suggestions_cost_little() -> None:
    known = ["abcdefgi" * 8 + str(number) for number in range(100)]
    start = time.process_time()
    for number in range(20):
        closest("abcdefgh" * 8 + str(number), known)
    assert time.process_time() - start < 2


def test_of_thousands_a_hundred_are_shown_and_the_rest_counted() -> None:
    """0.5 MB of `a: b` printed 12 MB."""
    document = read_bytes(b"a: b\n" * 5_000, "f")
    text = render_all(document.diagnostics)
    assert text.count("error: ") == MAX_SHOWN
    assert text.endswith("\n\nand 4,899 more errors\n")
    assert len(text) < 20_000


def test_a_long_line_is_not_read_anew_for_each_error() -> None:
    """31 KB of errors on one line took 21 s."""
    line = "{" + ", ".join(f"token{place}x: 1" for place in range(2_500)) + ", secret: hunter2, x: y}"
    source = SourceFile("f", (line,))
    start = time.process_time()
    text = render_all(Diagnostic("error", "m", source, Mark(1, column)) for column in range(1, len(line), 12))
    assert time.process_time() - start < 1
    assert "hunter2" not in text + "".join(shown(line, len(line) - 3, 1))


def test_what_a_message_says_is_printable_and_short() -> None:
    text = render(Diagnostic("error", "\x1b[31m" + "x" * 10_000, SourceFile("f\n"), hint="\u202e" + "y" * 10_000))
    assert len(text) < 5_000
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) == 2
