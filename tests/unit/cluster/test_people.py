"""Users and their homes."""

from __future__ import annotations

import pytest

from hpcforge.cluster.people import User, number_of

ADA = User("ada", 2001, False, ())


@pytest.mark.parametrize(("homes", "home"), [("/home", "/home/ada"), ("/projects/homes", "/projects/homes/ada")])
def test_a_home_is_where_homes_are(homes: str, home: str) -> None:
    assert User("ada", 2001, False, (), homes=homes).home == home


@pytest.mark.parametrize(("name", "number"), [("ada", 2001), ("eve", None)])
def test_a_number_is_that_of_the_user(name: str, number: int | None) -> None:
    assert number_of([ADA], name) == number
