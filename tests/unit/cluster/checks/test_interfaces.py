"""Default routes: none where one is needed, and two on one node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cluster import load
from hpcforge.cluster.checks.interfaces import route_findings
from hpcforge.cluster.model import Cluster, Network, Service
from tests.unit.cluster.test_interfaces import WIRED

ALONE: dict[str, object] = {"gateway": None, "configure": True}


@pytest.fixture(scope="module")
def wired() -> Cluster:
    """Nodes behind their head, which is on a network of the site with a gateway there."""
    return load(WIRED).cluster


def with_networks(cluster: Cluster, **changes: dict[str, object]) -> Cluster:
    def changed(network: Network) -> Network:
        return replace(network, **changes.get(network.name, {}))  # type: ignore[arg-type]

    return replace(cluster, network=changed(cluster.network), networks=tuple(map(changed, cluster.networks)))


def messages(cluster: Cluster) -> list[str]:
    return [finding.message for finding in route_findings(cluster)]


def test_a_way_through_the_head_and_the_sites_own_are_no_mistake(wired: Cluster) -> None:
    assert messages(wired) == []


def test_two_gateways_of_the_nodes_own_networks_are_named(wired: Cluster) -> None:
    service = next(network for network in wired.networks if network.vlan is not None)
    both = with_networks(wired, **{service.name: {"gateway": "10.2.0.254"}})
    [message] = messages(both)
    assert message.endswith(f": default routes on `{wired.network.name}` and `{service.name}`")
    assert messages(with_networks(both, **{service.name: {"gateway": "10.2.0.254", "configure": False}})) == []


@pytest.mark.parametrize(
    ("service", "needed"),
    [
        (Service(external=("203.0.113.5",)), True),
        (Service(external=("10.1.0.200",)), False),  # on their network
        (Service(external=("ntp1.example.org",)), False),  # whose host may be there, too
        (Service(), False),
    ],
)
def test_a_service_on_another_network_needs_a_gateway(wired: Cluster, service: Service, needed: bool) -> None:
    alone = with_networks(wired, **{network.name: ALONE for network in wired.networks})
    alone = replace(alone, services={**alone.services, "dns": Service(), "time": service})
    assert any("no gateway" in message and "203.0.113.5 (time)" in message for message in messages(alone)) == needed
    plain = with_networks(alone, **{network.name: {"configure": False} for network in wired.networks})
    assert messages(plain) == []  # hpcforge leaves their interfaces alone, and a route with them


def test_only_the_node_that_forwards_names_needs_a_way_to_the_servers_it_forwards_to(wired: Cluster) -> None:
    alone = with_networks(wired, **{network.name: ALONE for network in wired.networks})
    dns = Service(on=("w01",), options={"forward": ("203.0.113.2",)})
    alone = replace(alone, services={**{name: Service() for name in alone.services}, "dns": dns})
    [message] = messages(alone)
    assert message == "w01: no gateway, and not on their networks: 203.0.113.2 (dns)"
