"""Words of slurm.conf, of gres.conf, and of the output of `scontrol show` and `slurmd -C`. Pure.

Every word is in a `Ledger` from the start, and leaves it only when a reader takes it: so none is dropped silently.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, product
from typing import NamedTuple

from hpcforge.starter.machines import MOST_MACHINES, LeftOut, StarterError
from hpcforge.starter.readers.words import SECRET, Beside

MOST_FILES = 100  # files that include each other
_MOST_FOLDERS = 8  # folders in a file's path
MOST_PARTS = 20 * MOST_MACHINES
MOST_MENTIONS = 1000 * MOST_MACHINES  # mentions of nodes in all lines
STATE = "it is the state of a node or a partition, not its configuration"
DEFAULTS = "`scontrol show config` has all defaults, too: give slurm.conf itself"

_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*=\s*("[^"]*"(?=\s|$)|\S+)')  # the pattern of Slurm's s_p_parse_line
_TOKEN = re.compile(r"\s*(\S+)")
_COMMENT = re.compile(r"(?<!\\)(?:\\\\)*#.*")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*(\\)\s*$")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_SHOWN = re.compile(r"\b(?:CPUAlloc|CPUTot|TotalNodes)=|^Configuration data as of ", re.MULTILINE)
_SHOWN_PAIR = re.compile(r"(?<![A-Za-z_])([A-Za-z][A-Za-z_]*(?:\[0\])?) ?= ?(.*?)(?= [A-Za-z_]+=|\Z)", re.DOTALL)
_BRACKETS = re.compile(r"\[(\d{1,9}(?:-\d{1,9})?(?:,\d{1,9}(?:-\d{1,9})?)*)\]")
_SECRET_VALUE = re.compile(r"(?:pass|secret|token|key)[a-z]{0,40}[=:]", re.IGNORECASE)
_UNSET = ("", "(null)", "N/A", "n/a", "n/s")
_KINDS = ("name", "autodetect", "nodename", "partitionname", "nodeset", "downnodes")
_KEYS = re.compile(
    r"(?:NodeName|PartitionName|NodeSet|ClusterName|Slurm[A-Za-z]+|Control(?:Machine|Addr)|AuthType|GresTypes|AutoDetect)"
    r"\s*=|Name\s*=\s*\S+\s+\w+\s*=|include\s+\S+\s*$|Configuration data as of ",
    re.IGNORECASE,
)


class KeyValue(NamedTuple):
    """`Key=Value` on a line. The key is empty for other text."""

    line: int
    text: str
    key: str
    value: str


@dataclass(frozen=True)
class Word:
    """A pair in a file, with the kind of its record."""

    key: str
    value: str
    text: str
    line: int
    at: int  # its place among all words, so that no two are equal
    file: str | None = None
    kind: str = ""  # kind of its record: nodename, partitionname, nodeset, downnodes, name (of gres.conf), or none


def has_secret(word: Word) -> bool:
    """Return whether the value of a word is or contains a secret."""
    if _INCLUDE.fullmatch(word.text):
        return False
    return bool(SECRET.search(word.key or word.text) or _SECRET_VALUE.search(word.value))


@dataclass(frozen=True)
class Statement:
    """The words of one line, by keys in lower case."""

    kind: str
    words: Mapping[str, Word]


@dataclass
class Ledger:
    """Words that no reader has taken, each with its own reason, if any."""

    unread: dict[Word, str | None] = field(default_factory=dict)
    parts: dict[tuple[Word, str], str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)
    mentions: int = 0
    nodes: dict[str, str] = field(default_factory=dict)  # names of nodes in the blueprint, by their names in slurm.conf

    def node_name(self, full: str) -> str:
        """Return the name that a node of slurm.conf has in a blueprint; of an unknown one its host's."""
        return self.nodes.get(full) or full.partition(".")[0].lower()

    def names(self, hostlist: str) -> list[str]:
        """Return the names of a hostlist. Raises `StarterError` for too many, here or in all."""
        names = names_of(hostlist)
        self.mentions += len(names)
        if self.mentions > MOST_MENTIONS:
            raise StarterError(f"more than {MOST_MENTIONS} mentions of machines")
        return names

    def add(self, pair: KeyValue, file: str | None, kind: str, reason: str | None = None) -> Word:
        """Add a word, which is left out until it is taken."""
        word = Word(pair.key, pair.value, pair.text.strip(), pair.line, next(self.numbers), file, kind)
        self.unread[word] = reason
        return word

    def take(self, word: Word) -> str:
        """Take a word, and return its value."""
        if word in self.unread and self.unread[word] is None:
            del self.unread[word]
        return word.value

    def leave(self, word: Word, reason: str) -> None:
        """Leave a word out for a reason, even if it was taken."""
        self.unread[word] = reason

    def leave_part(self, word: Word, value: str, reason: str) -> None:
        """Leave a part of the value of a word out. Raises `StarterError` for too many."""
        self.parts[word, value] = reason
        if len(self.parts) > MOST_PARTS:
            raise StarterError(f"more than {MOST_PARTS} names or values are left out of lines")

    def left_out(self, usual_reason: Callable[[Word], str]) -> tuple[LeftOut, ...]:
        """Return the remaining words by lines: words of a line with the same reason are together."""
        pieces = [(word, word.text, reason or usual_reason(word)) for word, reason in self.unread.items()]
        parts = [(word, value, reason) for (word, value), reason in self.parts.items() if word not in self.unread]
        pieces += [(word, f"{word.key}={value}", reason) for word, value, reason in parts]
        secret = {(word.file, word.line) for word, _, _ in pieces if has_secret(word)}
        for number, (word, _, reason) in enumerate(pieces):
            if has_secret(word) or (not word.key and (word.file, word.line) in secret):
                pieces[number] = word, f"{word.key}=..." if word.key else "...", reason
        texts: dict[tuple[str | None, int, str], list[str]] = {}
        once: dict[str, tuple[str | None, int, str]] = {}  # words that are equal in every record appear once
        for word, text, reason in sorted(pieces, key=lambda piece: piece[0].at):
            always = reason in (STATE, DEFAULTS)
            place = word.file, word.line, reason
            place = once.setdefault(reason, place) if always else place
            shown = (word.key or text) if always else text
            if shown not in texts.setdefault(place, []):
                texts[place].append(shown)
        return tuple(LeftOut(line, " ".join(words), reason, file) for (file, line, reason), words in texts.items())


