"""Members of Unix groups, in addition to accounts' own groups."""

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
        """Return its line in a plan."""
        account, _, group = self.name.partition(":")
        return f"+ {account} in group {group}"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal."""
        account, _, group = name.partition(":")
        return f"{account} removed from group {group}, unless it was a member before hpcforge"


class MembershipState(ResourceState):
    """A missing membership."""

    name: Word
    exists: bool


RESOURCE, FOUND = Membership, MembershipState
