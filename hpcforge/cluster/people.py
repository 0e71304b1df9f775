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
    groups: tuple[str, ...] = ()  # beside her own
    shell: str = "bash"  # its name
    expires: str = ""  # the day from which on nobody logs in to it, year-month-day; "": never
    homes: str = "/home"  # where her home is: here on each node's own disk, else where nodes share them

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
