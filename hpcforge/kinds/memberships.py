"""Who is in which Unix group, beside the group that is an account's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import Named, Resource, Said, Told
from hpcforge.wire import Word


@dataclass(frozen=True)
class Membership(Resource):
    """An account is in a group, which others may be in as well."""

    kind: ClassVar[str] = "memberships"
    does: ClassVar[str] = "member"

    name: Annotated[str, "ACCOUNT:GROUP.", Named.ACCOUNT]

    def line(self, found: Said) -> str:  # noqa: ARG002
        """In words."""
        account, _, group = self.name.partition(":")
        return f"+ {account} in group {group}"

    @classmethod
    def farewell(cls, name: str) -> str | None:
        """In words."""
        account, _, group = name.partition(":")
        return f"{account} removed from group {group}, unless it was a member before hpcforge"


class Found(Told):
    """A membership that is not there."""

    name: Word
    exists: bool


RESOURCE, FOUND = Membership, Found
