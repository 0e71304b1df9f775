"""Commands that give accounts and groups the numbers of the blueprint, and free numbers to others that have them.

They are printed for an administrator; hpcforge renumbers nothing by itself. The commands of an answer must run in its
order: each relies on the earlier ones. Only entries of /etc/passwd and /etc/group can be renumbered on a node.
"""

from __future__ import annotations

import grp
import pwd
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from hpcforge.node.verbs import of_kind

if TYPE_CHECKING:
    from hpcforge.node import answer_types
    from hpcforge.node.requests import DesiredRoleRequest

_PEOPLE = range(1000, 60_000)  # FIRST_UID and LAST_UID of adduser.conf(5)
_SYSTEM = range(999, 99, -1)  # adduser(8) tries them in this order


class _User(NamedTuple):
    uid: int
    gid: int
    home: str


class Numbers:
    """The numbers of a node's own accounts and groups, after the commands that were returned."""

    def __init__(self, roles: Sequence[DesiredRoleRequest], etc: Path = Path("/etc")) -> None:
        passwd, group = _fields(etc / "passwd", 7), _fields(etc / "group", 4)
        self._users = {name: _User(int(uid), int(gid), home) for name, _, uid, gid, _, home, _ in passwd}
        self._groups = {name: int(gid) for name, _, gid, _ in group}
        self._reserved = {number for role in roles for _, _, number in _desired(role)}

    def is_fixed(self, number: int) -> bool:
        """Return whether a number is Debian's own, or has a name from another source, such as a directory service."""
        if number <= _SYSTEM.stop:  # numbers up to 99 are the same on all hosts: base-passwd
            return True
        for names, read, name in ((self._users, pwd.getpwuid, "pw_name"), (self._groups, grp.getgrgid, "gr_name")):
            try:
                if getattr(read(number), name) not in names:
                    return True
            except KeyError:
                pass
        return False

    def account(self, name: str, number: int) -> list[str]:
        """Return the commands that give an account, and the group of its name, this number."""
        commands = self.group(name, number)
        user, word = self._users.get(name), shlex.quote(name)
        commands += self._free_uid(name, number)
        if user is None:
            return commands
        if name not in self._groups:
            commands.append(f"groupadd --gid {number} {word}")
            self._groups[name] = number
        if self._users[name].gid != number:  # groupmod(8) changes it if the group was renumbered
            commands.append(f"usermod --gid {number} {word}")
            self._users[name] = self._users[name]._replace(gid=number)
        return commands + (self._set_uid(name, number) if user.uid != number else [])

    def group(self, name: str, number: int) -> list[str]:
        """Return the commands that give a group this number, and free the number if another group has it."""
        others = [holder for holder, gid in self._groups.items() if gid == number and holder != name]
        commands = [command for holder in others for command in self._move(holder, number)]
        if self._groups.get(name, number) != number:
            commands += self._set_gid(name, number)
        return commands

    def _free_uid(self, name: str, number: int) -> list[str]:
        others = [holder for holder, user in self._users.items() if user.uid == number and holder != name]
        return [command for holder in others for command in self._move(holder, number)]

    def _move(self, name: str, number: int) -> list[str]:
        """Return the commands that give an account and the group of its name another number, if they have this one."""
        free = self._free(number)
        has_uid = name in self._users and self._users[name].uid == number
        commands = self._set_gid(name, free) if self._groups.get(name) == number else []
        return commands + (self._set_uid(name, free) if has_uid else [])

    def _set_uid(self, name: str, number: int) -> list[str]:
        user, word = self._users[name], shlex.quote(name)
        self._users[name] = user._replace(uid=number)
        files = f"find {self._folders(name)} -xdev -uid {user.uid} -exec chown -h {word} {{}} +"
        return [f"usermod --uid {number} {word}", files]

    def _set_gid(self, name: str, number: int) -> list[str]:
        old, word = self._groups[name], shlex.quote(name)
        self._groups[name] = number
        for member, user in self._users.items():
            if user.gid == old:
                self._users[member] = user._replace(gid=number)
        files = f"find {self._folders(name)} -xdev -gid {old} -exec chgrp -h {word} {{}} +"
        return [f"groupmod --gid {number} {word}", files]

    def _folders(self, name: str) -> str:
        """Return the folders to search, as words: a home may be on a separate file system."""
        home = Path(self._users[name].home if name in self._users else "/")
        is_separate = home.is_absolute() and home.is_dir() and not home.samefile("/")
        return f"/ /var {shlex.quote(str(home))}" if is_separate else "/ /var"

    def _free(self, number: int) -> int:
        used = {*(user.uid for user in self._users.values()), *self._groups.values(), *self._reserved}
        people = [*_PEOPLE[max(0, number - _PEOPLE.start) :], *_PEOPLE]
        return next((free for free in (people if number in _PEOPLE else _SYSTEM) if free not in used), _PEOPLE.stop)


def with_commands(
    obstacles: Sequence[answer_types.ObstacleAnswer], roles: Sequence[DesiredRoleRequest], etc: Path = Path("/etc")
) -> Iterator[answer_types.ObstacleAnswer]:
    """Yield obstacles; for accounts and groups with the commands that remove them."""
    numbers = Numbers(roles, etc)
    desired = {(role["role"], kind, name): number for role in roles for kind, name, number in _desired(role)}
    for obstacle in obstacles:
        number = desired.get((obstacle["role"], obstacle["kind"], obstacle["name"]))
        if number is None or numbers.is_fixed(number):
            yield obstacle
            continue
        change = numbers.account if obstacle["kind"] == "account" else numbers.group
        yield cast("answer_types.ObstacleAnswer", {**obstacle, "commands": change(obstacle["name"], number)})


def _desired(role: DesiredRoleRequest) -> Iterator[tuple[str, str, int]]:
    """Yield kind, name and number of each account and group."""
    yield from (("account", item["name"], item["uid"]) for item in of_kind(role, "accounts"))
    yield from (("group", item["name"], item["gid"]) for item in of_kind(role, "groups"))


def _fields(path: Path, count: int) -> list[list[str]]:
    """Return the entries of passwd(5) or group(5), without those that nsswitch adds or that have no numbers."""
    lines = [line.split(":") for line in path.read_text("utf-8", "surrogateescape").splitlines()]
    return [line for line in lines if len(line) == count and line[2].isdigit() and (count < 5 or line[3].isdigit())]
