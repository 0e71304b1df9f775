"""Expected errors, as a terminal shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.errors import ChangedFileError, ExpectedError, UsageError


class HintedError(ExpectedError):
    """Of a class with a hint of its own."""

    hint = "read the log"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ExpectedError("no room"), "error: no room\n"),
        (UsageError("no room", "make some"), "error: no room\nhint: make some\n"),
        (HintedError("no room"), "error: no room\nhint: read the log\n"),
        (HintedError("no room", "make some"), "error: no room\nhint: make some\n"),
    ],
)
def test_an_error_is_shown_with_its_hint(error: ExpectedError, text: str) -> None:
    assert error.shown() == text


def test_kinds_decide_about_the_exit_status() -> None:
    assert [ExpectedError("x").kind, UsageError("x").kind, ChangedFileError(Path("/a")).kind] == [
        "error", "invalid", "busy",
    ]  # fmt: skip
    assert str(ChangedFileError(Path("/a"))).startswith("/a ")
