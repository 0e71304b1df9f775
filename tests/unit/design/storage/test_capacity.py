"""What a server of files holds and carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import Raid
from hpcforge.design.storage import capacity
from hpcforge.design.storage.capacity import grouped
from tests.unit.design.storage.test_rule_checks import OVER_FILES, TWO_NETWORKS, loaded


def test_figures_by_hand(tmp_path: Path) -> None:
    """24 drives of 3,840 GB, 6.5 and 3.5 GB/s, in two groups of 10 + 2, behind 2 x 200 Gb/s and an MTU of 9,000."""
    [one, other] = loaded(tmp_path).served
    assert one.capacity_tib == pytest.approx(2 * 10 * 3_840e9 / 1_099_511_627_776) == pytest.approx(69.849, abs=5e-4)
    assert one.of_drives("read") == pytest.approx(24 * 6.5)
    assert one.of_drives("write") == pytest.approx(20 * 3.5)
    assert one.of_link == pytest.approx(50 * (9_000 - 52) / (9_000 + 38)) == pytest.approx(49.502, abs=5e-4)
    assert (one.gives("read"), one.bound("read")) == (one.of_link, "links")
    assert one.clients == 8
    assert one.each("read") == pytest.approx((one.of_link or 0) / 8)
    assert (other.capacity_tib, other.gives("write")) == (one.capacity_tib, one.gives("write"))  # they share them


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


@pytest.mark.parametrize(
    ("kind", "mtu", "tagged", "share"),
    [
        ("ethernet", None, False, 1_448 / 1_538),
        ("ethernet", 9_000, True, 8_948 / 9_042),
        ("infiniband", None, False, 1_992 / 2_082),
    ],
)
def test_what_is_left_of_a_link_for_files(kind: str, mtu: int | None, tagged: bool, share: float) -> None:
    assert capacity.payload_share(kind, mtu, tagged=tagged) == pytest.approx(share)


def test_drives_that_are_alike_form_groups_in_their_order() -> None:
    raid = Raid(data=4, parity=2)
    assert grouped((2, 24, 13), raid) == (0, 4, 2)  # two for the system, and one left over
    assert grouped((2, 24, 13), raid.model_copy(update={"groups": 5})) == (0, 4, 1)
    assert grouped((2, 24), None) == (2, 24)


def test_numbers_are_of_the_network_over_which_it_is_served(tmp_path: Path) -> None:
    """2 x 200 Gb/s in a bond, of which `apps` has nothing: it goes over one link of 25 Gb/s."""
    projects, apps = loaded(tmp_path, *TWO_NETWORKS, OVER_FILES).served
    assert (projects.network, apps.network) == ("files", "mgmt")
    assert projects.of_link == pytest.approx(50 * 8_948 / 9_038)
    assert apps.of_link == pytest.approx(25 / 8 * 1_448 / 1_538)
    assert projects.client_link is not None and projects.client_link.fabric == "ether"
