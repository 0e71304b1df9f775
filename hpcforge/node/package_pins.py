"""apt's preferences that keep packages from being installed: where they are, and what they match.

Format: apt_preferences(5).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

FILE, FOLDER = Path("/etc/apt/preferences"), Path("/etc/apt/preferences.d")
_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.pref)?")  # of files that apt reads; with other characters it does not
_FIELD = re.compile(r"(Package|Pin-Priority):(.*)", re.IGNORECASE)


class NegativePin(NamedTuple):
    """A record of negative priority; `first` and `last` are its lines in the file, `line` that of the priority."""

    path: Path
    first: int
    line: int
    last: int
    packages: tuple[str, ...]
    priority: int

    def matches(self, name: str) -> bool:
        """Whether the record is for this package; for patterns that only apt can compare, it may be."""
        return any(
            pattern.startswith(("src:", "/")) or fnmatchcase(name, pattern.partition(":")[0])
            for pattern in self.packages
        )

    def comment_out(self) -> str:
        """Return the command that makes comments of the record."""
        return f"sed -i '{self.first},{self.last}s/^/#/' {shlex.quote(str(self.path))}"


def negative(file: Path = FILE, folder: Path = FOLDER) -> Iterator[NegativePin]:
    """Return the records of negative priority."""
    for path in (file, *sorted(folder.glob("*"))):
        if path.is_file() and (path == file or _NAME.fullmatch(path.name)):
            yield from parse(path, path.read_text("utf-8", "replace"))


def parse(path: Path, text: str) -> Iterator[NegativePin]:
    """Return the records of negative priority in one file."""
    first, packages, line, priority = 0, "", 0, ""
    lines = [*text.splitlines(), ""]
    for number, content in enumerate(lines, start=1):
        field = _FIELD.match(content)
        if content.strip() and not content.startswith("#"):
            first = first or number
        if field:
            if field.group(1).lower() == "package":
                packages = field.group(2)
            else:
                line, priority = number, field.group(2).strip()
        elif not content.strip():
            if re.fullmatch(r"-\d+", priority):
                yield NegativePin(path, first, line, number - 1, tuple(packages.split()), int(priority))
            first, packages, line, priority = 0, "", 0, ""
