"""Text whose parts have styles for a terminal: each part gets its style where its sentence is made.

A styled text is a string. Wherever styles are of no use, in JSON, in a file, in a comparison, it is its text alone.
So no colour is the only sign of anything, and text from outside has no style unless it is given one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Self

Style = Literal["add", "change", "remove", "good", "warn", "bad", "hint", "title", "aside"]
Part = tuple[str, Style | None]

# As rich writes them.
LOOKS: dict[Style, str] = {
    "add": "green",
    "change": "yellow",
    "remove": "red",
    "good": "green",
    "warn": "bold yellow",
    "bad": "bold red",
    "hint": "cyan",
    "title": "bold",
    "aside": "dim",
}
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATES: dict[str, Style] = {
    **dict.fromkeys(("configured", "reachable", "running", "passed", "done"), "good"),
    **dict.fromkeys(
        ("deferred", "drained", "not scheduled", "skipped", "interrupted", "pending", "unknown", "not run", "stopped",
         "partly up", "cut off", "not verified"), "warn"),
    **dict.fromkeys(
        ("failed", "unreachable", "left behind", "wrong", "missed", "timed out", "error", "invalid", "down"), "bad"),
}  # fmt: skip


class Styled(str):
    """A text that knows the style of each of its parts."""

    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> Self:
        """Put parts together."""
        kept = tuple(part for part in parts if part[0])
        text = super().__new__(cls, "".join(piece for piece, _ in kept))
        text.parts = kept
        return text

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Part, ...]]]:
        """Return a copy with the same parts."""
        return type(self), (self.parts,)

    def __add__(self, other: str) -> Styled:
        return joined((self, other))

    def __radd__(self, other: str) -> Styled:
        return joined((other, self))


def styled(text: str, style: Style) -> Styled:
    """Return the text in a style."""
    made = str.__new__(Styled, text)
    made.parts = ((text, style),) if text else ()
    return made


def state(word: str) -> str:
    """Return a state of a node, a test or a run, in the style of the states that are as good or bad."""
    return styled(word, _STATES[word]) if word in _STATES else word


def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of any text with their styles; None is no style."""
    return text.parts if isinstance(text, Styled) else ((str(text), None),)


def joined(texts: Iterable[str], separator: str = "") -> Styled:
    """Return the texts one after the other, each with its styles."""
    parts: list[Part] = []
    for text in texts:
        if parts and separator:
            parts.append((separator, None))
        parts += parts_of(text) or (("", None),)
    return Styled(parts)


def each_part(change: Callable[[str], str], text: str) -> str:
    """Return the text with each of its parts changed; styles stay."""
    return Styled([(change(piece), style) for piece, style in text.parts]) if isinstance(text, Styled) else change(text)


def cut(text: str, start: int, end: int) -> str:
    """Return the characters from `start` to `end`, with their styles."""
    if not isinstance(text, Styled):
        return text[start:end]
    parts: list[Part] = []
    begin = 0
    for piece, style in text.parts:
        parts.append((piece[max(0, start - begin) : max(0, end - begin)], style))
        begin += len(piece)
    return Styled(parts)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without their ends, with their styles."""
    lines: list[str] = []
    parts: list[Part] = []
    for piece, style in parts_of(text):
        *ended, rest = piece.split("\n")
        for end in ended:
            lines.append(Styled([*parts, (end, style)]))
            parts = []
        parts.append((rest, style))
    return lines if text.endswith("\n") else [*lines, Styled(parts)]


def painted(text: str) -> str:
    """Return the text with colours for a terminal; it is clean before."""
    return "".join(f"\x1b[{_code(style)}m{piece}\x1b[0m" if style else piece for piece, style in parts_of(text))


def _code(style: Style) -> str:
    return ";".join(_CODES[word] for word in LOOKS[style].split())
