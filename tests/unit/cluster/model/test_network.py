"""Networks, and the links of nodes to fabrics."""

from __future__ import annotations

import pytest

from hpcforge.cluster.model.network import FabricOf, Network, OwnLinks

FABRIC = FabricOf("f", "ethernet", 100.0, 2, bmc=False, interfaces=("eth0", "eth1"), bond="802.3ad")


@pytest.mark.parametrize(("cidr", "mask"), [("10.0.0.0/8", "255.0.0.0"), ("10.1.2.0/23", "255.255.254.0")])
def test_the_mask_of_a_network(cidr: str, mask: str) -> None:
    assert Network("n", cidr).netmask == mask


@pytest.mark.parametrize(
    ("own", "links", "interfaces", "bond"),
    [
        (None, 2, ("eth0", "eth1"), "802.3ad"),
        (OwnLinks("stor", 2, 200.0, None), 2, ("eth0", "eth1"), "802.3ad"),
        (OwnLinks("stor", 4, 200.0, "active-backup"), 4, (), "active-backup"),  # others than the fabric names
    ],
)
def test_a_node_may_have_links_of_its_own(
    own: OwnLinks | None, links: int, interfaces: tuple[str, ...], bond: str
) -> None:
    fabric = FabricOf(**{**FABRIC.__dict__, "own_links": (own,) if own else ()})
    at = fabric.at("stor")
    assert (at.links, at.interfaces, at.bond) == (links, interfaces, bond)
    assert at.rate_gbps == (own.rate_gbps if own else 100.0)
    assert fabric.at("w01").links == 2


@pytest.mark.parametrize(
    ("kind", "bmc", "rdma", "lldp"),
    [
        ("infiniband", False, True, False),
        ("roce", False, True, True),
        ("ethernet", False, False, True),
        ("ethernet", True, False, False),
        ("omni-path", False, False, False),
    ],
)
def test_what_a_fabric_speaks(kind: str, bmc: bool, rdma: bool, lldp: bool) -> None:
    fabric = FabricOf("f", kind, 100.0, 1, bmc)  # type: ignore[arg-type]
    assert (fabric.rdma, fabric.lldp) == (rdma, lldp)
