"""Unix groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hpcforge.kinds.resource import ActualState, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Group(Resource):
    """A Unix group with this number; who is in it is said by `memberships`. An account has its own anyway."""

    kind: ClassVar[str] = "groups"
    apply_verb: ClassVar[str] = "group"

    name: Annotated[str, "Its name."]
    gid: Annotated[int, "Its number."]

    def line(self, actual: ActualState) -> str:
        """Return the line with its number."""
        return f"{'~' if actual['exists'] else '+'} group {self.name} (gid {self.gid})"

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: a group with members stays."""
        return f"group {name}: removed, unless it has members"


class GroupState(ResourceState):
    """A group that is not as desired."""

    name: Word
    exists: bool
    gid: int | None


RESOURCE, FOUND = Group, GroupState
