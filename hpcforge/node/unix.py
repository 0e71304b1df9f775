"""/etc/passwd, /etc/group and /etc/shadow, and the programs that edit them."""

from __future__ import annotations

import grp
import time
from collections.abc import Sequence

from hpcforge.node import commands
from hpcforge.node.events import LaterError, NodeError

EDIT_BYTES = 128 * 1024  # disk space of an edit: these files with their copies, a home from /etc/skel
_TIMEOUT_S = 60
_TRIES = 10  # while another program edits
_AT_WORK = 8  # usermod(8)'s exit status if the user has a process


def gid(group: str) -> int | None:
    """Return the number of a group; None without such a group."""
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def edit(argv: Sequence[str]) -> None:
    """Run one of these programs, again while another one edits. NodeError with its message.

    LaterError if usermod cannot change a user with running processes.
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
