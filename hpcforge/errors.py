"""The base class of expected errors: errors that the user at the terminal can resolve."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

Kind = Literal["error", "invalid", "busy"]  # invalid: files or usage; busy: another run is active


class ExpectedError(Exception):
    """An expected error. Its text says what is wrong and where; `hint` is the remedy, or ""."""

    kind: ClassVar[Kind] = "error"  # hpcforge.cli.exit_codes has the exit status of each
    hint: str = ""  # the default hint of a class

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint or self.hint

    def shown(self) -> str:
        """Return the text for the terminal, with a line break at the end."""
        return f"error: {self}\n" + (f"hint: {self.hint}\n" if self.hint else "")


class UsageError(ExpectedError):
    """A request that cannot be done in this form; `hint` has a valid form."""

    kind = "invalid"


class ChangedFileError(ExpectedError):
    """Another run or program changed a file since this run read it, so that it is not written."""

    kind = "busy"
    hint = "look at the change, then run the command again"

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} has changed since this command read it; nothing was written")
