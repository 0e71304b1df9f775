"""Unix groups. None is ever renumbered. The receipt has whether we made it."""

from __future__ import annotations

import grp
import pwd
from typing import TYPE_CHECKING

from hpcforge.node import unix
from hpcforge.node.events import EventReporter, Json
from hpcforge.node.kinds import SpaceNeed

if TYPE_CHECKING:
    from hpcforge.kinds.groups import Group


def compare(wanted: Group) -> Json | None:
    """Its number."""
    gid = unix.gid(wanted.name)
    if gid == wanted.gid:
        return None
    return {"name": wanted.name, "exists": gid is not None, "gid": gid}


def obstacle(wanted: Group, known: bool | None) -> str | None:  # noqa: ARG001
    """Its name or number is somebody else's."""
    name, number = wanted.name, wanted.gid
    gid = unix.gid(name)
    if gid is not None and gid != number:
        return (
            f"group {name!r} has gid {gid} on this node, not {number}; a new number would change the group of its "
            "files, so renumber it by hand or change the blueprint"
        )
    try:
        other = grp.getgrgid(number).gr_name
    except KeyError:
        return None
    if other == name:
        return None
    return (
        f"gid {number} for {name!r} belongs to {other!r} on this node; renumber {other!r} by hand or choose another "
        "number in the blueprint"
    )


def put(wanted: Group) -> str | None:
    """Make it, where it is not there."""
    if compare(wanted) is None:
        return None
    unix.edit(["groupadd", "--gid", str(wanted.gid), "--", wanted.name])
    return "created"


def own(name: str, change: Group | None, made: set[str]) -> bool:  # noqa: ARG001
    """Whether we are to make it."""
    return unix.gid(name) is None


def restore(name: str, known: bool, report: EventReporter) -> str | None:
    """Without it, where we made it and nobody is in it or has it as their own."""
    if not known or not is_there(name):
        return None
    inside = _inside(name)
    if inside:
        report.warning(f"group {name} stays: {', '.join(inside)}; to delete it: groupdel {name}")
        return None
    unix.edit(["groupdel", "--", name])
    return "removed"


def is_there(name: str) -> bool:
    """Whether there is such a group."""
    return unix.gid(name) is not None


def stays(name: str, known: bool) -> tuple[str, str, str] | None:
    """One that we did not make, or that somebody is in."""
    inside = _inside(name)
    if not known:
        return "group", name, "it existed before hpcforge"
    return ("group", name, f"{', '.join(inside)} may still be in it") if inside else None


def _inside(name: str) -> list[str]:
    """Who is in it, or has it as their own."""
    gid = unix.gid(name)
    if gid is None:
        return []
    return [*grp.getgrnam(name).gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == gid)]


def room(wanted: Group) -> list[SpaceNeed]:  # noqa: ARG001
    """/etc/group and gshadow with their copies."""
    return [SpaceNeed("/etc", unix.EDIT_BYTES, 4)]
