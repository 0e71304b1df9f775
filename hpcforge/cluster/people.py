"""The people of a cluster: users and the groups that they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class User:
    """A person or service account, the same on every node."""

    name: str
    uid: int
    admin: bool
    keys: tuple[str, ...]  # OpenSSH public key lines
    groups: tuple[str, ...] = ()  # groups besides the user's own
    shell: str = "bash"  # name of the shell
    expires: str = ""  # the first day without logins, year-month-day; "": never
    homes: str = "/home"  # folder of homes: /home on each node's own disk, else a shared folder

    @property
    def home(self) -> str:
        """Home directory."""
        return f"{self.homes}/{self.name}"


def number_of(users: Iterable[User], name: str) -> int | None:
    """Return the number of a user; None where the blueprint has no such user."""
    return next((user.uid for user in users if user.name == name), None)


@dataclass(frozen=True)
class UserGroup:
    """A group that users share, the same on every node."""

    name: str
    gid: int
