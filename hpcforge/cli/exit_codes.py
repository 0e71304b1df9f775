"""Exit codes and their meanings: `--help` and README.md repeat this table. `WORST_FIRST` ranks several codes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from hpcforge.errors import Kind


class Exit(IntEnum):
    """All exit codes; `MEANING` has the words."""

    DONE = 0
    ERROR = 1
    PENDING = 2
    INVALID = 3
    UNREACHABLE = 4
    FAILED = 5
    BUSY = 6
    BELOW = 7
    INTERRUPTED = 130


MEANING = {
    Exit.DONE: "success, or nothing to do",
    Exit.ERROR: "error",
    Exit.PENDING: "changes are pending or deferred",
    Exit.INVALID: "invalid blueprint, inventory, role or command line",
    Exit.UNREACHABLE: "some nodes are unreachable",
    Exit.FAILED: "some nodes failed, take no job, or were skipped because of a conflict",
    Exit.BUSY: "another run is active",
    Exit.BELOW: "a test failed, or a worker takes no job or has less than declared",
    Exit.INTERRUPTED: "interrupted",
}

OF_ERRORS: dict[Kind, Exit] = {"error": Exit.ERROR, "invalid": Exit.INVALID, "busy": Exit.BUSY}

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
    present = set(codes)
    return next((code for code in WORST_FIRST if code in present), Exit.DONE)
