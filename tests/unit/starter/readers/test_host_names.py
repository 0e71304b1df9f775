"""What names of hosts say."""

from __future__ import annotations

import pytest

from hpcforge.starter.readers.host_names import (
    device,
    host_name,
    is_bmc,
    is_jump_host,
    is_network,
    needs_owner,
    owner,
    splits,
    tokens,
)


def test_words_and_numbers_of_a_name() -> None:
    assert tokens("IB-sw01a") == ["ib", "sw", "01", "a"]


@pytest.mark.parametrize(
    "name",
    [
        "sw1",
        "ib-sw-2",
        "coreswitch",
        "rackpdu3",
        "ups",
        "network-0-0",
        "gw",
        "fw01a",
        "tor-r1",
        "switches",
        "rack_pdus",
    ],
)
def test_a_device_is_known_by_a_word(name: str) -> None:
    assert device(name)


@pytest.mark.parametrize("name", ["swan1", "n1", "upsilon", "gpu-a", "leafy", "storage", "network", "groups1"])
def test_a_word_is_not_a_part_of_one(name: str) -> None:
    assert device(name) is None


def test_jump_hosts_are_known_by_a_word() -> None:
    assert all(map(is_jump_host, ("bastion", "jumphost01", "gate", "ssh-gate2", "hpc-jump", "jumpbox")))
    assert not any(map(is_jump_host, ("gateway", "login", "investigate", "agate1")))


def test_words_for_controllers_and_networks() -> None:
    assert all(map(is_bmc, ("ipmi", "iLO", "idrac9", "bmc0", "rsa")))
    assert all(map(is_network, ("ib0", "eth1", "10g", "mgmt", "enp1s0", "ilo")))
    assert not any(map(is_network, ("login", "0", "gpu", "ibex")))
    assert needs_owner("ipmi") and needs_owner("ib0") and not needs_owner("mgmt") and not needs_owner("sp")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("n1-ib", ("n1", "ib")),
        ("n1_ilo", ("n1", "ilo")),
        ("ib-n1", ("n1", "ib")),
        ("n1i", ("n1", "ib")),
        ("n1-hd", ("n1", "hd")),
        ("mgt-ib", ("mgt", "ib")),
        ("n7-ipmi", ("n7", "ipmi")),  # which is not there
        ("n1-2", None),
        ("n7-hd", None),
        ("mgt-login", None),
        ("n1", None),
    ],
)
def test_an_address_has_its_owner(name: str, expected: tuple[str, str] | None) -> None:
    assert owner(name, {"n1", "mgt", name}) == expected


def test_a_name_is_read_in_each_way() -> None:
    assert list(splits("a-b-c1")) == [("a", "b-c1"), ("a-b", "c1")]


def test_names_for_a_blueprint() -> None:
    assert (host_name("Node_1.hpc.org"), host_name("3com"), host_name("default"), host_name("")) == (
        "node-1", None, None, None,
    )  # fmt: skip
