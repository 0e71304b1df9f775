"""The one way to standard output and standard error: nothing that is printed steers a terminal, or cannot be written.

Texts of nodes, of Slurm, of files and of other people's systems are in most of what hpcforge says. Each is folded into
one line where it is put into a text of ours (`hpcforge.report.text.one_line`); here the rest is made harmless. What
draws on a terminal (`hpcforge.report.progress`) cleans what it is given and writes for itself.

Colours come last, by what kind of text it is (`hpcforge.report.colour`), and only on a terminal that has them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hpcforge.report.text import clean

if TYPE_CHECKING:
    from hpcforge.report.colour import Kind

_LEAST_COLUMNS = 60  # what is narrower gets lines that it has to break itself
_held: ContextVar[list[tuple[TextIO, str, str]] | None] = ContextVar("held", default=None)  # stream, plain, in colours


def result(text: str, kind: Kind | None = None) -> None:
    """Print a result to standard output. With a `kind`: in colours, on a terminal."""
    _write(sys.stdout, text, kind)


def line(text: str) -> None:
    """Print a line for a program that reads along: it is flushed at once."""
    result(text)
    sys.stdout.flush()


def note(text: str, kind: Kind | None = None) -> None:
    """Print a note for people to standard error. With a `kind`: in colours, on a terminal."""
    _write(sys.stderr, text, kind)


def page(path: Path, text: str) -> None:
    """Replace a file as a whole, and name it. Raises `OSError`, also where its folder is missing."""
    from hpcforge.atomic import rewrite  # noqa: PLC0415 - --help prints, and writes nothing

    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    rewrite(path, text)
    note(f"written: {path}\n")


def fault(error: BaseException) -> None:
    """Print an unexpected error in full; its text may contain anything from outside."""
    note("".join(traceback.format_exception(error)))


def flush() -> None:
    """Everything so far is out, before another program writes to the same place."""
    _release()
    sys.stdout.flush()


@contextlib.contextmanager
def paged() -> Iterator[None]:
    """Hold results on a terminal until the block ends: those that are longer than it go through a pager.

    Notes that follow a result keep their place after it. After an error all is printed as it stands.
    """
    from hpcforge.report.pager import pager  # noqa: PLC0415 - seldom of use

    command = pager(os.environ) if on_terminal() else None
    if command is None:
        yield
        return
    token = _held.set([])
    try:
        yield
        _page(command)
    finally:
        _release()
        _held.reset(token)


def _page(command: str) -> None:
    """Show the results that are held in a pager, if they are longer than the terminal; notes stay held."""
    from hpcforge.report.pager import lines_on, show  # noqa: PLC0415 - seldom of use

    held = _held.get() or []
    size = os.get_terminal_size(sys.stdout.fileno())
    plain = "".join(text for stream, text, _ in held if stream is sys.stdout)
    if not size.lines or not size.columns or lines_on(plain, size.columns) < size.lines:
        return
    sys.stdout.flush()
    if show("".join(text for stream, _, text in held if stream is sys.stdout), command):
        held[:] = [each for each in held if each[0] is not sys.stdout]


def _release() -> None:
    """Write what is held, in its order."""
    held = _held.get()
    while held:
        stream, _, text = held.pop(0)
        stream.write(text)
        stream.flush()


def on_terminal() -> bool:
    """Whether results go to a terminal."""
    return sys.stdout.isatty()


def columns() -> int | None:
    """How wide results may be: as their terminal is; None in a pipe or file, where a row stays a line."""
    if not on_terminal():
        return None
    found = os.get_terminal_size(sys.stdout.fileno()).columns
    return max(found, _LEAST_COLUMNS) if found else None


def nobody_reads() -> None:
    """Handle a closed standard output: print nothing more, not even at exit."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.close()


def _write(stream: TextIO, text: str, kind: Kind | None = None) -> None:
    encoding = stream.encoding or "utf-8"
    plain = text = clean(text).encode(encoding, "backslashreplace").decode(encoding)
    if kind is not None and _has_colours(stream):
        from hpcforge.report.colour import painted  # noqa: PLC0415 - of no use anywhere else

        text = painted(text, kind)
    held = _held.get()
    if held is not None and (held or stream is sys.stdout):
        held.append((stream, plain, text))
        return
    stream.write(text)


def _has_colours(stream: TextIO) -> bool:
    """Whether somebody looks at it who wants colours: no-color.org, and a terminal that says what it is."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return not plain and stream.isatty()