@dataclass(frozen=True)
class Fields:
    """The words of a record, and the defaults before it. A word that a reader gets is taken."""

    words: Mapping[str, Word]
    usual: Mapping[str, Word]
    ledger: Ledger

    def get(self, *keys: str) -> Word | None:
        """Return the word with the first of these keys that there is; the record's own come first."""
        for words in (self.words, self.usual):
            for key in keys:
                if key in words:
                    self.ledger.take(words[key])
                    return words[key]
        return None

    def whole(self, key: str, most: int) -> int | None:
        """Return the number in a word; other text, or more than `most`, stays in the ledger."""
        word = self.get(*key.split("|"))
        if word is None:
            return None
        if word.value.isdecimal() and len(word.value) < 12 and int(word.value) <= most:
            return int(word.value)
        self.ledger.leave(word, f"it is not a whole number up to {most}")
        return None


def split(text: str) -> list[str]:
    """Return the parts between commas that are outside brackets and parentheses."""
    return [part for part in re.findall(r"(?:[^,\[\](]|\[[^\]]*\]?|\([^)]*\)?|\])+", text) if part.strip()]


def names_of(text: str) -> list[str]:
    """Return the names of a hostlist as Slurm reads it, each once. Raises `StarterError` for too many."""
    names: dict[str, None] = {}
    count = 0
    for part in split(text):
        choices: list[list[str]] = []
        size = 1
        for index, piece in enumerate(_BRACKETS.split(part)):
            choices.append(_numbers(piece) if index % 2 else [piece])
            size *= len(choices[-1])
            if size > MOST_MACHINES:
                raise StarterError(f"more than {MOST_MACHINES} machines")
        count += size
        names.update(dict.fromkeys(map("".join, product(*choices))))
        if len(names) > MOST_MACHINES or count > 20 * MOST_MACHINES:
            raise StarterError(f"more than {MOST_MACHINES} machines, or {20 * MOST_MACHINES} mentions")
    return list(names)


def _numbers(brackets: str) -> list[str]:
    numbers: list[str] = []
    for item in brackets.split(","):
        first, _, last = item.partition("-")
        end = int(last or first)
        if end - int(first) >= MOST_MACHINES or len(numbers) > MOST_MACHINES:
            raise StarterError(f"more than {MOST_MACHINES} machines")
        numbers += [f"{number:0{len(first)}}" for number in range(int(first), end + 1)]
    return numbers


def is_slurm(line: str) -> bool:
    """Return whether a line belongs to slurm.conf, gres.conf, or their form in the output of Slurm's programs."""
    return _KEYS.match(line) is not None


def is_shown(text: str) -> bool:
    """Return whether a text is the output of `scontrol show` for nodes, partitions or the configuration."""
    return _SHOWN.search(text) is not None


