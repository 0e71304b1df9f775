"""What interfaces nodes are set up with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster import load
from hpcforge.cluster.interfaces import Interface
from hpcforge.cluster.model import Cluster

WIRED = Path(__file__).parents[1] / "roles" / "blueprints" / "networks.yaml"


@pytest.fixture(scope="module")
def wired() -> Cluster:
    return load(WIRED).cluster


def of(cluster: Cluster, node: str) -> dict[str, Interface]:
    return {interface.label: interface for interface in cluster.interfaces(cluster.by_name[node])}


def test_a_bond_carries_what_is_untagged_and_what_is_in_a_vlan(wired: Cluster) -> None:
    found = of(wired, "w01")
    assert [found[port].bond for port in ("ens1f0", "ens1f1")] == ["bond0", "bond0"]
    assert (found["bond0"].mode, found["bond0"].address, found["bond0"].vlans) == (
        "802.3ad",
        "10.1.0.11/24",
        ("bond0.20",),
    )
    assert (found["bond0.20"].vlan, found["bond0.20"].address) == (20, "10.2.0.11/24")


def test_what_is_below_has_room_for_the_packets_of_what_is_above(wired: Cluster) -> None:
    mgmt, service = (replace(one, mtu=mtu) for one, mtu in zip(wired.networks[:2], (None, 9000), strict=True))
    found = of(replace(wired, network=mgmt, networks=(mgmt, service, *wired.networks[2:])), "w01")
    assert [found[name].mtu for name in ("ens1f0", "ens1f1", "bond0", "bond0.20")] == [9000] * 4


def test_ports_that_the_inventory_knows_are_known_by_their_mac(wired: Cluster) -> None:
    found = of(wired, "w02")
    assert (found["020000000201"].name, found["020000000201"].bond) == (None, "bond1")
    assert found["bond1"].mac == "02:00:00:00:02:01"  # so that neighbours know it before and after


def bonded_file_server(folder: Path, endpoints: str) -> Cluster:
    """Workers with one port, and a file server with two of another rate."""
    path = folder / "site.yaml"
    path.write_text(
        f"""\
schema: 1
name: mixed
domain: mixed.example.org
access: {{user: ops}}
nodes:
  head:    {{functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}}
  nas:     {{functions: [storage], hardware: rehearsal-node, addresses: 10.1.0.2}}
  w[1-2]:  {{functions: [worker], hardware: rehearsal-node, addresses: "10.1.0.[11-12]"}}
fabrics:
  ether: {{kind: ethernet, rate_gbps: 25, topology: single-switch, switch: sn2410, interfaces: [eth1],
          endpoints: {{{endpoints}}}}}
networks: {{mgmt: {{fabric: ether, cidr: 10.1.0.0/24, interface: eth1, configure: true}}}}
services: {{dns: {{on: head}}, time: {{on: head}}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm: {{controller: head, partitions: {{main: {{nodes: all, default: true}}}}}}
"""
    )
    (folder / "inventory.yaml").write_text(
        "schema: 1\nnodes: {nas: {ports: {ether: ['02:00:00:00:01:01', '02:00:00:00:01:02']}}}\n"
    )
    return load(path, folder / "inventory.yaml").cluster


def test_a_node_with_links_of_its_own_bonds_them_beside_nodes_with_one_port(tmp_path: Path) -> None:
    cluster = bonded_file_server(tmp_path, "files: {nodes: nas, rate_gbps: 100, links: 2, bond: 802.3ad}")
    found = of(cluster, "nas")
    assert [found[port].bond for port in ("020000000101", "020000000102")] == ["bond0", "bond0"]
    assert (found["bond0"].mode, found["bond0"].address) == ("802.3ad", "10.1.0.2/24")
    assert {name: one.kind for name, one in of(cluster, "w1").items()} == {"eth1": "port"}
    links = {name: json.loads(cluster.declared(cluster.by_name[name]))["links"] for name in ("nas", "w1")}
    rates = {name: {link["rate_gbps"] for link in each} for name, each in links.items()}
    assert rates == {"nas": {100.0}, "w1": {25.0}}


def test_ports_of_the_inventory_are_as_many_as_the_links_of_each_node(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the inventory must have 3 `ports` to ether for nas"):
        bonded_file_server(tmp_path, "files: {nodes: nas, rate_gbps: 100, links: 3, bond: 802.3ad}")


def test_a_bond_of_one_link_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a bond needs two links, and `links` is 1"):
        bonded_file_server(tmp_path, "files: {nodes: nas, rate_gbps: 100, bond: 802.3ad}")


def test_the_way_out_is_the_site_s_where_a_node_is_on_it(wired: Cluster) -> None:
    head, worker = of(wired, "head"), of(wired, "w01")
    assert head["bond0"].gateway is None  # it is the gateway
    assert worker["bond0"].gateway == "10.1.0.1"
    assert head["eno2"].gateway == "192.0.2.1" and head["eno2"].metric < worker["bond0"].metric


@pytest.mark.parametrize(("mtu", "mode"), [(None, "datagram"), (4092, "datagram"), (65520, "connected")])
def test_ipoib_in_packets_that_are_too_large_for_datagrams_is_connected(
    wired: Cluster, mtu: int | None, mode: str
) -> None:
    networks = tuple(replace(network, mtu=mtu) if network.name == "ipoib" else network for network in wired.networks)
    assert of(replace(wired, networks=networks), "w01")["ibp24s0"].ipoib == mode


def test_without_the_word_nothing_is_set_up(wired: Cluster) -> None:
    plain = tuple(replace(network, configure=False) for network in wired.networks)
    assert of(replace(wired, network=plain[0], networks=plain), "w01") == {}
