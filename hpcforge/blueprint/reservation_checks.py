"""What `slurm.reservations` says wrongly of itself, of users and accounts. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from hpcforge.blueprint import schema as s
from hpcforge.blueprint.accounting_checks import unknown_user
from hpcforge.blueprint.diagnostics import did_you_mean, quote
from hpcforge.blueprint.reader import Loc
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
