"""Accounts in a plan."""

from __future__ import annotations

import pytest

from hpcforge.kinds.accounts import Account


def test_a_plan_says_where_a_home_is_to_be() -> None:
    wanted = Account("ada", 2001, "/homes/ada")
    line = "~ account ada (uid 2001"
    assert wanted.line({"exists": True, "home": "/home/ada"}) == f"{line}; home /home/ada -> /homes/ada)"
    assert wanted.line({"exists": True, "home": None}) == f"{line}; /homes/ada is made)"
    assert wanted.line({"exists": True, "home": "/homes/ada"}) == f"{line})"
    assert wanted.line({"exists": False, "home": None}) == f"{line})"


@pytest.mark.parametrize(
    ("expires", "present", "end"),
    [
        ("2027-01-31", None, "; expires 2027-01-31"),
        ("2027-01-31", "2026-12-31", "; expires 2027-01-31, now 2026-12-31"),
        ("", "2026-12-31", "; expires never, now 2026-12-31"),
        ("2027-01-31", "2027-01-31", "; expires 2027-01-31"),
        ("", None, ""),
    ],
)
def test_a_plan_says_until_when_an_account_can_be_used(expires: str, present: str | None, end: str) -> None:
    account = Account("ada", 2001, "/home/ada", expires=expires)
    state = {"exists": True, "home": "/home/ada", "expires": present}
    assert account.line(state) == f"~ account ada (uid 2001{end})"
