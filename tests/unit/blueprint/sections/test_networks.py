"""Which network the addresses of nodes are on."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.fabrics import FabricSection
from hpcforge.blueprint.sections.networks import NetworkSection, is_bmc, primary

FABRICS = {
    "ib": FabricSection.model_validate(
        {"kind": "infiniband", "rate_gbps": "400", "topology": "single-switch", "switch": "qm9700"}
    ),
    "eth": FabricSection.model_validate(
        {"kind": "ethernet", "rate_gbps": "25", "topology": "leaf-pair", "switch": "sn2201"}
    ),
}


def network(**said: str) -> NetworkSection:
    return NetworkSection.model_validate({"cidr": "10.0.0.0/24", **said})


@pytest.mark.parametrize(
    ("networks", "found"),
    [
        ({"any": network(external="true")}, "any"),  # the only one
        ({"a": network(fabric="eth"), "b": network(fabric="eth", boot="true")}, "b"),
        ({"campus": network(external="true"), "a": network(), "bmc": network()}, "a"),  # the only one for nodes
        ({"ipoib": network(fabric="ib"), "a": network(fabric="eth")}, "a"),  # the only one on Ethernet
        ({"ipoib": network(fabric="ib"), "bmc": network(fabric="eth")}, "ipoib"),
        ({"ipoib": network(fabric="ib"), "bmc": network(fabric="eth", bmc="false")}, "bmc"),
        ({"a": network(fabric="eth"), "b": network(fabric="eth")}, None),
        ({"a": network(boot="true"), "b": network(boot="true")}, None),
        ({"campus": network(external="true"), "bmc": network()}, None),
    ],
)
def test_primary(networks: dict[str, NetworkSection], found: str | None) -> None:
    assert primary(networks, FABRICS) == found


def test_a_network_called_bmc_is_that_unless_it_says_no() -> None:
    assert is_bmc("bmc", network())
    assert not is_bmc("bmc", network(bmc="false"))
    assert is_bmc("ipmi", network(bmc="true"))
    assert not is_bmc("ipmi", network())
