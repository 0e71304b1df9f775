"""Reservations of Slurm in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.reservations import Reservation
from hpcforge.kinds.resource import ActualState

COURSE = Reservation("course", "w[01-02]", "2090-01-01T08:00:00", 90, users="ada,bob", flags="maint")
HOURS = "nodes=w[01-02] start=2090-01-01T08:00:00 minutes=90"


@pytest.mark.parametrize(
    ("reservation", "state", "line"),
    [
        (COURSE, {"exists": False}, f"+ reservation course {HOURS} users=ada,bob flags=maint"),
        (
            Reservation("lab", "w[01-02]", "2090-01-01T08:00:00", 90, accounts="vision"),
            {"exists": False},
            f"+ reservation lab {HOURS} accounts=vision",
        ),
        (
            COURSE,
            {"exists": True, "found": "users=ada", "wanted": "users=ada,bob"},
            "~ reservation course users=ada,bob  (users=ada in Slurm)",
        ),
        (COURSE, {"exists": True, "unknown": "no answer"}, "? reservation course: its state is unknown: no answer"),
    ],
)
def test_a_plan_says_what_is_reserved_or_what_differs(reservation: Reservation, state: ActualState, line: str) -> None:
    assert reservation.line(state) == line


@pytest.mark.parametrize(("state", "drifted"), [({"put": True}, True), ({"put": True, "unknown": "no answer"}, False)])
def test_what_is_unknown_has_not_drifted(state: ActualState, drifted: bool) -> None:
    assert COURSE.drifted({"exists": True, **state}) is drifted
