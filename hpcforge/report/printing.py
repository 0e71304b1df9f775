"""The one way to standard output and standard error: nothing that is printed steers a terminal, or cannot be written.

Texts of nodes, of Slurm, of files and of other people's systems are in most of what hpcforge says. Each is folded into
one line where it is put into a text of ours (`hpcforge.report.text.one_line`); here the rest is made harmless. What
draws on a terminal (`hpcforge.report.progress`) cleans what it is given and writes for itself.

Texts bring the styles of their parts (`hpcforge.styles`); colours come last, and only on a terminal that has them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from hpcforge.report.text import clean
from hpcforge.styles import each_part, painted

_LESS = "FRX"  # leave at once what fits, show colours, keep the text on the screen; git's own choice
_PAGERS = ("HPCFORGE_PAGER", "PAGER")
_SIGNALLED = 128  # and above: how a shell reports a program that a signal ended
_LEAST_COLUMNS = 60  # what is narrower gets lines that it has to break itself
_held: ContextVar[list[tuple[TextIO, str, str]] | None] = ContextVar("held", default=None)  # stream, plain, in colours


def result(text: str) -> None:
    """Print a result to standard output; on a terminal, in colours."""
    _write(sys.stdout, text)


def line(text: str) -> None:
    """Print a line for a program that reads along: it is flushed at once."""
    result(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a note for people to standard error; on a terminal, in colours."""
    _write(sys.stderr, text)


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
    """Hold results on a terminal until the block ends: those that are longer than it go through a pager, as git does.

    Notes that follow a result keep their place after it. After an error all is printed as it stands.
    """
    command = pager_command(os.environ) if on_terminal() else None
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
    held = _held.get() or []
    size = os.get_terminal_size(sys.stdout.fileno())
    plain = "".join(text for stream, text, _ in held if stream is sys.stdout)
    if not size.lines or not size.columns or lines_on(plain, size.columns) < size.lines:
        return
    sys.stdout.flush()
    if _show("".join(text for stream, _, text in held if stream is sys.stdout), command):
        held[:] = [entry for entry in held if entry[0] is not sys.stdout]


def pager_command(environment: Mapping[str, str]) -> str | None:
    """Return the command of the pager, for a shell; None for none: "", "cat", or a terminal without a cursor."""
    import shutil  # noqa: PLC0415 - seldom of use

    chosen = next((environment[name].strip() for name in _PAGERS if name in environment), "less")
    if chosen in ("", "cat") or environment.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    return chosen if chosen != "less" or shutil.which("less") else None


def lines_on(text: str, columns: int) -> int:
    """Return how many lines of a terminal a text takes, without its colours."""
    return sum(max(1, -(-_wide(line) // columns)) for line in text.splitlines())


def _wide(line: str) -> int:
    from unicodedata import east_asian_width  # noqa: PLC0415

    return len(line) if line.isascii() else sum(1 + (east_asian_width(letter) in "WF") for letter in line)


def _show(text: str, command: str) -> bool:
    """Show a text in a pager until its reader leaves; False if the pager does not work, and the text is not shown."""
    import subprocess  # noqa: PLC0415

    environment = {"LESS": _LESS, "LV": "-c", **os.environ}
    try:
        child = subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    with _interrupts_are_for_the_pager(), contextlib.suppress(BrokenPipeError):
        child.communicate(text.encode(errors="backslashreplace"))  # its reader may leave before the end
    ended = child.wait()
    return ended <= 0 or ended >= _SIGNALLED


@contextlib.contextmanager
def _interrupts_are_for_the_pager() -> Iterator[None]:
    """Ctrl-C goes to a whole terminal: a pager stops a search with it, and must not lose its writer."""
    import signal  # noqa: PLC0415

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    width = os.get_terminal_size(sys.stdout.fileno()).columns
    return max(width, _LEAST_COLUMNS) if width else None


def nobody_reads() -> None:
    """Handle a closed standard output: print nothing more, not even at exit."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.close()


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    shown = each_part(lambda part: clean(part).encode(encoding, "backslashreplace").decode(encoding), text)
    in_colours = painted(shown) if _has_colours(stream) else str(shown)
    held = _held.get()
    if held is not None and (held or stream is sys.stdout):
        held.append((stream, str(shown), in_colours))
        return
    stream.write(in_colours)


def _has_colours(stream: TextIO) -> bool:
    """Whether somebody looks at it who wants colours: no-color.org, and a terminal that says what it is."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in ("", "dumb", "unknown")
    return not plain and stream.isatty()
