"""A YAML parser's refusal, and the lines around it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from hpcforge.blueprint.diagnostics import Mark, quote

Edit = Mapping[int, str]  # lines by number, as a hint proposes them
Told = (  # message, place, hint, and the lines that the hint proposes
    tuple[str, Mark | None, str | None] | tuple[str, Mark | None, str | None, Edit]
)

CLOSES = {"{": "}", "[": "]"}
_LONGEST = 10_000  # characters of a line that are read


@dataclass(frozen=True)
class Refusal:
    """An error of the parser; lines and columns from 0."""

    lines: tuple[str, ...]
    message: str
    line: int
    column: int
    begun: tuple[int, int] | None  # line and column where the parser began the broken part

    def text(self, line: int) -> str:
        """Return a line, cut to the length that checks read, or ""."""
        return self.lines[line][:_LONGEST] if 0 <= line < len(self.lines) else ""

    @property
    def current(self) -> str:
        """The line of the problem."""
        return self.text(self.line)

    @property
    def character(self) -> str:
        """Return the character at the place, "" at the end of a line."""
        return self.current[self.column : self.column + 1]

    def parses(self, edit: Edit) -> bool:
        """Return whether the parser reads on beyond this place once lines are changed."""
        text = "\n".join(edit.get(number, line) for number, line in enumerate(self.lines))
        shift = max(0, len(edit.get(self.line, "")) - len(self.lines[self.line])) if self.line in edit else 0
        try:
            for _ in yaml.parse(text, Loader=yaml.CSafeLoader):
                pass
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            return mark is not None and (mark.line, mark.column) > (self.line, self.column + shift)
        except yaml.YAMLError:
            return False
        return True

    def inserted(self, line: int, column: int, text: str, instead: int = 0) -> Edit:
        """Return the edit that writes text at a place, instead of so many characters."""
        before = self.lines[line]
        return {line: before[:column] + text + before[column + instead :]}

    def moved(self, line: int, column: int, *, alone: bool = False) -> Edit:
        """Return the edit that begins a line in a column; unless `alone`, with the lines that are within it."""
        start, end = indent(self.lines[line]), line + 1
        while end < len(self.lines) and not alone and _is_within(self.lines[end], start):
            end += 1
        texts = {number: self.lines[number] for number in range(line, end)}
        by = column - start
        return {number: " " * by + text if by > 0 else text[-by:] for number, text in texts.items() if text.strip()}

    def above(self, line: int) -> int | None:
        """Return the nearest line above one that has more than a comment."""
        return next((number for number in range(line - 1, -1, -1) if content(self.text(number))), None)


def content(line: str) -> str:
    """Return a line without indentation and comment."""
    text = line.strip(" \t")
    return "" if text.startswith("#") else text.partition(" #")[0].rstrip()


def indent(line: str) -> int:
    """Return the number of spaces at the beginning of a line."""
    return len(line) - len(line.lstrip(" "))


def is_item_line(line: str) -> bool:
    """Return whether a line begins an item of a list."""
    return line.lstrip(" ").startswith("- ")


def key_column(line: str) -> int:
    """Return the column of a line's key, from 0; in a list item the one after its hyphen."""
    text = line.lstrip(" ")
    return indent(line) + (len(text) - len(text[2:].lstrip(" ")) if is_item_line(line) else 0)


def first_word(line: str) -> str:
    """Return the key of a line, or the text in its place."""
    return line[key_column(line) :].partition(":")[0].partition(" ")[0]


def key_before(line: str, column: int) -> str:
    """Return the key whose value begins at a column, or ""."""
    before = line[:column].rstrip()
    if not before.endswith(":"):
        return ""
    return before[1 + max(before.rfind(mark) for mark in " ,{[") : -1]


def value_at(line: str, column: int) -> str:
    """Return the text from a column to the end of the line, within braces to the next comma or closing bracket."""
    text = content(line[column:])
    if any(mark in line[:column] for mark in CLOSES):
        ends = [place for mark in ",}]" if (place := text.find(mark)) >= 0]
        text = text[: min(ends, default=len(text))].rstrip()
    return text


def quoted(text: str) -> str:
    """Return a text in YAML's quotes."""
    return "'" + text.replace("'", "''") + "'" if '"' in text or "\\" in text else f'"{text}"'


def quote_it(key: str, text: str) -> str:
    """Return the hint for a value that needs quotes."""
    return f"quote it: {quote(f'{key}: {quoted(text)}' if key else quoted(text))}"


def _is_within(line: str, start: int) -> bool:
    return not content(line) or indent(line) > start


def open_quote_of(line: str) -> int | None:
    """Return where a quote opens that the line does not close; None where each is closed."""
    at, text = None, ""
    for place, character in enumerate(line):
        if at is not None:
            at = None if character == text else at
        elif character == "#" and line[place - 1 : place] in ("", " "):
            return None
        elif character in "\"'" and line[:place].rstrip(" ")[-1:] in ("", ":", ",", "[", "{", "-"):
            at, text = place, character
    return at
