"""Records of comma-separated values, with the place of each cell, as spreadsheets and programs save them. Pure.

The standard library's `csv` reports no columns, reads a quote inside a cell as text, and refuses a space after a quote.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hpcforge.blueprint.diagnostics import Mark

MOST_COLUMNS = 64
_MOST_LINES = 50  # lines of one cell
_SEPARATORS = (",", ";", "\t", "|")
_ENCODINGS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NO_WIDTH = "\u200b\ufeff"
_QUOTED = re.compile(r'"([^"]*+(?:""[^"]*+)*+)" *')
_TEXT_MARK = re.compile(r'="(?P<formula>.*)"|\'(?P<quote>.+)', re.DOTALL)  # how a spreadsheet keeps 0123 as it is


@dataclass(frozen=True)
class ListCell:
    """The text of a cell without its quotes, and its place."""

    text: str
    mark: Mark


class CellError(Exception):
    """A file or a record that cannot be read: its place, and what to do."""

    def __init__(self, message: str, mark: Mark, hint: str) -> None:
        super().__init__(message)
        self.mark, self.hint = mark, hint


@dataclass(frozen=True)
class ListRecord:
    """The cells of a record that begins on a line, or why it has none."""

    line: int
    cells: list[ListCell] = field(default_factory=list)
    error: CellError | None = None

    @property
    def empty(self) -> bool:
        """True where no cell has a text: a blank line, or a line of separators alone."""
        return self.error is None and not any(cell.text for cell in self.cells)


def decode(content: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 as spreadsheets save "Unicode text". Raises `CellError`."""
    encoding = next((name for bom, name in _ENCODINGS if content.startswith(bom)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        mark = Mark(content.count(b"\n", 0, error.start) + 1, error.start - content.rfind(b"\n", 0, error.start))
        raise CellError("the file is not UTF-8", mark, "save the list as UTF-8 (Excel: CSV UTF-8)") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CellError("the file is not text", Mark(line, 1), "save the list as UTF-8 (Excel: CSV UTF-8)")
    return text


def separator_of(line: str) -> str:
    """Return the separator that a line has most of."""
    return max(_SEPARATORS, key=line.count)


def records(
    lines: Sequence[str], first: int, separator: str, is_row: Callable[[str], bool] = lambda _: False
) -> Iterator[ListRecord]:
    """Yield the records from a line on. Comments (#) and blank lines are none.

    A cell in quotes may go over several lines, none of which `is_row` takes for a record of its own.
    """
    number = first
    while number <= len(lines):
        line = lines[number - 1]
        if not line.strip() or line.lstrip().startswith("#"):
            number += 1
            continue
        try:
            cells, end = record(lines, number, separator, is_row)
        except CellError as error:
            yield ListRecord(number, error=error)
            end = number
        else:
            yield ListRecord(number, cells)
        number = end + 1


def record(
    lines: Sequence[str], number: int, separator: str, is_row: Callable[[str], bool] = lambda _: False
) -> tuple[list[ListCell], int]:
    """Return the cells of the record that begins on a line, and the line on which it ends. Raises `CellError`."""
    cells: list[ListCell] = []
    at, line = 0, lines[number - 1].rstrip()
    while len(cells) < MOST_COLUMNS:
        start = len(line) - len(line[at:].lstrip(" "))
        place = Mark(number, start + 1)
        if line.startswith('"', start):
            cell, number = _quoted(lines, number, start, is_row)
            text, line = cell[1].replace('""', '"'), lines[number - 1].rstrip()
            end = len(line) - len(cell.string[cell.end() :])
            valid = line[end : end + 1] in ("", separator)
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            text = line[start:end]
            valid = '"' not in text or _TEXT_MARK.fullmatch(text.strip()) is not None
        if not valid:
            raise _mismatch(place)
        width = max(1, end - start) if place.line == number else 1
        cells.append(ListCell(_plain(text), Mark(place.line, place.column, width)))
        if end >= len(line):
            return cells, number
        at = end + 1
    hint = "is this the right file?"
    raise CellError(f"the line has more than {MOST_COLUMNS} columns", Mark(number, at + 1), hint)


def _mismatch(mark: Mark) -> CellError:
    hint = 'a cell that begins with a quote ends with one, and a quote inside is written twice: "a ""b"""'
    return CellError("the quotes of this cell do not match", mark, hint)


def _quoted(lines: Sequence[str], number: int, start: int, is_row: Callable[[str], bool]) -> tuple[re.Match[str], int]:
    """Match the cell in quotes that begins at a place; return the match and its last line. Raises `CellError`."""
    text = lines[number - 1].rstrip()[start:]
    last = number
    while (match := _QUOTED.match(text)) is None:
        last += 1
        line = lines[last - 1].rstrip() if last <= min(len(lines), number + _MOST_LINES) else None
        if line is None or is_row(line):
            raise _mismatch(Mark(number, start + 1))
        text += "\n" + line
    return match, last


def _plain(text: str) -> str:
    text = text.strip().strip(_NO_WIDTH).strip()
    match = _TEXT_MARK.fullmatch(text)
    return (match["formula"] or match["quote"] or "").strip() if match else text
