"""Users and groups of this node, by name and by number."""

from __future__ import annotations

import grp
import pwd

from hpcforge.node.events import NodeError


def user_id(name: str) -> int:
    """Number of a user by name; NodeError where there is none."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise NodeError(f"there is no user {name!r} on this node: is its package installed?") from None


def group_id(name: str) -> int:
    """Number of a group by name; NodeError where there is none."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise NodeError(f"there is no group {name!r} on this node: is its package installed?") from None


def user_name(uid: int) -> str:
    """Name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Name of a group, or its number where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
