"""The servers and clients of file systems, with their links."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.design.storage.test_rule_checks import OVER_FILES, TWO_NETWORKS, loaded


def test_a_client_gets_no_more_than_its_own_links_carry(tmp_path: Path) -> None:
    """One client with one link, of a server with four."""
    fabric = "ether: {kind: ethernet, rate_gbps: 200, topology: leaf-pair, switch: sn4600, links: 2, bond: 802.3ad}"
    mine = (
        "ether: {kind: ethernet, rate_gbps: 200, topology: single-switch, switch: sn4600, links: 1, bond: 802.3ad, "
        'nodes: "head,worker", endpoints: {servers: {nodes: stor01, links: 4}}}'
    )
    changes = (
        (fabric, mine),
        ("mtu: 9000", "mtu: 9000, nodes: all"),
        ("mount: /projects", "on: w01\n    mount: /projects"),
    )
    one = loaded(tmp_path, *changes).served[0]
    assert (one.link and one.link.links, one.client_link and one.client_link.links) == (4, 1)
    assert one.each("read") == pytest.approx(25 * 8_948 / 9_038)
    assert one.gives("read") == pytest.approx(100 * 8_948 / 9_038)


def test_a_server_with_a_rate_of_its_own_is_counted_by_it(tmp_path: Path) -> None:
    """A server with 2 x 200 Gb/s in a bond, and clients with 1 x 25."""
    fabric = "ether: {kind: ethernet, rate_gbps: 200, topology: leaf-pair, switch: sn4600, links: 2, bond: 802.3ad}"
    mine = (
        "ether: {kind: ethernet, rate_gbps: 25, breakout: 4, topology: single-switch, switch: sn4600, "
        'nodes: "head,worker", endpoints: {servers: {nodes: stor01, rate_gbps: 200, links: 2, bond: 802.3ad}}}'
    )
    changes = (
        (fabric, mine),
        ("mtu: 9000", "mtu: 9000, nodes: all"),
        ("mount: /projects", "on: w01\n    mount: /projects"),
    )
    one = loaded(tmp_path, *changes).served[0]
    assert one.link and (one.link.links, one.link.rate_gbps) == (2, 200)
    assert one.client_link and (one.client_link.links, one.client_link.rate_gbps) == (1, 25)


def test_numbers_are_of_the_network_over_which_it_is_served(tmp_path: Path) -> None:
    """2 x 200 Gb/s in a bond, of which `apps` has nothing: it goes over one link of 25 Gb/s."""
    projects, apps = loaded(tmp_path, *TWO_NETWORKS, OVER_FILES).served
    assert (projects.network, apps.network) == ("files", "mgmt")
    assert projects.of_link == pytest.approx(50 * 8_948 / 9_038)
    assert apps.of_link == pytest.approx(25 / 8 * 1_448 / 1_538)
    assert projects.client_link is not None and projects.client_link.fabric == "ether"
