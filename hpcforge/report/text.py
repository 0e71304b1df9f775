"""Small pieces of terminal text."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest

from hpcforge.styles import Styled, cut, each_part, joined, lines_of

# Why nodes cannot be reached, in the same words where it is the same: so that it is printed once, with a hostlist.


_WORD = re.compile(r"([\w-]+)( \([^()]{1,64}\))?")  # with an address
_SHOWN_S = 0.05  # what would be 0.0 s says nothing


def same_words(reasons: Mapping[str, str]) -> dict[str, str]:
    """Reasons by node; of those that differ only in the node itself, each without its name and address.

    `NODE (ADDRESS)` is `the node` there; its name alone, as in a command, `NODE`, and that address alone `ADDRESS`.
    """
    general = {name: _general(name, why) for name, why in reasons.items()}
    count = Counter(general.values())
    return {name: general[name] if count[general[name]] > 1 else why for name, why in reasons.items()}


def _general(name: str, why: str) -> str:
    addresses = {word[2] for word in _WORD.finditer(why) if word[1] == name and word[2]}
    why = _WORD.sub(lambda word: word[0] if word[1] != name else "the node" if word[2] else "NODE", why)
    for address in addresses:
        why = why.replace(address.strip(" ()"), "ADDRESS")
    return why


def nodes_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the nodes that have each reason."""
    nodes: dict[str, list[str]] = {}
    for name, why in same_words(reasons).items():
        nodes.setdefault(why, []).append(name)
    return nodes


def by_reason(reasons: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """Nodes as a hostlist, how many they are, and the reason that all of them have."""
    from hpcforge.blueprint.hostlist import fold  # noqa: PLC0415 - help has no hostlists

    return [(fold(names), len(names), why) for why, names in nodes_by_reason(reasons).items()]


# All but tab and the end of a line, which may be a Windows one; then what hides or turns round what is beside it, other
# ends of lines, and halves of characters, which cannot be written at all.
_CONTROL = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Text safe to print: control characters and what turns or hides text made visible. Lines stay lines."""
    return each_part(_clean, text)


def _clean(text: str) -> str:
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    """Text that came from outside as one line, so that it cannot pass for another one of ours; cleaned, too."""
    return each_part(_one_line, text)


def _one_line(text: str) -> str:
    first, *rest = text.strip("\r\n").split("\n")
    if not rest:
        return _clean(first)
    # No pattern: one for the blanks around a line's end takes squares of time where there are only blanks.
    return _clean(" ".join([first.rstrip(" \t\r"), *(line.strip(" \t\r") for line in rest)]))


def lines_text(lines: Iterable[str]) -> str:
    """Return lines that may have text from outside, each as one line with its end."""
    return joined(piece for line in lines for piece in (one_line(line), "\n"))


def moment(seconds: float) -> str:
    """Format a time, in seconds since 1970, to the second and in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "", columns: int | None = None) -> str:
    """Left-aligned columns under a header, two spaces apart; within `columns`, long cells take several lines."""
    cells = [list(header), *[[one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    if columns is not None:
        widths = _narrowed(widths, columns - len(indent) - 2 * (len(widths) - 1))
    lines = [
        _spaced(line, widths, indent)
        for row in cells
        for line in zip_longest(*(_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)), fillvalue="")
    ]
    return joined(lines, "\n") + "\n"


def _spaced(cells: Sequence[str], widths: Sequence[int], indent: str) -> str:
    line = indent + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    if not any(isinstance(cell, Styled) for cell in cells):
        return line
    padded = joined((cell + " " * (width - len(cell)) for cell, width in zip(cells, widths, strict=True)), "  ")
    return cut(indent + padded, 0, len(line))


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Widths that come to at most `room`, the widest narrowed first."""
    narrow = list(widths)
    while sum(narrow) > max(room, len(narrow)):
        narrow[narrow.index(max(narrow))] -= 1
    return narrow


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Break a line into lines of at most `width`, which keep its styles; all but the first are indented."""
    if len(text) <= width:
        return [text]
    lines, end = list[str](), 0
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False):
        words = line.removeprefix(indent) if lines else line
        start = text.find(words, end)
        lines.append(line if start < 0 else (indent if lines else "") + cut(text, start, start + len(words)))
        end = max(start, end) + len(words)
    return lines


def within(text: str, columns: int | None) -> str:
    """Break the long lines of a text; continuations are indented under their text, behind the first column."""
    if columns is None:
        return text
    lines = list[str]()
    for line in lines_of(text):
        begun = re.match(r" *\S+(?: \S+)* {2,}", line) or re.match(" *", line)
        hang = begun.end() if begun and begun.end() < columns // 2 else 2
        lines += _wrapped(line, columns, " " * hang) or [""]
    return joined(piece for line in lines for piece in (line, "\n"))


def duration(seconds: float) -> str:
    """Format a time span for people: `4.2 s`, `3 min 10 s`, `2 h 5 min`, `3 days`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    return f"{int(seconds // 86400)} days"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """`1 node`, `3 nodes`; a noun whose plural has no s comes with it."""
    return f"{count} {noun}" if count == 1 else f"{count} {several or f'{noun}s'}"


def phases_line(phases: Mapping[str, float], total_s: float) -> str:
    """Return the line with the time of each phase, other time, and the total by the wall clock."""
    spans = {**phases, "other": total_s - sum(phases.values())}
    shown = [f"{name} {duration(s)}" for name, s in spans.items() if s >= _SHOWN_S]
    return f"time: {', '.join(shown)}; total {duration(total_s)}\n"
