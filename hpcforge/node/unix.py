"""/etc/passwd, /etc/group and /etc/shadow, and the programs that edit them."""

from __future__ import annotations

import grp
import time
from collections.abc import Sequence

from hpcforge.node import commands
from hpcforge.node.events import LaterError, NodeError

EDIT_BYTES = 128 * 1024  # that an edit may take on the disk: these files with their copies, a home from /etc/skel
_TIMEOUT_S = 60
_TRIES = 10  # while somebody else edits
_AT_WORK = 8  # what usermod(8) ends with where the user has a process


def gid(group: str) -> int | None:
    """Return the number of a group; None where there is none."""
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def edit(argv: Sequence[str]) -> None:
    """Run one of these programs, again where another is at it. NodeError with its words.

    LaterError where usermod does not change a user who is at work.
    """
    for attempt in range(_TRIES):
        outcome = commands.run(argv, _TIMEOUT_S)
        if outcome.rc == 0:
            return
        if (argv[0], outcome.rc) == ("usermod", _AT_WORK):
            raise LaterError(outcome.stderr.strip())
        if "try again later" not in outcome.stderr or attempt == _TRIES - 1:
            raise NodeError(f"{argv[0]} {argv[-1]}: {outcome.stderr.strip() or f'exit status {outcome.rc}'}")
        time.sleep(1)
