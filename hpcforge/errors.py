"""Base classes of expected errors: the user at the terminal can fix them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from hpcforge.styles import joined, styled

Kind = Literal["error", "invalid", "busy"]  # invalid: files or usage; busy: another run is active


def error_text(message: str, hint: str = "") -> str:
    """Return an error for the terminal, with a line break at the end."""
    first, end, rest = message.partition("\n")
    advice = (styled("hint:", "hint"), f" {hint}\n") if hint else ()
    return joined((styled("error:", "bad"), styled(f" {first}", "title"), end, rest, "\n", *advice))


class ExpectedError(Exception):
    """An error with a message and a `hint`: the message says what is wrong and where, the hint what to do, or ""."""

    kind: ClassVar[Kind] = "error"  # the exit status of each is in hpcforge.cli.exit_codes
    hint: str = ""  # a class may have one for all its errors

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.hint

    def shown(self) -> str:
        """Return the text for the terminal, with a line break at the end."""
        return error_text(str(self), self.hint)


class UsageError(ExpectedError):
    """The command line or its input is not usable; `hint` says how to correct it."""

    kind = "invalid"


class ChangedFileError(ExpectedError):
    """Another run or program changed a file since this run read it, so that it is not written."""

    kind = "busy"
    hint = "look at the change, then run the command again"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} has changed since this command read it; nothing was written")
