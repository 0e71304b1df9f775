from __future__ import annotations

from hpcforge.blueprint.diagnostics import Diagnostic, Mark, Source, did_you_mean, quote, render, to_json


def shown(line: str, column: int, width: int) -> list[str]:
    return render(Diagnostic("error", "m", Source("f", (line,)), Mark(1, column, width))).splitlines()[1:]


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
    entry = Diagnostic("warning", "m", Source("f", ("x",)), Mark(1, 1), "h")
    assert list(to_json(entry).values()) == ["warning", "m", "f", 1, 1, "h"]
    assert to_json(Diagnostic("error", "m", Source("f")))["line"] is None


def test_did_you_mean() -> None:
    assert did_you_mean("haed", ["head", "login"]) == "did you mean `head`?"
    assert did_you_mean("xyz", ["head", "login"]) == "known: head, login"
    assert did_you_mean("xyz", map(str, range(100))) is None
