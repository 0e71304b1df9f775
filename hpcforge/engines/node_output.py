"""Lines and events in a node's output. All of it is data from outside: any bytes, any length."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hpcforge.node import answer_types
from hpcforge.schemas import MisfitError
from hpcforge.typed_json import fits

MAX_LINE_BYTES = 8 * 2**20  # an "observed" event carries old texts of up to 256 KiB each
CUT = " [rest of the line cut]"
LAST_EVENTS = frozenset({"observed", "done", "no_python", "no_root"})
_ON_THE_WAY = {"changed", "progress", "failed", "skipped", "role_done", "warning", "remains", "lease", "log", "logs"}
NODE_EVENTS = LAST_EVENTS | _ON_THE_WAY
_SUDO_REMEDIES = {  # the remedy, and sudo's messages, in English: contact.py sets the language
    "in /etc/sudoers.d/USER: Defaults:USER !requiretty": ("must have a tty",),
    "in /etc/sudoers.d/USER: Defaults:USER secure_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin": (
        "command not found",
    ),
    "in /etc/sudoers.d/USER: USER ALL=(ALL) NOPASSWD: ALL": ("password", "not in the sudoers", "not allowed"),
    "install sudo, and in /etc/sudoers.d/USER: USER ALL=(ALL) NOPASSWD: ALL": ("no sudo on",),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


def split_lines(chunks: Iterable[bytes], limit: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Yield complete lines without their ends; a line over `limit` bytes is cut there and marked."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            yield _text(pieces, part, size > limit, limit)
            pieces, size = [], 0
        if size <= limit and rest:
            pieces.append(rest)
        size += len(rest)
    if pieces:
        yield _text(pieces, b"", size > limit, limit)


def _text(pieces: list[bytes], last: bytes, over: bool, limit: int) -> str:
    line = b"".join([*pieces, last])
    if over or len(line) > limit:
        return line[:limit].decode(errors="replace") + CUT
    return line.decode(errors="replace").removesuffix("\r")


def parse_event(line: str) -> tuple[str, dict[str, Any]] | None:
    """Return kind and data of the node program's line; None for other output."""
    if not line.startswith("{"):
        return None
    try:
        data = json.loads(line)
        data = _printable(data) if "\\u" in line else data
    except (ValueError, RecursionError):
        return None
    kind = data.pop("event", None)
    if not isinstance(kind, str) or kind not in NODE_EVENTS:
        return None  # nodes must not send "result" and "line"
    return kind, data


def complaint(kind: str, data: dict[str, Any]) -> str | None:
    """Return an event's error about the whole task; failed roles are left to the readers of the events."""
    if kind == "no_root":
        user, reason = str(data.get("user")).strip(), str(data.get("error"))
        remedies = (text for text, words in _SUDO_REMEDIES.items() if any(word in reason for word in words))
        remedy = next((f"; as root there: {text.replace('USER', user)}" for text in remedies), "")
        return f"{user} cannot become root: {reason}{remedy}"
    if kind == "failed" and data.get("role") is None:
        return f"{data.get('name')}: {data.get('error')}"
    return None


def _printable(value: Any) -> Any:
    """Replace half surrogate pairs in a value, which no terminal or file accepts."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


class Tail:
    """The last `limit` characters, roughly, of a text that comes in lines."""

    def __init__(self, limit: int = 64 * 1024) -> None:
        self._lines: deque[str] = deque()
        self._limit = limit
        self._size = 0

    def add(self, line: str) -> None:
        """Append a line; forget the oldest beyond the limit."""
        line = line[-self._limit :]
        self._lines.append(line)
        self._size += len(line) + 1
        while self._size > self._limit and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()) + 1

    def text(self) -> str:
        """Return the remaining output, each line ended."""
        return "".join(f"{line}\n" for line in self._lines)


def last_line(text: str) -> str:
    """Return the last non-empty line, at most 500 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


# The validation of a node's lines.
#
# An answer that is not of its type (`hpcforge.node.answer_types`) is dropped, and the node counts as failed with that
# error.


@dataclass
class AnswerReader:
    """The reader of a node program's lines. `against`: the error that makes it fail regardless of its exit status."""

    changed: bool = False
    answered: bool = False
    against: str | None = None

    def take(self, line: str) -> tuple[str, dict[str, Any]] | None:
        """Return the event of a line; None for any other line, or one with the wrong type."""
        if line.endswith(CUT):
            self._say(cut_off(line))
            return None
        event = parse_event(line)
        if event is None:
            return None
        kind, data = event
        try:
            fits(answer_types.EVENTS[kind])(data)
        except MisfitError as error:
            self._say(f"sent an invalid response ({kind}: {error})")
            return None
        self.changed |= kind == "changed"
        self.answered |= kind in LAST_EVENTS
        if message := complaint(kind, data):
            self._say(message)
        return kind, data

    def error(self, node: str, ended: str | None) -> str | None:
        """Return the reason why the program failed: from its lines, else from how it `ended`."""
        return (
            self.against or ended or (None if self.answered else f"the node program on {node} ended without an answer")
        )

    def _say(self, reason: str) -> None:
        self.against = self.against or reason


def cut_off(line: str) -> str:
    """Return the error about a cut line, for its task or role."""
    return f"a line of more than {MAX_LINE_BYTES >> 20} MiB was cut: {line[:60]!a} ..."