def statements(text: str, read_sibling: Beside | None, ledger: Ledger, file: str | None = None) -> list[Statement]:
    """Return the statements of a file and of the files that it includes, each file once."""
    visited: set[str] = {file} if file else set()
    cluster = re.search(r"^[ \t]*ClusterName[ \t]*=[ \t]*([A-Za-z0-9_-]+)", text, re.IGNORECASE | re.MULTILINE)
    return list(
        _statements(text, file, _Source(text, read_sibling, ledger, visited, cluster[1].lower() if cluster else None))
    )


@dataclass(frozen=True)
class _Source:
    first: str  # the text of the file that includes the others
    read_sibling: Beside | None
    ledger: Ledger
    visited: set[str]  # files that are open or finished
    cluster: str | None

    def included(self, name: str) -> tuple[str, str] | str:
        """Name and text of a file that another one includes, or the reason why it is not read."""
        name = name.strip('"').replace("%c", self.cluster or "%c")
        if "*" in name:
            return "Slurm reads no patterns here"
        if len(self.visited) >= MOST_FILES:
            return f"more than {MOST_FILES} files include each other"
        parts = [part for part in re.split(r"/(?:\./+)*|^\./+", name.rpartition("../")[2]) if part][-_MOST_FOLDERS:]
        for path in ("/".join(parts[start:]) for start in range(len(parts))):
            text = self.read_sibling(path) if self.read_sibling and path not in self.visited else None
            if path in self.visited or text == self.first:
                return "this file is read already"
            if text is not None:
                self.visited.add(path)
                return path, text
        return "give that file, too: put it beside this one"


def _statements(text: str, file: str | None, source: _Source) -> Iterator[Statement]:
    pairs = _shown if is_shown(text) else _written
    for line in pairs(text):
        include = _INCLUDE.fullmatch(line[0].text) if len(line) == 1 else None
        if include is None:
            yield _statement(line, file, source.ledger)
            continue
        content = source.included(include[1])
        word = source.ledger.add(line[0], file, "", content if isinstance(content, str) else None)
        if not isinstance(content, str):
            source.ledger.take(word)
            yield from _statements(content[1], content[0], source)


def _statement(pairs: list[KeyValue], file: str | None, ledger: Ledger) -> Statement:
    keys = [pair.key.lower() for pair in pairs]
    kind = next((kind for kind in _KINDS if kind in keys), "")
    kind = "name" if kind == "autodetect" else kind
    words: dict[str, Word] = {}
    for pair, key in zip(pairs, keys, strict=True):
        word = ledger.add(pair, file, kind, None if key else "it is not Key=Value")
        if key in words:
            ledger.leave(words[key], "the same key is set again, and Slurm takes the last")
        if key:
            words[key] = word
    return Statement(kind, words)


def _written(text: str) -> Iterator[list[KeyValue]]:
    """Yield the words of each line of a file; a line may continue after a backslash."""
    pieces: list[str] = []
    starts: list[int] = []
    lines = text.split("\n")
    for number, raw in enumerate(lines, 1):
        line = _COMMENT.sub(lambda comment: comment[0].partition("#")[0], raw.rstrip("\r"))
        starts.append(sum(map(len, pieces[-1:])) + (starts[-1] if starts else 0))
        continued = _CONTINUED.search(line)
        pieces.append(line[: continued.start(1)] if continued else line)
        if continued and number < len(lines):
            continue
        joined, first = "".join(pieces), number - len(starts) + 1
        if _INCLUDE.fullmatch(joined):
            yield [KeyValue(first, joined, "", "")]
        elif words := list(_pairs(joined, starts, first)):
            yield words
        pieces, starts = [], []


def _pairs(line: str, starts: list[int], first: int) -> Iterator[KeyValue]:
    """Yield the words of a line whose parts start at these characters; `first`: the number of the first part."""
    at = 0
    while word := _PAIR.match(line, at) or _TOKEN.match(line, at):
        number = first + bisect_right(starts, word.start(1)) - 1
        key, value = (word[1], word[2]) if word.re is _PAIR else ("", word[1])
        value = re.sub(r"\\(.)", r"\1", value)
        yield KeyValue(number, f"{key}={value}" if key else value, key, value.strip('"') if key else value)
        at = word.end()


def _shown(text: str) -> Iterator[list[KeyValue]]:
    """Yield the words in the output of `scontrol show`: a record has further lines, which begin with blanks."""
    record: list[KeyValue] = []
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.startswith((" ", "\t")) and record:
            yield record
            record = []
        line = " ".join(raw.split())
        words = [KeyValue(number, pair[0], pair[1], pair[2]) for pair in _SHOWN_PAIR.finditer(line)]
        if line and not words:
            words = [KeyValue(number, line, "", line)]
        record += [word for word in words if word.value not in _UNSET]
    if record:
        yield record
