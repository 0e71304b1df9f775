"""Unix groups. hpcforge never renumbers one. The receipt records whether hpcforge made it."""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING

from hpcforge.node import unix
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.groups import Group


def compare(group: Group) -> Json | None:
    """Return the present number, if it is not as desired."""
    gid = unix.gid(group.name)
    if gid == group.gid:
        return None
    return {"name": group.name, "exists": gid is not None, "gid": gid}


def obstacle(group: Group, record: bool | None) -> str | None:  # noqa: ARG001
    """Return the conflict over its name or its number."""
    name, number = group.name, group.gid
    gid = unix.gid(name)
    if gid is not None and gid != number:
        return (
            f"group {name!r} has gid {gid} on this node, not {number}; a new number would change the group of its "
            "files, so renumber it by hand or change the blueprint"
        )
    try:
        owner = grp.getgrgid(number).gr_name
    except KeyError:
        return None
    if owner == name:
        return None
    return (
        f"gid {number} for {name!r} belongs to {owner!r} on this node; renumber {owner!r} by hand or choose another "
        "number in the blueprint"
    )


def put(group: Group) -> str | None:
    """Create it if it is missing."""
    if compare(group) is None:
        return None
    unix.edit(["groupadd", "--gid", str(group.gid), "--", group.name])
    return "created"


def own(name: str, change: Group | None, made: set[str]) -> bool:  # noqa: ARG001
    """Return whether hpcforge makes it."""
    return unix.gid(name) is None


def restore(name: str, record: bool, report: EventReporter) -> str | None:
    """Delete it if hpcforge made it, it has no members and it is no user's primary group."""
    if not record or not is_there(name):
        return None
    inside = _inside(name)
    if inside:
        report.warning(f"group {name} stays: {', '.join(inside)}; to delete it: groupdel {name}")
        return None
    unix.edit(["groupdel", "--", name])
    return "removed"


def is_there(name: str) -> bool:
    """Return whether the group exists."""
    return unix.gid(name) is not None


def stays(name: str, record: bool) -> tuple[str, str, str] | None:
    """Return a group that hpcforge did not make, or that has members."""
    inside = _inside(name)
    if not record:
        return "group", name, "it existed before hpcforge"
    return ("group", name, f"{', '.join(inside)} may still be in it") if inside else None


def _inside(name: str) -> list[str]:
    """Return its members, and the users with it as primary group."""
    gid = unix.gid(name)
    if gid is None:
        return []
    return [*grp.getgrnam(name).gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == gid)]


def room(group: Group) -> list[SpaceNeed]:  # noqa: ARG001
    """Return the space for /etc/group and gshadow with their copies."""
    return [SpaceNeed("/etc", unix.EDIT_BYTES, 4)]
