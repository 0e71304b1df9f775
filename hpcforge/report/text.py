"""Small pieces of terminal text."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text that came from a node, safe to print: control characters and direction overrides made visible."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Left-aligned columns under a header, two spaces apart; the last column is as wide as it likes."""
    cells = [list(header), *[[clean(cell).replace("\n", " ") for cell in row] for row in rows]]
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
