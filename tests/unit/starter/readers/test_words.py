"""Lines, names in ranges, addresses and numbers of a site's files."""

from __future__ import annotations

import pytest

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import MOST_MACHINES, SiteMachine
from hpcforge.starter.readers.words import (
    accepts,
    at_most,
    by_name,
    domains,
    expanded,
    is_address,
    is_ipv6,
    is_plain,
    lines,
    whole,
)


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


def test_an_address_of_one_machine_is_neither_loopback_nor_broadcast() -> None:
    none = ("127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "240.0.0.1", "10.255.255.255", "10.0.0.0", "::1")
    assert not any(map(is_plain, none))
    assert all(map(is_plain, ("10.0.0.1", "10.0.0.255", "223.1.2.3", "192.168.0.1")))
    assert [is_ipv6(text) for text in ("::1", "fe80::1%eth0", "a:", "10.0.0.1")] == [True, True, False, False]


def test_a_text_is_accepted_as_by_a_blueprint() -> None:
    assert accepts(v.LoginName, "ada")
    assert not accepts(v.UserName, "www-data")


def test_a_function_by_name_goes_before_the_one_given() -> None:
    assert by_name("login1", None, ("worker",)).functions == ("login",)
    assert by_name("n1", "10.0.0.1", bmc="10.1.0.1").bmc == "10.1.0.1"


def test_domains_are_named_once() -> None:
    left_out = domains([(1, "n1"), (2, "n1.hpc.org"), (3, "n2.HPC.org"), (4, "n3.local"), (5, "10.0.0.1")])
    assert [(each.line, each.text) for each in left_out] == [(2, "hpc.org")]
