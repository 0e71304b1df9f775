"""What every error that is expected has in common: whoever sits at the terminal can do something about it."""

from __future__ import annotations

from typing import ClassVar, Literal


class ExpectedError(Exception):
    """Its text says what is wrong and where; `hint` what to do, "" where there is nothing to add."""

    kind: ClassVar[Literal["error", "invalid", "busy"]] = (
        "error"  # invalid: files or usage; busy: another run is at work
    )
    hint: str = ""

    def shown(self) -> str:
        """What is read at the terminal, with a line break at the end."""
        return f"error: {self}\n" + (f"hint: {self.hint}\n" if self.hint else "")
