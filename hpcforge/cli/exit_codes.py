"""What the exit status says. If several apply, the first of `WORST_FIRST` is given."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """The exit-code table of the documentation."""

    DONE = 0
    ERROR = 1
    PENDING = 2
    INVALID = 3
    UNREACHABLE = 4
    FAILED = 5
    BUSY = 6
    BELOW = 7
    INTERRUPTED = 130


WORST_FIRST = (
    Exit.INTERRUPTED,
    Exit.BUSY,
    Exit.INVALID,
    Exit.ERROR,
    Exit.FAILED,
    Exit.UNREACHABLE,
    Exit.BELOW,
    Exit.PENDING,
)


def worst(codes: Iterable[Exit]) -> Exit:
    """The one to exit with."""
    given = set(codes)
    return next((code for code in WORST_FIRST if code in given), Exit.DONE)
