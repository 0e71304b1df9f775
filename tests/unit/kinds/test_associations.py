"""Associations of Slurm's accounting in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.associations import Association
from hpcforge.kinds.resource import ActualState

VISION = Association("account vision", "fairshare=10 maxjobs=4")


@pytest.mark.parametrize(
    ("association", "state", "line"),
    [
        (VISION, {"exists": False}, "+ account vision fairshare=10 maxjobs=4"),
        (Association("qos high"), {"exists": False}, "+ qos high"),
        (
            VISION,
            {"exists": True, "found": "maxjobs=2", "wanted": "maxjobs=4"},
            "~ account vision maxjobs=4  (maxjobs=2 in the database)",
        ),
        (VISION, {"exists": False, "unknown": "no answer"}, "? account vision: its state is unknown: no answer"),
    ],
)
def test_a_plan_says_what_differs_from_the_database(association: Association, state: ActualState, line: str) -> None:
    assert association.line(state) == line


@pytest.mark.parametrize(
    ("state", "drifted"),
    [({"put": True}, True), ({"put": False}, False), ({}, False), ({"put": True, "unknown": "no answer"}, False)],
)
def test_what_is_unknown_has_not_drifted(state: ActualState, drifted: bool) -> None:
    assert VISION.drifted({"exists": True, **state}) is drifted


@pytest.mark.parametrize(
    ("name", "line"),
    [("qos high", "qos high"), ("user ada account=vision", "user ada account=vision; its jobs stay in sacct")],
)
def test_jobs_outlive_accounts_and_users(name: str, line: str) -> None:
    assert Association.removal_line(name) == line
