"""Users and groups of this node, by name and by number."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpcforge.node import commands
from hpcforge.node.events import NodeError

if TYPE_CHECKING:
    from hpcforge.node import answer_types

_MOST = 2000  # accounts of a node
_FIRST = 100  # numbers below are Debian's own, the same everywhere (base-passwd)
_OWNERS = 500  # entries of a shared folder whose owners are read
_OWNERS_S = 5  # limit for a server that does not answer
_LIST_OWNERS = (
    'find "$1" -mindepth 1 -maxdepth 1 -printf "%u %U %g %G\\n" 2>/dev/null | head -n "$2" | sort -u'  # names, numbers
)


def user_id(name: str) -> int:
    """Return the number of a user by name; NodeError without such a user."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise NodeError(f"user {name!r} does not exist on this node: is its package installed?") from None


def group_id(name: str) -> int:
    """Return the number of a group by name; NodeError without such a group."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise NodeError(f"group {name!r} does not exist on this node: is its package installed?") from None


def user_name(uid: int) -> str:
    """Return the name of a user, or the number if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group, or the number if it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def accounts(folders: Sequence[str]) -> answer_types.AccountsAnswer:
    """Return the numbers of local users and groups, and of the owners of entries directly in these folders."""
    owners: list[list[str]] = []
    for folder in folders:
        result = commands.run(["sh", "-c", _LIST_OWNERS, "sh", folder, str(_OWNERS)], _OWNERS_S)
        owners += [words for words in map(str.split, result.stdout.splitlines()) if len(words) == 4]
    return {
        "users": _local("/etc/passwd"),
        "groups": _local("/etc/group"),
        "owner_users": {words[0]: int(words[1]) for words in owners},
        "owner_groups": {words[2]: int(words[3]) for words in owners},
    }


def _local(path: str) -> dict[str, int]:
    """Return the numbers in /etc/passwd or /etc/group by name, regardless of a directory service."""
    lines = Path(path).read_text("utf-8", "replace").splitlines()
    entries = [line.split(":") for line in lines]
    numbers = [(entry[0], int(entry[2])) for entry in entries if len(entry) > 3 and entry[2].isdecimal()]
    return dict([(name, number) for name, number in numbers if name and number >= _FIRST][:_MOST])
