"""Diagnostics of input files: the error, its place and a hint. Collected first, then rendered in one place.

blueprints/aurora.yaml:14:31: error: unknown hardware `dgx-h10`
   14 |   gpu[001-032]: {functions: [worker], hardware: dgx-h10}
      |                                                 ^^^^^^^
hint: did you mean `dgx-h100`?
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice
from typing import Literal

from hpcforge.errors import ExpectedError
from hpcforge.styles import Style, joined, styled

Severity = Literal["error", "warning", "not-checked"]
_STYLES: dict[Severity, Style] = {"error": "bad", "warning": "warn", "not-checked": "aside"}

MAX_SHOWN = 100  # errors, and as many warnings: people correct no more at a time
MAX_KEPT = 1_000  # errors of the YAML and of the schema
_SHOWN_COLUMNS = 160  # columns of a source line
_LOOK_BACK = 16_384  # characters before them that may begin a secret, which is not shown
_SHOWN_TEXT = 2_000  # characters of a message or a hint
_MAX_CANDIDATES = 64  # words compared letter by letter: 30 us each
_MAX_COMPARED = 4  # candidates whose edits are counted: at most 1 ms each
_LISTED_CHARACTERS = 600  # length of all words that a hint lists
_SHOWN_CHARACTERS = 80  # length of a value inside a message
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # line breaks of YAML 1.1
_SECRET = re.compile(
    r"(?is)((?<!\w)(?>\w*?(?:passw(?:or)?d|passphrase|secret(?!s\b)|token|private[_-]?key))\w*+[\"']?+\s*+[:=]\s*+)\S.*"
    r"|(-----BEGIN [A-Z ]*PRIVATE KEY-----).*|(AGE-SECRET-KEY-).*"
)


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A file as it was read; `name` is the path as the user gave it."""

    name: str
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str, at_most: int = 0) -> SourceFile:
        """Split text into lines as the YAML parser counts them; everything after `at_most` lines stays one piece."""
        return cls(name, tuple(_LINE_BREAK.split(text, at_most)))


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a file: line and column from 1, in characters, and how many characters are meant."""

    line: int
    column: int
    width: int = 1
    source: SourceFile | None = None  # an included file; None: the file itself


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong. Without a mark it is about the whole file."""

    severity: Severity
    message: str
    source: SourceFile
    mark: Mark | None = None
    hint: str | None = None
    stands_for: int = 1  # of thousands of entries the first are kept, and one stands for the others

    def __post_init__(self) -> None:
        """Take the file from the mark, where that is of an included one."""
        if self.mark is not None and self.mark.source is not None:
            object.__setattr__(self, "source", self.mark.source)

    @property
    def line(self) -> int | None:
        """Line from 1."""
        return self.mark.line if self.mark else None

    @property
    def column(self) -> int | None:
        """Column from 1, in characters."""
        return self.mark.column if self.mark else None


class InvalidInput(ExpectedError):  # noqa: N818 - it reads as what it says
    """A blueprint, an inventory or a file they name cannot be used; `diagnostics` says why, all of it."""

    kind = "invalid"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        errors = [entry for entry in self.diagnostics if entry.severity == "error"]
        super().__init__(f"{len(errors)} error{'s' * (len(errors) != 1)}: {errors[0].message if errors else ''}")

    def shown(self) -> str:
        """Return every diagnostic with its place, and their number."""
        return render_all(self.diagnostics) + f"\n{counted(self.diagnostics)}\n"


def counted(diagnostics: Iterable[Diagnostic]) -> str:
    """Return how many there are: "1 error, 7 warnings, 42 not checked"; "" for none."""
    count: Counter[Severity] = Counter()
    for entry in diagnostics:
        count[entry.severity] += entry.stands_for
    order: tuple[Severity, ...] = ("error", "warning", "not-checked")
    return ", ".join(f"{count[kind]:,} {_severity(kind, count[kind])}" for kind in order if count[kind])


