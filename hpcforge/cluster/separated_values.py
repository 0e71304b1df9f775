"""Records of comma-separated values, with the place of each cell, as spreadsheets and programs save them. Pure."""

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
_TEXT_MARK = re.compile(r'="(?P<formula>.*)"|\'(?P<quote>.+)', re.DOTALL)  # forms that keep 0123 in a spreadsheet


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
        start = at + len(line[at:]) - len(line[at:].lstrip(" ")) if line[at : at + 1] == " " else at
        place = Mark(number, start + 1)
        if line[start : start + 1] == '"':
            text, number, end = _quoted(lines, number, start, separator, is_row)
            line = lines[number - 1].rstrip()
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            text = line[start:end]
            if '"' in text and not _TEXT_MARK.fullmatch(text.strip()):
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


def _quoted(
    lines: Sequence[str], number: int, start: int, separator: str, is_row: Callable[[str], bool]
) -> tuple[str, int, int]:
    """Return the text of a cell in quotes, its last line, and the place behind it. Raises `CellError`."""
    begin, at, texts = number, start + 1, []
    while number <= min(len(lines), begin + _MOST_LINES):
        line = lines[number - 1].rstrip()
        if number > begin and is_row(line):
            break
        close = _closing(line, at)
        if close >= 0:
            end = close + 1 + len(line[close + 1 :]) - len(line[close + 1 :].lstrip(" "))
            if line[end : end + 1] not in ("", separator):
                break
            texts.append(line[at:close])
            return "\n".join(texts).replace('""', '"'), number, end
        texts.append(line[at:])
        number, at = number + 1, 0
    raise _mismatch(Mark(begin, start + 1))


def _closing(line: str, at: int) -> int:
    """Return the index of the quote that ends a cell, -1 if it is not on this line."""
    close = line.find('"', at)
    while close >= 0 and line[close + 1 : close + 2] == '"':
        close = line.find('"', close + 2)
    return close


def _plain(text: str) -> str:
    text = text.strip().strip(_NO_WIDTH).strip()
    match = _TEXT_MARK.fullmatch(text)
    return (match["formula"] or match["quote"] or "").strip() if match else text
