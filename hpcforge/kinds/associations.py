"""QOS, accounts and their users in Slurm's accounting database, with sacctmgr(1)'s names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from hpcforge.kinds.resource import ActualState, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Association(Resource):
    """A QOS, an account or a user in one, with all its limits, where Slurm's sacctmgr runs."""

    kind: ClassVar[str] = "associations"
    apply_verb: ClassVar[str] = "sets in the accounting database"

    name: Annotated[str, "`qos high`, `account vision` or `user ada account=vision`."]
    settings: Annotated[str, "As sacctmgr takes them: `fairshare=10 maxjobs=4`; the rest is as usual."] = ""

    def line(self, actual: ActualState) -> str:
        """Return the line with the differences, or with the reason why they are unknown."""
        if actual.get("unknown"):
            return f"? {self.name}: its state is unknown: {actual['unknown']}"
        if not actual["exists"]:
            return f"+ {self.name} {self.settings}".rstrip()
        return f"~ {self.name} {actual.get('wanted')}  ({actual.get('found')} in the database)"

    def drifted(self, actual: ActualState) -> bool:
        """Return whether another program changed or removed it; False if that is unknown."""
        return not actual.get("unknown") and super().drifted(actual)

    @classmethod
    def removal_line(cls, name: str) -> str | None:
        """Return the line on its removal: its jobs stay in sacct."""
        return f"{name}; its jobs stay in sacct" if not name.startswith("qos ") else name


class AssociationState(ResourceState):
    """An association that is not as desired: its differing settings, present and desired; `unknown`: why they are."""

    name: Word
    exists: bool
    found: Optional[str]
    wanted: Optional[str]
    unknown: Optional[str]


RESOURCE, FOUND = Association, AssociationState