def folded(diagnostics: Iterable[Diagnostic]) -> str:
    """Return a line for each message, with all that it is about: "NODE-004 w01, w02: no published ...".

    Messages have the form "CODE: SUBJECT: TEXT", or "CODE: TEXT".
    """
    subjects: dict[tuple[str, str], dict[str, None]] = {}
    for entry in diagnostics:
        code, _, message = entry.message.partition(": ")
        subject, _, text = message.rpartition(": ")
        subjects.setdefault((code, text), {}).update({subject: None} if subject else {})
    lines = (f"  {code}{' ' * bool(names)}{_listed(names)}: {text}" for (code, text), names in subjects.items())
    return "".join(f"{_plain(line)}\n" for line in lines)


def _listed(names: Iterable[str], at_most: int = 6) -> str:
    names = list(names)
    rest = f" and {len(names) - at_most:,} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + rest


def _severity(severity: Severity, count: int) -> str:
    return severity.replace("-", " ") + "s" * (severity != "not-checked" and count != 1)


def render(diagnostic: Diagnostic) -> str:
    """Return the text for a terminal, several lines, without a line break at the end."""
    mark = diagnostic.mark
    place = f"{diagnostic.source.name}:{mark.line}:{mark.column}" if mark else diagnostic.source.name
    severity = styled(f"{diagnostic.severity.replace('-', ' ')}:", _STYLES[diagnostic.severity])
    lines: list[str] = [
        styled(f"{_plain(place)}: ", "title") + severity + styled(f" {_plain(diagnostic.message)}", "title")
    ]
    if mark and mark.line <= len(diagnostic.source.lines):
        line, before, carets = _excerpt(diagnostic.source.lines[mark.line - 1], mark)
        lines += [line, before + styled(carets, _STYLES[diagnostic.severity])]
    if diagnostic.hint:
        lines.append(styled("hint:", "hint") + f" {_plain(diagnostic.hint)}")
    return joined(lines, "\n")


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """Return them with an empty line between, ending in a line break; "" for none. Of very many the first, and a count.

    What is printed stays short for a file of mistakes: at most `MAX_SHOWN` of each severity, then *and 4,812 more*.
    """
    shown, more = within_limits(diagnostics)
    texts = [render(entry) for entry in shown]
    counts = ", ".join(f"{count:,} more {_severity(severity, count)}" for severity, count in more.items())
    texts += [f"and {counts}"] if more else []
    return joined(texts, "\n\n") + "\n" if texts else ""


def within_limits(diagnostics: Iterable[Diagnostic]) -> tuple[list[Diagnostic], dict[Severity, int]]:
    """Return the first `MAX_SHOWN` of each severity, and the number of further ones by severity."""
    shown: list[Diagnostic] = []
    count: Counter[Severity] = Counter()
    for entry in diagnostics:
        count[entry.severity] += entry.stands_for
        if count[entry.severity] <= MAX_SHOWN:
            shown.append(entry)
    return shown, {severity: total - MAX_SHOWN for severity, total in count.items() if total > MAX_SHOWN}


def others(source: SourceFile, count: int) -> list[Diagnostic]:
    """Return what stands for errors of a file that are not kept, at its end; nothing for none."""
    message, end = f"and {count:,} more errors", Mark(max(1, len(source.lines)), 1)
    return [Diagnostic("error", message, source, end, stands_for=count)] if count > 0 else []


def to_json(diagnostic: Diagnostic) -> dict[str, str | int | None]:
    """Return the entry for `--json`; `line` and `column` from 1, null if it concerns the whole file."""
    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "file": diagnostic.source.name,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "hint": diagnostic.hint,
    }


