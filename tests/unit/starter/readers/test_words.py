"""What the readers of a site's files share."""

from __future__ import annotations

from hpcforge.blueprint import values as v
from hpcforge.starter.machines import SiteMachine
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


def test_lines_have_numbers_and_no_comments() -> None:
    assert list(lines("a # b\r\n\n# c\n d\n")) == [(1, "a"), (4, "d")]


def test_addresses_of_machines() -> None:
    assert [is_address(text) for text in ("10.0.0.1", "10.0.0.256", "010.0.0.1", "::1")] == [True, False, False, False]
    assert [is_ipv6(text) for text in ("::1", "fe80::1%eth0", "a:", "10.0.0.1")] == [True, True, False, False]
    none = ("127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1", "240.0.0.1", "10.255.255.255", "10.0.0.0", "::1")
    assert not any(map(is_plain, none))
    assert all(map(is_plain, ("10.0.0.1", "10.0.0.255", "223.1.2.3", "192.168.0.1")))


def test_names_and_numbers() -> None:
    assert expanded("w[01:03]") == ["w01", "w02", "w03"]
    assert (whole("07"), whole("x"), whole(None)) == (7, None, None)
    assert accepts(v.LoginName, "ada")
    assert not accepts(v.UserName, "www-data")
    assert len(at_most(SiteMachine(f"n{number}") for number in range(20_000))) == 10_001
    assert by_name("login1", None, ("worker",)).functions == ("login",)
    assert by_name("n1", "10.0.0.1", bmc="10.1.0.1").bmc == "10.1.0.1"


def test_domains_are_named_once() -> None:
    left_out = domains([(1, "n1"), (2, "n1.hpc.org"), (3, "n2.HPC.org"), (4, "n3.local"), (5, "10.0.0.1")])
    assert [(each.line, each.text) for each in left_out] == [(2, "hpc.org")]
