"""Addresses by name: in the subnet, one after the other, and nobody moves."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcforge.cluster.networks import named_address, same_host_address
from tests.unit.design.fabric.test_properties import PROPERTIES

SUBNETS = st.builds(
    lambda first, prefix: IPv4Network((first, prefix), strict=False), st.integers(0, 2**32 - 1), st.integers(8, 30)
)
NAMES = st.from_regex(r"[a-z](?:[a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@PROPERTIES
@given(NAMES, SUBNETS)
def test_a_node_can_have_it(name: str, subnet: IPv4Network) -> None:
    address = IPv4Address(named_address(name, str(subnet)))
    assert subnet.network_address < address < subnet.broadcast_address


@PROPERTIES
@given(st.integers(1, 800), st.sampled_from(["10.0.0.0/22", "172.16.0.0/16"]))
def test_numbers_follow_each_other(count: int, cidr: str) -> None:
    addresses = [int(IPv4Address(named_address(f"gpu{n:04}", cidr))) for n in range(1, count + 1)]
    assert len(set(addresses)) == count
    steps = {b - a for a, b in pairwise(addresses)} - {1}
    assert len(steps) <= 1  # at the end of the subnet it goes on at its start


def test_the_lowest_sixteenth_is_left_for_gateways() -> None:
    taken = {named_address(f"n{number}", "10.0.0.0/24") for number in range(1000)}
    assert min(map(IPv4Address, taken)) == IPv4Address("10.0.0.16")
    assert max(map(IPv4Address, taken)) == IPv4Address("10.0.0.254")


@pytest.mark.parametrize(
    ("name", "address"), [("gpu001", "10.20.1.51"), ("gpu032", "10.20.1.82"), ("head", "10.20.0.235")]
)
def test_the_function_is_for_ever(name: str, address: str) -> None:
    """Machines have these addresses: another digest would move all of them."""
    assert named_address(name, "10.20.0.0/22") == address


def test_the_host_part_is_kept_where_it_fits() -> None:
    assert same_host_address("10.20.1.7", "10.20.0.0/22", "10.30.0.0/22") == "10.30.1.7"
    assert same_host_address("10.20.1.7", "10.20.0.0/22", "10.32.0.0/16") == "10.32.1.7"
    assert same_host_address("10.20.1.7", "10.20.0.0/22", "10.30.0.0/23") is None
