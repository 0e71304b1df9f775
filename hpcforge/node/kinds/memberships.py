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


def compare(membership: Membership) -> Json | None:
    """Return its state, if the account is not a member."""
    return None if _is_member(membership.name) else {"name": membership.name, "exists": False}


def obstacle(membership: Membership, record: bool | None) -> str | None:  # noqa: ARG001
    """Return the obstacle: an invalid name. Account and group may come later, with packages."""
    return None if _NAME.fullmatch(membership.name) else f"{membership.name!r} is not of the form ACCOUNT:GROUP"


def put(membership: Membership) -> str | None:
    """Put the account into the group."""
    account, group = _parts(membership.name)
    if _is_member(membership.name):
        return None
    for kind, name, number in (("account", account, _account(account)), ("group", group, unix.gid(group))):
        if number is None:
            raise NodeError(f"this node has no {kind} {name!r}; a role or package must create it")
    unix.edit(["gpasswd", "--add", account, group])
    return "added"


def own(name: str, change: Membership | None, made: set[str]) -> bool:  # noqa: ARG001
    """Return whether hpcforge adds it."""
    return not _is_member(name)


def restore(name: str, record: bool, report: EventReporter) -> str | None:  # noqa: ARG001
    """Remove the account from the group, if hpcforge added it."""
    if not record or not _is_member(name):
        return None
    account, group = _parts(name)
    unix.edit(["gpasswd", "--delete", account, group])
    return "removed"


def room(membership: Membership) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space for /etc/group and gshadow with their copies."""
    return [SpaceNeed("/etc", unix.EDIT_BYTES, 4)]


def _is_member(name: str) -> bool:
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
