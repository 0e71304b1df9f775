"""Members of Unix groups. The receipt has whether hpcforge put the account there."""

from __future__ import annotations

import grp
import pwd
import re
from typing import TYPE_CHECKING

from hpcforge.node import unix
from hpcforge.node.events import EventReporter, Json, NodeError
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.memberships import Membership

_NAME = re.compile(r"([a-zA-Z0-9_][\w.@-]*):([a-zA-Z0-9_][\w.@-]*)")


def compare(wanted: Membership) -> Json | None:
    """Whether it is there."""
    return None if _is_there(wanted.name) else {"name": wanted.name, "exists": False}


def obstacle(wanted: Membership, known: bool | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. Account and group may come later, with packages."""
    return None if _NAME.fullmatch(wanted.name) else f"{wanted.name!r} is not of the form ACCOUNT:GROUP"


def put(wanted: Membership) -> str | None:
    """Put the account into the group."""
    account, group = _parts(wanted.name)
    if _is_there(wanted.name):
        return None
    for what, name, there in (("account", account, _account(account)), ("group", group, unix.gid(group))):
        if there is None:
            raise NodeError(f"this node has no {what} {name!r}; a role or package must create it")
    unix.edit(["gpasswd", "--add", account, group])
    return "added"


def own(name: str, change: Membership | None, made: set[str]) -> bool:  # noqa: ARG001
    """Whether we are to put it there."""
    return not _is_there(name)


def restore(name: str, known: bool, report: EventReporter) -> str | None:  # noqa: ARG001
    """Out of it, where we put it there."""
    if not known or not _is_there(name):
        return None
    account, group = _parts(name)
    unix.edit(["gpasswd", "--delete", account, group])
    return "removed"


def room(wanted: Membership) -> list[SpaceNeed]:  # noqa: ARG001
    """/etc/group and gshadow with their copies."""
    return [SpaceNeed("/etc", unix.EDIT_BYTES, 4)]


def _is_there(name: str) -> bool:
    account, group = _parts(name)
    try:
        return account in grp.getgrnam(group).gr_mem
    except KeyError:
        return False


def _account(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _parts(name: str) -> tuple[str, str]:
    account, _, group = name.partition(":")
    return account, group
