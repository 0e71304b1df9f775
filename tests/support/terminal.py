"""A terminal's screen, as far as hpcforge writes to one: what a person would see of a stream of bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PIECE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(\x1b|[^\x1b])", re.DOTALL)
_HARMLESS = ("m", "h", "l")  # colour, and whether the cursor is shown


@dataclass
class Terminal:
    """`lines`: all that was ever shown, the screen being the last `height`. Anything it does not know is an error."""

    width: int
    height: int
    lines: list[str] = field(default_factory=lambda: [""])
    row: int = 0
    column: int = 0

    def feed(self, text: str) -> None:
        """Show a text."""
        for numbers, code, character in _PIECE.findall(text):
            if code:
                self._control(numbers, code)
            else:
                self._show(character)

    def screen(self) -> list[str]:
        """What is on the screen, without trailing blanks."""
        return [line.rstrip() for line in self.lines[-self.height :]]

    def _control(self, numbers: str, code: str) -> None:
        if code == "A":
            self.row = max(len(self.lines) - self.height, 0, self.row - int(numbers or 1))
        elif code == "K":
            self.lines[self.row] = ""
        else:
            assert code in _HARMLESS, f"unknown: ESC [ {numbers} {code}"

    def _show(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        else:
            assert character.isprintable(), f"a raw {character!r} reached the terminal"
            if self.column == self.width:
                self.column = 0
                self._down()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")
