"""Timers in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.timers import Timer


@pytest.mark.parametrize(
    ("user", "exists", "line"),
    [
        ("root", False, "+ timer tidy: daily: /bin/rm -f /x"),
        ("ops", True, "~ timer tidy: daily: /bin/rm -f /x (as ops)"),
    ],
)
def test_a_plan_says_when_what_runs_and_as_which_user(user: str, exists: bool, line: str) -> None:
    assert Timer("tidy", ("/bin/rm", "-f", "/x"), "daily", user).line({"exists": exists}) == line
