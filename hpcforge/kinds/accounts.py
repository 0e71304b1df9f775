"""Unix accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, TypedDict

from hpcforge.kinds.resource import ActualState, LocalName, Resource
from hpcforge.wire_types import Path, Word


@dataclass(frozen=True)
class Account(Resource):
    """A Unix account with a primary group of the same name and number."""

    kind: ClassVar[str] = "accounts"
    apply_verb: ClassVar[str] = "account"
    remove_verb: ClassVar[str] = "locks"

    name: Annotated[str, "Its name, and that of its group."]
    uid: Annotated[int, "Its number, and that of its group."]
    home: Annotated[str, "Its home directory."]
    shell: Annotated[str, "What it logs in to.", LocalName.PATH] = "/bin/bash"
    expires: Annotated[str, "The day from which the account is locked, year-month-day; empty: never."] = ""
    make_home: Annotated[bool, "Whether to create a missing home; false: another node does."] = True
    mount: Annotated[
        str,
        "What has to be mounted before the home of an account that is there becomes this one; empty: nothing.",
        LocalName.PATH,
    ] = ""

    def line(self, actual: ActualState) -> str:
        """Return the line with its number, and with changes of its home and its expiry."""
        was, desired = actual.get("expires"), self.expires
        until = f"; expires {desired or 'never'}" if desired or was else ""
        until += f", now {was}" if was and was != desired else ""
        return f"~ account {self.name} (uid {self.uid}{until}{self._moves(actual)})"

    def _moves(self, actual: ActualState) -> str:
        home = actual.get("home", self.home)
        if not actual["exists"] or home == self.home:
            return ""
        return f"; home {home} -> {self.home}" if home else f"; {self.home} is made"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: it is locked, and neither it nor its home is deleted."""
        return f"account {name}: lock; its home stays"


class AccountState(TypedDict):
    """An account that is not as desired."""

    name: Word
    exists: bool
    uid: int | None
    gid: int | None
    home: Path | None  # None: there is none
    shell: Path | None
    expires: Word | None  # a day, or "locked"; None: never


RESOURCE, FOUND = Account, AccountState
