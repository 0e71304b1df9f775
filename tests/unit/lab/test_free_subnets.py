from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.network import choose_subnet, gateway, parse_cidr, place

WANTED = IPv4Network("10.77.3.0/24")


def networks(*texts: str) -> list[IPv4Network]:
    return [IPv4Network(text) for text in texts]


@pytest.mark.parametrize(
    ("taken", "chosen"),
    [
        ([], "10.77.3.0/24"),
        (["192.168.0.0/16", "10.77.4.0/24"], "10.77.3.0/24"),
        (["10.77.3.0/24"], "10.77.0.0/24"),
        (["10.77.3.7/32", "10.77.0.0/23"], "10.77.2.0/24"),
    ],
)
def test_the_wanted_subnet_or_the_next_free(taken: list[str], chosen: str) -> None:
    assert choose_subnet(WANTED, networks(*taken)) == IPv4Network(chosen)


def test_a_subnet_elsewhere_moves_to_the_pool_with_its_size() -> None:
    assert choose_subnet(IPv4Network("192.168.1.0/26"), networks("192.168.0.0/16")) == IPv4Network("10.77.0.0/26")


def test_no_free_subnet_says_what_is_in_the_way() -> None:
    with pytest.raises(LabError, match=r"no free /24 .* 10\.0\.0\.0/8") as error:
        choose_subnet(WANTED, networks("10.0.0.0/8", "172.16.0.0/12"))
    assert "rehearse down" in error.value.hint


@pytest.mark.parametrize("text", ["10.77.3.1/24", "10.77.3.0", "fe80::/64", "x", "10.0.0.0/8", "10.77.3.0/30"])
def test_networks_that_do_not_suit(text: str) -> None:
    with pytest.raises(LabError):
        parse_cidr(text)


def test_nodes_keep_their_host_part() -> None:
    placed = place(WANTED, IPv4Network("10.77.9.0/24"), {"head": "10.77.3.10", "w01": None, "w02": "10.77.3.200"})
    assert {name: str(address) for name, address in placed.items()} == {
        "head": "10.77.9.10",
        "w01": "10.77.9.11",
        "w02": "10.77.9.200",
    }


@pytest.mark.parametrize(
    ("addresses", "complaint"),
    [
        ({"a": "10.77.4.10"}, "not a host address"),
        ({"a": "10.77.3.0"}, "not a host address"),
        ({"a": "10.77.3.255"}, "not a host address"),
        ({"a": "10.77.3.01"}, "not an IPv4 address"),
        ({"a": "10.77.3.10", "b": "10.77.3.10"}, "nodes a and b have the same"),
    ],
)
def test_addresses_that_cannot_be(addresses: dict[str, str | None], complaint: str) -> None:
    with pytest.raises(LabError, match=complaint):
        place(WANTED, WANTED, addresses)


def test_a_small_network_fills_up() -> None:
    small = IPv4Network("10.77.3.0/29")
    full = place(small, small, {"a": None, "b": None})
    assert [str(address) for address in full.values()] == ["10.77.3.4", "10.77.3.5"]
    with pytest.raises(LabError, match=r"no address left in 10\.77\.3\.0/29 for node c"):
        place(small, small, {"a": None, "b": None, "c": None})


def test_the_host_steps_aside() -> None:
    assert str(gateway(WANTED, [IPv4Address("10.77.3.10")])) == "10.77.3.1"
    assert str(gateway(WANTED, [IPv4Address("10.77.3.1")])) == "10.77.3.254"
