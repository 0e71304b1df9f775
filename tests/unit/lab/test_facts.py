"""The facts of a lab before it is up."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from hpcforge.host.resources import processors, total_mib
from hpcforge.lab.facts import planned_facts, subnet_for
from hpcforge.lab.network import POOL


@pytest.mark.parametrize(("nodes", "prefix"), [(1, 24), (200, 24), (201, 20), (3000, 20)])
def test_a_subnet_has_room_for_all_nodes(nodes: int, prefix: int) -> None:
    subnet = IPv4Network(subnet_for(nodes))
    assert (subnet.prefixlen, subnet.subnet_of(POOL)) == (prefix, True)
    assert subnet.num_addresses > nodes


def test_nodes_share_this_machine() -> None:
    facts = planned_facts(["head", "w01", "w02"], "ops", "10.77.0.0/24")
    addresses = {IPv4Address(machine.address) for machine in facts.machines.values()}
    assert len(addresses) == 3
    assert all(address in IPv4Network("10.77.0.0/24") for address in addresses)
    assert (facts.sockets, facts.cores_per_socket, facts.threads_per_core) == processors()
    assert facts.memory_mib % 1024 == 0
    assert facts.memory_mib <= max(1024, total_mib() // 3)
    assert (facts.key, facts.boots, facts.sources) == (None, False, None)
