"""Addresses that are asked for machines: what is refused before any is contacted, and what a silent one leaves."""

from __future__ import annotations

import pytest

from hpcforge.errors import UsageError
from hpcforge.plan.observation import Observation
from hpcforge.run.observe import CPU_TOPOLOGY
from hpcforge.run.probe import addresses, described, probe


def test_addresses_are_expanded_once_each() -> None:
    assert addresses(["10.0.0.[1-3]", "10.0.0.2"]) == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


@pytest.mark.parametrize("text", ["gpu01", "10.0.0.[1-300]", "10.0.0.0/24", "::1", "-oProxyCommand=x"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        addresses([text])


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="more than 1024 addresses"):
        addresses([f"10.0.{third}.[0-255]" for third in range(5)])


def test_an_address_without_a_machine_is_named() -> None:
    found = probe(["127.77.9.1"], "ops", "sudo", lambda _: None)
    assert found.machines == []
    assert "127.77.9.1" in found.silent


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"memory_kib": 10**18}, "it reports 953674316407 as memory_gib, and 65536 is the most"),
        ({"memory_kib": 0}, "it reports no memory"),
        ({"gpus": {"nvidia": 10**6}}, "it reports 1000000 as gpus, and 16 is the most"),
        ({"topology": "".join(f"{cpu},{cpu},{cpu}\n" for cpu in range(17))}, "it reports 17 as sockets"),
        ({"topology": "".join(f"0,{cpu},{cpu}\n" for cpu in range(513))}, "it reports 513 as cores_per_socket"),
        ({"topology": "".join(f"0,0,{cpu}\n" for cpu in range(9))}, "it reports 9 as threads_per_core"),
    ],
)
def test_a_machine_that_cannot_be_is_left_out_alone(odd: dict[str, object], why: str) -> None:
    plain = {"memory_kib": 33_000_000, "os_id": "debian", "os_release": "12"}
    topology = str(odd.get("topology", "0,0,0\n"))
    seen = {
        "10.3.0.6": Observation("10.3.0.6", {**plain, "hostname": "n6"}, answers={CPU_TOPOLOGY: "0,0,0\n"}),
        "10.3.0.7": Observation("10.3.0.7", {**plain, "hostname": "n7", **odd}, answers={CPU_TOPOLOGY: topology}),
    }
    found = described(seen, dict.fromkeys(seen, "ssh-ed25519 AAAA"))
    assert [machine.name for machine in found.machines] == ["n6"]
    assert list(found.silent) == ["10.3.0.7"]
    assert found.silent["10.3.0.7"].startswith(why)


def test_a_machine_cannot_take_the_name_of_another_address() -> None:
    plain = {"memory_kib": 33_000_000, "os_id": "debian", "os_release": "12"}
    names = {"10.3.0.6": "debian", "10.3.0.7": "debian", "10.3.0.8": "node-10-3-0-6"}
    seen = {address: Observation(address, {**plain, "hostname": name}) for address, name in names.items()}
    found = described(seen, dict.fromkeys(seen, "ssh-ed25519 AAAA"))
    assert [machine.name for machine in found.machines] == [f"node-10-3-0-{host}" for host in (6, 7, 8)]
