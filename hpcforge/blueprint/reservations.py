"""Reservations in a blueprint: nodes that Slurm keeps for somebody, or for nobody, from one time to another."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section


class ReservationSection(Section):
    """Nodes kept for maintenance, a course or a deadline; Slurm forgets one that is over, and so may the blueprint."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    start: v.Moment = Field(description="Start, by the controller's clock and time zone: 2027-03-01T08:00.")
    duration: v.MaxTime = Field(description="Duration, [days-]hours:minutes:seconds.")
    users: tuple[v.PersonName, ...] = Field(
        (),
        description="Users whose jobs may run there, from `users` or the directory; with neither these nor "
        "`accounts`: only root.",
    )
    accounts: tuple[v.SectionName, ...] = Field(
        (),
        description="Accounts whose jobs may run there; with `users`: only jobs of those users under these accounts.",
    )
    flags: tuple[Literal["maint", "ignore_jobs"], ...] = Field(
        (),
        description="maint: for maintenance, may overlap other reservations; ignore_jobs: created even if jobs run "
        "there.",
    )
