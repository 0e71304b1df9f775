"""What is said of a controller has no password in it."""

from __future__ import annotations

from hpcforge.power import BmcError, Login


def test_a_password_is_in_no_text() -> None:
    access = Login("10.0.0.1", "admin", "hidden-away")
    assert "hidden-away" not in f"{access} {access!r}"
    assert BmcError("no", "login").reason == "login"
