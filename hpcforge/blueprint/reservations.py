"""Reservations in a blueprint: nodes that Slurm keeps for somebody, or for nobody, from one time to another."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcforge.blueprint import values as v
from hpcforge.blueprint.section import Section


class Reservation(Section):
    """Nodes kept for maintenance, a course or a deadline; Slurm forgets one that is over, and so may the blueprint."""

    nodes: v.NodeSet = Field(description="Workers, as a node set: all, a hostlist, a group, a rack, all!gpu03.")
    start: v.Moment = Field(description="When it begins, by the controller's clock and time zone: 2027-03-01T08:00.")
    duration: v.MaxTime = Field(description="How long it lasts, [days-]hours:minutes:seconds.")
    users: tuple[v.PersonName, ...] = Field(
        (),
        description="Whose jobs may run there, of `users` or of the directory; with neither these nor `accounts`: "
        "root's alone.",
    )
    accounts: tuple[v.SectionName, ...] = Field(
        (), description="Accounts whose jobs may; with `users`, jobs of those users under these accounts."
    )
    flags: tuple[Literal["maint", "ignore_jobs"], ...] = Field(
        (),
        description="maint: for maintenance, it may overlap others; ignore_jobs: jobs that run there are in nobody's "
        "way.",
    )