def in_order(first: SourceFile, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sort by place, one file before all others, and drop repetitions."""
    entries = dict.fromkeys(diagnostics)
    return tuple(sorted(entries, key=lambda e: (e.source is not first, e.source.name, e.line or 0, e.column or 0)))


def quote(text: str) -> str:
    """Return a value from a file as it may stand in a message: printable, and no longer than a line."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in _mask(text[: 4 * _SHOWN_CHARACTERS]))
    return f"`{shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + '...'}`"


def closest(word: str, candidates: Sequence[str]) -> str | None:
    """Return the known word that a word was probably meant to be, whatever their case; None if none is close enough.

    A third of the letters may differ, as in compilers; or one name has all parts of the other: `memory`, `memory_gib`.
    """
    word, spelled = word[:64].lower(), {candidate.lower(): candidate for candidate in candidates[:4096]}
    lower = list(spelled)
    if len(lower) > _MAX_CANDIDATES:
        lower = nlargest(_MAX_CANDIDATES, lower, key=lambda candidate: _common_prefix(word, candidate))
    similar = difflib.get_close_matches(word, lower, n=_MAX_COMPARED, cutoff=0.5)
    edits = {candidate: _edits(word, candidate) for candidate in similar}
    near = [candidate for candidate in similar if edits[candidate] <= max(len(word), len(candidate)) // 3]
    parts = [
        candidate
        for candidate in similar
        if _parts(word) < _parts(candidate) or _parts(word) > _parts(candidate) != {""}
    ]
    best = min(near, key=lambda candidate: edits[candidate], default=next(iter(parts), None))
    return None if best is None else spelled[best]


def _parts(name: str) -> set[str]:
    return set(re.split("[-_.]", name))


def _edits(word: str, two: str) -> int:
    """Count the letters to add, drop, replace or exchange with their neighbour until both are the same."""
    rows = [list(range(len(two) + 1))]
    for i, letter in enumerate(word, 1):
        row, above = [i], rows[-1]
        for j, letter_of_two in enumerate(two, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != letter_of_two)))
            if i > 1 and j > 1 and word[i - 2] == letter_of_two and letter == two[j - 2]:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


def _common_prefix(word: str, second: str) -> int:
    """Count the characters that both begin with."""
    pairs = enumerate(zip(word, second, strict=False))
    return next((place for place, (letter, two) in pairs if letter != two), min(len(word), len(second)))


def did_you_mean(word: str, words: Iterable[str]) -> str | None:
    """Return a hint that names the closest known word, or lists the known ones where they are few."""
    candidates = list(words)
    if close := closest(word, candidates):
        return f"did you mean `{close}`?"
    return f"known: {', '.join(candidates)}" if 0 < len(candidates) <= 12 else None


def closest_or_all(word: str, words: Iterable[str]) -> str | None:
    """Return a hint that names the closest of words that hpcforge itself has, or lists them; None where it has none."""
    candidates = list(words)
    if hint := did_you_mean(word, candidates):
        return hint
    listed = ", ".join(candidates)
    if len(listed) > _LISTED_CHARACTERS:
        shown = listed[:_LISTED_CHARACTERS].rpartition(", ")[0]
        listed = f"{shown} and {len(candidates) - shown.count(', ') - 1} more"
    return f"known: {listed}" if candidates else None


def odd_characters(text: str) -> str | None:
    """Name the characters outside ASCII, which may look like others; None where there are none."""
    odd = dict.fromkeys(character for character in text if not character.isascii())
    described = (f"`{c}` is U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for c in odd if c.isprintable())
    return "; ".join(islice(described, 3)) or None


def _excerpt(line: str, mark: Mark) -> tuple[str, str, str]:
    """Return the source line, then the beginning and the carets of the line below it.

    A long line is cut around the carets; a secret is not shown.
    """
    start = 0 if mark.column <= _SHOWN_COLUMNS - 20 else mark.column - 20
    begin = max(0, start - _LOOK_BACK)  # only this part of a line of megabytes is read
    text = _mask(line[begin : start + _SHOWN_COLUMNS])[start - begin :]
    shown = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    before = shown[: mark.column - 1 - start]
    marked = shown[mark.column - 1 - start :][: mark.width]
    lead = "".join("\t" if c == "\t" else " " * _columns(c) for c in before)
    carets = "^" * max(1, sum(_columns(c) for c in marked))
    return f"{mark.line:>5} | {shown}".rstrip(), f"      | {lead}", carets


def _plain(text: str) -> str:
    """Text for one line of a terminal: printable, and of bounded length."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: _SHOWN_TEXT + 1])
    return shown if len(text) <= _SHOWN_TEXT else shown[:_SHOWN_TEXT] + "..."


def _mask(line: str) -> str:
    return _SECRET.sub(lambda match: "".join(part or "" for part in match.groups()) + "(not shown)", line)


def _columns(character: str) -> int:
    """Terminal columns: 2 for wide characters, 0 for those drawn over the one before."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
