"""apt's package sources: in which file and line each is, and how it is disabled there.

Formats: sources.list(5), one line for each source, and deb822 stanzas.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE, FOLDER = Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d")
_NAME = re.compile(r"[A-Za-z0-9_.-]+\.(?:list|sources)")  # of files that apt reads
_LINE = re.compile(r"\s*deb\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)")
_FIELD = re.compile(r"([A-Za-z][A-Za-z0-9-]*):(.*)")
_PASSWORD = re.compile(r"//[^/@\s]*@")


class SourceEntry(NamedTuple):
    """A source of binary packages; `disable` is the command that makes apt pass it over."""

    path: Path
    line: int
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    disable: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    def has(self, address: str) -> bool:
        """Whether this address belongs to the source."""
        return any(plain(address).startswith(f"{plain(uri).rstrip('/')}/") for uri in self.uris)

    def named_in(self, message: str) -> bool:
        """Whether a message of apt's is about this source."""
        words, message = message.split(), plain(message)
        suites = any(suite in words or f"/dists/{suite}/" in message for suite in self.suites)
        return suites and any(plain(uri).rstrip("/") in message for uri in self.uris)


def plain(text: str) -> str:
    """Return a text without the users and passwords of its addresses."""
    return _PASSWORD.sub("//", text)


def entries(file: Path = FILE, folder: Path = FOLDER) -> Iterator[SourceEntry]:
    """Return the sources that are enabled."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file() and (path == file or _NAME.fullmatch(path.name)):
            text = path.read_text("utf-8", "replace")
            yield from (stanzas if path.suffix == ".sources" else lines)(path, text)


def lines(path: Path, text: str) -> Iterator[SourceEntry]:
    """Return the sources of a file with one line for each."""
    for number, content in enumerate(text.splitlines(), start=1):
        match = _LINE.match(content)
        if match:
            command = f"sed -i '{number}s/^/# /' {shlex.quote(str(path))}"
            yield SourceEntry(path, number, (match.group(1),), (match.group(2),), command)


def stanzas(path: Path, text: str) -> Iterator[SourceEntry]:
    """Return the sources of a file of deb822 stanzas."""
    fields: dict[str, tuple[int, list[str]]] = {}  # by name in small letters: line and words
    words: list[str] = []
    for number, content in enumerate([*text.splitlines(), ""], start=1):
        field = _FIELD.match(content)
        if field:
            words = field.group(2).split()
            fields[field.group(1).lower()] = (number, words)
        elif content.strip() and content[0] in " \t":
            words += content.split()
        elif not content.strip() and fields:
            enabled = fields.get("enabled", (0, ["yes"]))
            if "deb" in fields.get("types", (0, []))[1] and enabled[1] not in (["no"], ["false"], ["0"], ["off"]):
                first = min(line for line, _ in fields.values())
                edit = f"{enabled[0]}c" if enabled[0] else f"{first}i"
                uris, suites = (tuple(fields.get(name, (0, []))[1]) for name in ("uris", "suites"))
                command = f"sed -i '{edit} Enabled: no' {shlex.quote(str(path))}"
                yield SourceEntry(path, first, uris, suites, command)
            fields, words = {}, []
