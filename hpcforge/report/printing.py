"""The one way to standard output and standard error: nothing that is printed steers a terminal, or cannot be written.

Texts of nodes, of Slurm, of files and of other people's systems are in most of what hpcforge says. Each is folded into
one line where it is put into a text of ours (`hpcforge.report.text.one_line`); here the rest is made harmless. What
draws on a terminal (`hpcforge.report.progress`) cleans what it is given and writes for itself.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import TextIO

from hpcforge.report.text import clean


def result(text: str) -> None:
    """What was asked for: to standard output."""
    _write(sys.stdout, text)


def line(text: str) -> None:
    """A line for a program that reads along: it is out at once."""
    result(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """What is for people: to standard error."""
    _write(sys.stderr, text)


def fault(error: BaseException) -> None:
    """An error that nobody expected, in full: its text may hold anything that came from outside."""
    note("".join(traceback.format_exception(error)))


def flush() -> None:
    """Everything so far is out, before another program writes to the same place."""
    sys.stdout.flush()


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def nobody_reads() -> None:
    """Standard output was closed by who read it: nothing more is said, not even at exit."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.close()


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(clean(text).encode(encoding, "backslashreplace").decode(encoding))
