"""Who is in which Unix group, beside the group that is an account's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, LocalName, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Membership(Resource):
    """An account is in a group, which others may be in as well."""

    kind: ClassVar[str] = "memberships"
    apply_verb: ClassVar[str] = "member"

    name: Annotated[str, "ACCOUNT:GROUP.", LocalName.ACCOUNT]

    def line(self, actual: ActualState) -> str:  # noqa: ARG002
        """In words."""
        account, _, group = self.name.partition(":")
        return f"+ {account} in group {group}"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """In words."""
        account, _, group = name.partition(":")
        return f"{account} removed from group {group}, unless it was a member before hpcforge"


class MembershipState(ResourceState):
    """A membership that is not there."""

    name: Word
    exists: bool


RESOURCE, FOUND = Membership, MembershipState
