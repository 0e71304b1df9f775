"""What `slurm.reservations` says wrongly of itself, of users and accounts. Pure."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Iterator, Mapping, Set
from itertools import combinations

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.accounting_checks import unknown_user
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.reader import Loc
from hpcforge.blueprint.reservations import ReservationSection
from hpcforge.blueprint.validate import Draft, Finding
from hpcforge.blueprint.values import limit_s

Findings = Iterator[Finding]


def reservation_findings(draft: Draft, workers: Callable[[Loc, str], Findings]) -> Findings:
    """Yield names that there are not, and times without end. `workers` checks a set of them at a place."""
    slurm: s.SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "reservations"):
        return
    for name, reservation in slurm.reservations.items():
        loc: Loc = ("slurm", "reservations", name)
        yield from workers((*loc, "nodes"), reservation.nodes)
        if not 60 <= limit_s(reservation.duration) < math.inf:
            hint = "Slurm counts in minutes, and removes a reservation after its end"
            yield Finding((*loc, "duration"), "a reservation needs a duration of at least one minute", hint)
        for place, user in enumerate(reservation.users):
            yield from unknown_user(draft, (*loc, "users", place), user)
        for place, account in enumerate(reservation.accounts) if draft.intact("slurm", "accounts") else ():
            if account not in slurm.accounts:
                hint = did_you_mean(account, slurm.accounts) or "add it under `slurm.accounts`"
                yield Finding((*loc, "accounts", place), f"{quote(account)} is not an account of this blueprint", hint)


def overlapping(draft: Draft, nodes_of: Callable[[str], tuple[str, ...] | None]) -> Findings:
    """Yield reservations that share nodes and time, of which Slurm refuses the second. `nodes_of` expands a set."""
    slurm: s.SlurmSection | None = draft.sections["slurm"]
    if slurm is None or not draft.intact("slurm", "reservations"):
        return
    nodes: Mapping[str, Set[str]] = {
        name: frozenset(nodes_of(reservation.nodes) or ())
        for name, reservation in slurm.reservations.items()
        if "maint" not in reservation.flags  # those may overlap (reservations.html of Slurm)
    }
    for first, second in combinations(nodes, 2):
        shared = nodes[first] & nodes[second]
        (start, end), (other_start, other_end) = map(_period, (slurm.reservations[first], slurm.reservations[second]))
        if shared and start < other_end and other_start < end:
            message = f"{fold(shared)} would be in two reservations at a time, `{first}` and `{second}`"
            hint = "other nodes, another time, or `flags: [maint]` for maintenance: Slurm refuses the second"
            yield Finding(("slurm", "reservations", second, "nodes"), message, hint)


def over(reservations: Mapping[str, ReservationSection], now: str) -> Findings:
    """Yield reservations whose end is past; `now` is a time as `start` has it."""
    for name, reservation in reservations.items():
        if _period(reservation)[1] <= _seconds(now):
            message = f"the reservation `{name}` is over"
            hint = "another `start`; or remove it: Slurm has removed it, too"
            yield Finding(("slurm", "reservations", name, "start"), message, hint, severity="warning")


def _period(reservation: ReservationSection) -> tuple[float, float]:
    """Return start and end in seconds of the clock of the cluster."""
    start = _seconds(reservation.start)
    return start, start + limit_s(reservation.duration)


def _seconds(moment: str) -> int:
    day, _, clock = moment.partition("T")
    year, month, date = map(int, day.split("-"))
    hour, minute = map(int, clock.split(":")[:2])
    return calendar.timegm((year, month, date, hour, minute, 0))
