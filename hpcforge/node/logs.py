"""The verb logs: lines from the files of a log server, NODE.log for each node.

Lines begin with a time in RFC 3339 form. Rotated files (NODE.log.1, NODE.log.2.gz) are read as long as they may have
new enough lines. The search is for a literal text, not a pattern.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import os
import re
import stat
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO, cast

from hpcforge.node import paths
from hpcforge.node.events import EventReporter, Json, NodeError

if TYPE_CHECKING:
    from hpcforge.node.requests import LogsRequest

_SET_ASIDE = re.compile(r"(?:\.[0-9]{1,4}(?:\.gz)?)?")  # the suffix that logrotate adds; none for the current file
_LINE_LIMIT = 4096  # bytes of a line in the answer; the rest is left out
_READ_LIMIT = 1 << 16  # bytes of a line that are searched
_ANSWER_LIMIT = 4 << 20  # bytes of all lines: an answer has to fit a line of 8 MiB


def logs(request: LogsRequest, report: EventReporter) -> Json:
    """Answer with the last lines of these nodes, in the order of their times."""
    try:
        folder = paths.open_directory(request["folder"])
    except OSError as error:
        raise NodeError(f"{request['folder']}: {error.strerror}") from None
    text = request["text"].encode("utf-8", "surrogateescape")
    count = 0

    def counted(entries: Iterator[tuple[float, str, bytes]]) -> Iterator[tuple[float, str, bytes]]:
        nonlocal count
        for entry in entries:
            count += 1
            yield entry

    try:
        names = os.listdir(folder)  # noqa: PTH208 - an open folder has no path
        entries = (
            (time_s, node, line)
            for node in request["nodes"]
            for time_s, line in _node_lines(folder, names, node, text, request["since_s"])
        )
        newest = heapq.nlargest(max(request["last"], 1), counted(entries))  # keeps only these in memory
    finally:
        os.close(folder)
    shown = _fitting(newest)
    lines = [{"time_s": time_s, "node": node, "line": line.decode("utf-8", "replace")} for time_s, node, line in shown]
    stored = sorted(node for node in request["nodes"] if f"{node}.log" in names)
    report.emit({"event": "logs", "lines": lines, "left_out": count - len(lines), "kept": stored})
    return {}


def _fitting(newest: list[tuple[float, str, bytes]]) -> list[tuple[float, str, bytes]]:
    """Return the newest lines that fit in an answer, the oldest of them first; `newest` has the newest first."""
    room, shown = _ANSWER_LIMIT, list[tuple[float, str, bytes]]()
    for entry in newest:
        room -= len(entry[2]) + len(entry[1]) + 64
        if room < 0:
            break
        shown.append(entry)
    return shown[::-1]


def _node_lines(folder: int, names: list[str], node: str, text: bytes, since_s: float) -> Iterator[tuple[float, bytes]]:
    for name in names:
        if name.startswith(f"{node}.log") and _SET_ASIDE.fullmatch(name.removeprefix(f"{node}.log")):
            yield from _file_lines(folder, name, text, since_s)


def _file_lines(folder: int, name: str, text: bytes, since_s: float) -> Iterator[tuple[float, bytes]]:
    """Yield the lines of a file; none of a link or a missing file, and the readable part of a damaged one."""
    with contextlib.suppress(OSError, EOFError, zlib.error), contextlib.ExitStack() as opened:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        file: BinaryIO = opened.enter_context(os.fdopen(fd, "rb"))
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_mtime < since_s:
            return  # all its lines are older
        if name.endswith(".gz"):
            file = cast(BinaryIO, opened.enter_context(gzip.open(file)))
        while line := file.readline(_READ_LIMIT):  # the rest of a longer line begins with no time, and is skipped
            if text in line:
                time_s = _time_s(line)
                if time_s is not None and time_s >= since_s:
                    yield time_s, line[:_LINE_LIMIT].rstrip(b"\n")


def _time_s(line: bytes) -> float | None:
    """Return the time at the beginning of a line, seconds since 1970."""
    text = line[:40].partition(b" ")[0].decode("ascii", "replace").replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None
