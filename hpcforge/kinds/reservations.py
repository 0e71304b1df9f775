"""Slurm's reservations of nodes, with scontrol(1)'s names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Optional

from hpcforge.kinds.resource import ActualState, Resource, ResourceState
from hpcforge.wire_types import Word


@dataclass(frozen=True)
class Reservation(Resource):
    """A reservation, where Slurm's controller runs; one that is over is looked at no more."""

    kind: ClassVar[str] = "reservations"
    apply_verb: ClassVar[str] = "reserves nodes in Slurm"

    name: Annotated[str, "Its name."]
    nodes: Annotated[str, "Which nodes, as a hostlist."]
    start: Annotated[str, "When it begins, `2027-03-01T08:00:00` by the node's own clock."]
    minutes: Annotated[int, "How long it lasts."]
    users: Annotated[str, "Whose jobs may run there, with commas."] = ""
    accounts: Annotated[str, "Under which accounts, with commas."] = ""
    flags: Annotated[str, "`maint` and `ignore_jobs`, with commas."] = ""

    def line(self, actual: ActualState) -> str:
        """Return the line with the differences, or with the reason why they are unknown."""
        if actual.get("unknown"):
            return f"? reservation {self.name}: its state is unknown: {actual['unknown']}"
        if actual["exists"]:
            return f"~ reservation {self.name} {actual.get('wanted')}  ({actual.get('found')} in Slurm)"
        options = {"users": self.users, "accounts": self.accounts, "flags": self.flags}
        rest = "".join(f" {key}={value}" for key, value in options.items() if value)
        return f"+ reservation {self.name} nodes={self.nodes} start={self.start} minutes={self.minutes}{rest}"

    def drifted(self, actual: ActualState) -> bool:
        """Return whether another program changed or removed it; False if that is unknown."""
        return not actual.get("unknown") and super().drifted(actual)


class ReservationState(ResourceState):
    """A reservation that is not as desired: its differences, present and desired; `unknown`: why they are."""

    name: Word
    exists: bool
    found: Optional[str]
    wanted: Optional[str]
    unknown: Optional[str]


RESOURCE, FOUND = Reservation, ReservationState
