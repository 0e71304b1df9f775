"""Mistakes of lines: colons, spaces and quotes that are not there, and lines that begin in the wrong column. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from hpcforge.blueprint.diagnostics import Mark, quote
from hpcforge.blueprint.yaml_errors import (
    CLOSES,
    Refusal,
    Told,
    content,
    first_word,
    indent,
    is_item_line,
    key_before,
    key_column,
    open_quote_of,
    quote_it,
    quoted,
    value_at,
)

_WORD = r"[A-Za-z_][\w.,\[\]-]*+"
_NO_SPACE = re.compile(rf"({_WORD}):(\S.*+)")  # `controller:head`
_NO_COLON = re.compile(rf"({_WORD})(?: ++(?:= *+)?+(.*+))?+")  # `controller head`, `controller = head`, `controller`
_TRIED = 12  # places where a quote may close
_LIKELY_END = re.compile(r"[}\]]|, ?[A-Za-z_][\w-]*+: ")
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")


def second_colon(refusal: Refusal) -> Told | None:
    """Detect a colon where none can be: in a value, or of a key that the line above has swallowed."""
    written = refusal.current
    key, colon, value = written[: refusal.column].partition(": ")
    if colon and value.strip():
        begins = len(key) + 2 + len(value) - len(value.lstrip())
        if value.lstrip()[0] in "\"'{[":
            return None
        text = value_at(written, begins)
        hint = quote_it(key.strip().removeprefix("- "), text)
        edit = refusal.inserted(refusal.line, begins, quoted(text), len(text))
        return "text with a colon needs quotes", Mark(refusal.line + 1, begins + 1, len(text)), hint, edit
    above = refusal.above(refusal.line)
    if above is None:
        return None
    explained = _odd_space(refusal, refusal.line) or _no_pair(refusal, above)
    if explained is None and indent(written) > indent(refusal.text(above)):
        return _further(refusal, above)
    return explained


def _further(refusal: Refusal, above: int) -> Told:
    """Report a line that begins further right than the one above, which has its value already."""
    start, word = key_column(refusal.text(above)), first_word(refusal.current)
    if _rarer(refusal, start, key_column(refusal.current)):
        return _out_of_line(refusal, above)
    message = (
        f"{quote(word)} is indented further than {quote(first_word(refusal.text(above)))} above it, which already "
        f"has a value"
    )
    mark = Mark(refusal.line + 1, key_column(refusal.current) + 1, len(word))
    edit = refusal.moved(refusal.line, start)
    return message, mark, f"begin it in column {start + 1}, if it belongs beside it", edit


def begun_without_colon(refusal: Refusal) -> Told | None:
    """Detect an unfinished key without a colon."""
    return _no_pair(refusal, refusal.begun[0]) if refusal.begun else None


def _no_pair(refusal: Refusal, line: int) -> Told | None:
    """Say why a line is no `key: value`."""
    text, start = content(refusal.text(line)), indent(refusal.text(line))
    if text.startswith(_CONFLICT):
        hint = "keep one of the two versions, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>"
        return "the file has an unresolved merge conflict", Mark(line + 1, start + 1, 7), hint
    if text.startswith(("//", "/*", ";")):
        return f"`{text[:2]}` begins no comment", Mark(line + 1, start + 1, 2), "a comment begins with `#`"
    if explained := _odd_space(refusal, line):
        return explained
    if text[:1] == "-" and text[1:2] not in ("", " ", "-"):
        edit = refusal.inserted(line, start + 1, " ")
        return "no space after `-`", Mark(line + 1, start + 1), f"write {quote(f'- {text[1:]}')}", edit
    item = text.removeprefix("- ")
    start += len(text) - len(item)
    if match := _NO_SPACE.fullmatch(item):
        mark = Mark(line + 1, start + len(match[1]) + 1)
        edit = refusal.inserted(line, start + len(match[1]) + 1, " ")
        message = f"no space after the colon of {quote(match[1])}"
        return message, mark, f"write {quote(f'{match[1]}: {match[2]}')}", edit
    if (match := _NO_COLON.fullmatch(item)) and ": " not in item and not item.endswith(":"):
        message = f"no colon after {quote(match[1])}"
        pair = f"{match[1]}: {match[2] or ''}".strip()
        edit = refusal.inserted(line, start, pair, len(item))
        return message, Mark(line + 1, start + 1, len(match[1])), f"write {quote(pair)}", edit
    return None


def _odd_space(refusal: Refusal, line: int) -> Told | None:
    text = refusal.text(line)
    odd = next((place for place, c in enumerate(text) if c.isspace() and not c.isascii()), None)
    if odd is None:
        return None
    name = f"U+{ord(text[odd]):04X} {unicodedata.name(text[odd], '')}".rstrip()
    edit = refusal.inserted(line, odd, " ", 1)
    return "a character that only looks like a space", Mark(line + 1, odd + 1), f"write a space for {name}", edit


def no_key(refusal: Refusal) -> Told | None:
    """Explain an error where a key was expected: at the beginning of a line, or after a value."""
    if refusal.column == indent(refusal.current):
        return _stray_item(refusal) or _misaligned(refusal)
    return open_quote(refusal) or _after_the_end(refusal)


def _stray_item(refusal: Refusal) -> Told | None:
    if not is_item_line(refusal.current):
        return None
    mark, message = Mark(refusal.line + 1, refusal.column + 1), "a list item where a key is expected"
    for line, _ in _levels(refusal):
        if is_item_line(refusal.text(line)):
            column = indent(refusal.text(line))
            hint = f"begin it in column {column + 1}, as the item in line {line + 1}"
            return message, mark, hint, refusal.moved(refusal.line, column)
    return message, mark, "the lines above have keys: remove the `-`"


def outside(refusal: Refusal) -> Told | None:
    """Detect a line outside every YAML document."""
    above = refusal.above(refusal.line)
    if above is not None and content(refusal.text(above)) == "...":
        return "`...` ends the file, and more follows", Mark(above + 1, 1, 3), "remove it"
    return _misaligned(refusal)


def _misaligned(refusal: Refusal) -> Told | None:
    """Detect a key that begins in a column in which no open mapping has its keys."""
    word, column = first_word(refusal.current), refusal.column
    levels = [(line, start) for line, start in _levels(refusal) if start != column]
    if not levels or not word:
        return None
    mark = Mark(refusal.line + 1, column + 1, len(word))
    if column == 0:
        line, start = levels[-1]
        first = first_word(refusal.text(line))
        message = f"{quote(first)} is indented, but {quote(word)} in line {refusal.line + 1} is not"
        return message, Mark(line + 1, start + 1, len(first)), "begin it in column 1", refusal.moved(line, 0)
    nearest = min((level for level in levels if level[1] > 0), key=lambda level: abs(level[1] - column), default=None)
    if nearest and _rarer(refusal, nearest[1], column):
        return _out_of_line(refusal, nearest[0])
    deeper = [level for level in levels if level[1] > column][-1:]
    higher = [level for level in levels if level[1] < column][:1]
    ways = [
        f"column {start + 1}, as {quote(first_word(refusal.text(at)))} in line {at + 1}"
        for at, start in deeper + higher
        if refusal.parses(refusal.moved(refusal.line, start))
    ]
    message = f"{quote(word)} starts in a column where nothing above it starts"
    return message, mark, f"begin it in {', or in '.join(ways)}" if ways else None


def _rarer(refusal: Refusal, column: int, second: int) -> bool:
    """Return whether fewer lines of the file have their keys in one column than in another."""
    columns = [key_column(refusal.text(line)) for line in range(len(refusal.lines)) if content(refusal.text(line))]
    return columns.count(column) < columns.count(second)


def _out_of_line(refusal: Refusal, line: int) -> Told:
    """Report a line above that begins in the wrong column, as the line here shows."""
    word, start, below = first_word(refusal.text(line)), key_column(refusal.text(line)), key_column(refusal.current)
    message = (
        f"{quote(word)} and {quote(first_word(refusal.current))} in line {refusal.line + 1} begin in different columns"
    )
    hint = f"begin it in column {below + 1}"
    return message, Mark(line + 1, start + 1, len(word)), hint, refusal.moved(line, below, alone=True)


def _levels(refusal: Refusal) -> Iterator[tuple[int, int]]:
    """Yield the lines above that begin further left than all between them and here, and where their keys begin."""
    least: int | None = None
    for line in range(refusal.line - 1, -1, -1):
        text = refusal.text(line)
        if content(text) and (least is None or indent(text) < least):
            least = indent(text)
            yield line, key_column(text)
        if least == 0:
            return


def key_among_items(refusal: Refusal) -> Told | None:
    """Explain an error where the next item of a list was expected."""
    word = first_word(refusal.current)
    if refusal.column != indent(refusal.current) or not word:
        return None
    mark = Mark(refusal.line + 1, refusal.column + 1, len(word))
    ways = [
        f"column {start + 1}, {'to belong to the item' if is_item else 'beside what begins'} in line {line + 1}"
        for line, start in list(_levels(refusal))[:2]
        for is_item in [is_item_line(refusal.text(line))]
        if refusal.parses(refusal.moved(refusal.line, start))
    ]
    return "a key among the items of a list", mark, f"begin it in {', or in '.join(ways)}" if ways else None


def open_quote(refusal: Refusal) -> Told | None:
    """Detect a quote of a line above, or of this one, that only a later quote has closed."""
    for line in range(refusal.begun[0] if refusal.begun else 0, refusal.line):
        column = open_quote_of(refusal.text(line))
        if column is not None:
            return _unclosed_quote(refusal, line, column)
    before = refusal.current[: refusal.column]
    opening = before.rfind(before[-1:], 0, -1) if before[-1:] in ("'", '"') else -1
    last = before[opening + 1 : -1].rpartition(",")[2].strip()
    if opening >= 0 and last.endswith(":") and last[:-1].isidentifier():  # the text contains the next key
        return _unclosed_quote(refusal, refusal.line, opening)
    return None


def end_of_file(refusal: Refusal) -> Told | None:
    """Detect a quote that was open at the end of the file."""
    if refusal.begun is None:
        return None
    return _unclosed_quote(refusal, *refusal.begun)


def _unclosed_quote(refusal: Refusal, line: int, column: int) -> Told:
    text = refusal.text(line)
    mark = text[column : column + 1]
    message, place = f"the quote `{mark}` is not closed", Mark(line + 1, column + 1)
    for end in _ends(text, column):
        edit = refusal.inserted(line, end, mark)
        if refusal.parses(edit):
            before = [at + len(begin) for begin in (", ", "{", "[") if (at := text.rfind(begin, 0, column)) >= 0]
            start = max(before, default=indent(text))
            return message, place, f"write `{mark}` where the text ends: {quote(edit[line][start:].rstrip())}"
    return message, place, f"write `{mark}` where the text ends"


def _ends(text: str, column: int) -> list[int]:
    """Return places where a quote may close, the likeliest first: at the end, within braces before the next key."""
    comment = text.find(" #", column)
    end = len(text[: comment if comment >= 0 else None].rstrip())
    if not any(opening in text[:column] for opening in CLOSES):
        return [end]
    places = [at for at in range(column + 1, end) if text[at] in (",", *CLOSES.values())][:_TRIED]
    return [*sorted(places, key=lambda at: not _LIKELY_END.match(text, at)), end]


def _after_the_end(refusal: Refusal) -> Told | None:
    """Text after a value that its bracket or quote has ended."""
    before, character = refusal.current[: refusal.column].rstrip(), refusal.character
    mark = Mark(refusal.line + 1, refusal.column + 1)
    if character in ("}", "]"):
        edit = refusal.inserted(refusal.line, refusal.column, "", 1)
        return f"`{character}` closes nothing", mark, "remove it, or write its opening bracket", edit
    key, colon, value = refusal.current.partition(": ")
    if before[-1:] in ('"', "'"):
        text = content(value).strip(before[-1]).replace('"', "")
        return (
            "text after the closing quote",
            mark,
            quote_it(key.strip(), text) if colon else "write one pair of quotes",
        )
    if before[-1:] in ("]", "}") and colon and value.lstrip()[:1] in CLOSES:
        hint = quote_it(key.strip(), content(value))
        return f"text after the closing `{before[-1]}`", mark, f"if the whole value is one text, {hint}"
    return None


def first_character(refusal: Refusal) -> Told | None:
    """Detect a tab, or a value that begins with a character with another meaning in YAML."""
    column = refusal.column if refusal.begun is None or "any token" in refusal.message else refusal.begun[1]
    line = refusal.line if refusal.begun is None or "any token" in refusal.message else refusal.begun[0]
    text = refusal.text(line)
    if refusal.character == "\t" or " tab " in refusal.message:
        tab = refusal.current.find("\t", refusal.column)
        mark = Mark(refusal.line + 1, max(tab, 0) + 1)
        return "a tab: YAML is indented with spaces only", mark, "write spaces in its place"
    value = value_at(text, column)
    if not value:
        return None
    key = key_before(text, column)
    message = f"a value cannot begin with `{value[0]}` unless it is quoted"
    edit = refusal.inserted(line, column, quoted(value), len(value))
    return message, Mark(line + 1, column + 1, len(value)), quote_it(key, value), edit


def escape(refusal: Refusal) -> Told:
    """Report a backslash without a meaning."""
    mark = Mark(refusal.line + 1, refusal.column + 1)
    return r"within double quotes `\` begins an escape", mark, r"write `\\` for it, or use single quotes"
