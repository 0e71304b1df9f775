"""Small pieces of terminal text."""

from __future__ import annotations

import re
from collections.abc import Sequence

# All but tab and the end of a line, which may be a Windows one; then what hides or turns round what is beside it, other
# ends of lines, and halves of characters, which cannot be written at all.
_CONTROL = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e007f]"
)
_END = re.compile(r"(?:(?<![ \t])[ \t]++)?\r?\n[ \t]*")  # a run of spaces is looked at once, from where it begins


def clean(text: str) -> str:
    """Text safe to print: control characters and what turns or hides text made visible. Lines stay lines."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    """Text that came from outside as one line, so that it cannot pass for another one of ours; cleaned, too."""
    return clean(_END.sub(" ", text.strip("\r\n")))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Left-aligned columns under a header, two spaces apart; the last column is as wide as it likes."""
    cells = [list(header), *[[one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    return "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """A time span as people say it: `4.2 s`, `3 min 10 s`, `2 h 5 min`, `3 days`."""
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
