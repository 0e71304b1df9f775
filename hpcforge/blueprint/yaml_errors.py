"""What a YAML parser refused, and the lines around it as people read them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hpcforge.blueprint.diagnostics import Mark, quote

Told = tuple[str, Mark | None, str | None]  # message, place, hint

CLOSES = {"{": "}", "[": "]"}
_LONGEST = 10_000  # characters of a line that are looked at


@dataclass(frozen=True)
class Refusal:
    """What the parser said; lines and columns from 0."""

    lines: tuple[str, ...]
    message: str
    line: int
    column: int
    begun: tuple[int, int] | None  # where it began what it was reading

    def text(self, line: int) -> str:
        """A line as far as it is looked at, "" where there is none."""
        return self.lines[line][:_LONGEST] if 0 <= line < len(self.lines) else ""

    @property
    def here(self) -> str:
        """The line of the problem."""
        return self.text(self.line)

    @property
    def character(self) -> str:
        """What stands there, "" at the end of a line."""
        return self.here[self.column : self.column + 1]

    def above(self, line: int) -> int | None:
        """The nearest line above one that has more than a comment."""
        return next((number for number in range(line - 1, -1, -1) if content(self.text(number))), None)


def content(line: str) -> str:
    """What a line has besides indentation and comment."""
    text = line.strip(" \t")
    return "" if text.startswith("#") else text.partition(" #")[0].rstrip()


def indent(line: str) -> int:
    """How many spaces a line begins with."""
    return len(line) - len(line.lstrip(" "))


def is_item_line(line: str) -> bool:
    """Tell whether a line begins an item of a list."""
    return line.lstrip(" ").startswith("- ")


def key_column(line: str) -> int:
    """Where the key of a line begins, from 0; of a list item after its hyphen."""
    text = line.lstrip(" ")
    return indent(line) + (len(text) - len(text[2:].lstrip(" ")) if is_item_line(line) else 0)


def first_word(line: str) -> str:
    """The key of a line, or what stands in its place."""
    return line[key_column(line) :].partition(":")[0].partition(" ")[0]


def key_before(line: str, column: int) -> str:
    """The key whose value begins at a column, "" if there is none."""
    before = line[:column].rstrip()
    if not before.endswith(":"):
        return ""
    return before[1 + max(before.rfind(mark) for mark in " ,{[") : -1]


def value_at(line: str, column: int) -> str:
    """The text that begins at a column: to the end of the line, within braces to the next comma or closing bracket."""
    text = content(line[column:])
    if any(mark in line[:column] for mark in CLOSES):
        ends = [place for mark in ",}]" if (place := text.find(mark)) >= 0]
        text = text[: min(ends, default=len(text))].rstrip()
    return text


def quoted(text: str) -> str:
    """A text as it stands between quotes in YAML."""
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'


def quote_it(key: str, text: str) -> str:
    """The hint for a value that needs quotes."""
    return f"quote it: {quote(f'{key}: {quoted(text)}' if key else quoted(text))}"
