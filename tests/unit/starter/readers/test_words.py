"""Lines, names in ranges, addresses and numbers of a site's files."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import MOST_MACHINES, SiteMachine
from hpcforge.starter.readers.words import at_most, expanded, is_address, lines, whole


def test_lines_keep_their_numbers_without_comments() -> None:
    assert list(lines("# a\n\n  b # c\n; d\ne ; f\n")) == [(3, "b"), (4, "; d"), (5, "e ; f")]


@pytest.mark.parametrize(("text", "names"), [("w[01-02]", ["w01", "w02"]), ("w[1:2]", ["w1", "w2"]), ("w[", ["w["])])
def test_names_in_a_range(text: str, names: list[str]) -> None:
    assert expanded(text) == names


@pytest.mark.parametrize(("text", "number"), [("12", 12), ("1.5", None), ("", None), (None, None), ("1" * 12, None)])
def test_whole_numbers(text: str | None, number: int | None) -> None:
    assert whole(text) == number


def test_an_address_is_ipv4() -> None:
    assert [is_address(text) for text in ("10.0.0.1", "::1", "10.0.0.256", "w01")] == [True, False, False, False]


def test_an_endless_range_ends() -> None:
    assert len(at_most(SiteMachine(f"w{number}") for number in range(10 * MOST_MACHINES))) == MOST_MACHINES + 1
