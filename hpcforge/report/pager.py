"""Results that are longer than the terminal, through a pager: HPCFORGE_PAGER, else PAGER, else `less -FRX`.

As git does: only where a person reads along on a terminal. A pager that does not work is no error, and neither is a
reader who leaves it early.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from unicodedata import east_asian_width

_LESS = "FRX"  # leave at once what fits, show colours, keep the text on the screen; git's own choice
_NAMES = ("HPCFORGE_PAGER", "PAGER")
_SIGNALLED = 128  # and above: how a shell reports a program that a signal ended


def pager(environment: Mapping[str, str]) -> str | None:
    """Return the command of the pager, for a shell; None for none: "", "cat", or a terminal without a cursor."""
    chosen = next((environment[name].strip() for name in _NAMES if name in environment), "less")
    if chosen in ("", "cat") or environment.get("TERM", "") in ("", "dumb", "unknown"):
        return None
    return chosen if chosen != "less" or shutil.which("less") else None


def lines_on(text: str, columns: int) -> int:
    """Return how many lines of a terminal a text takes, without its colours."""
    return sum(max(1, -(-_wide(line) // columns)) for line in text.splitlines())


def _wide(line: str) -> int:
    return len(line) if line.isascii() else sum(1 + (east_asian_width(letter) in "WF") for letter in line)


def show(text: str, command: str) -> bool:
    """Show a text in a pager until its reader leaves; False if the pager does not work, and the text is not shown."""
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
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
