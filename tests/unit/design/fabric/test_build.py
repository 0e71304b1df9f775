"""Fabrics one by one: the printed names of ports, growth, and the sizes that the inventors of a topology published."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.fabrics import moves
from hpcforge.design.fabric.graph import Fabric, oversubscription
from hpcforge.design.fabric.spec import CannotBuildError, OtherEnd
from hpcforge.design.fabric.summary import metrics
from tests.unit.design.fabric.asks import asked, built, switches


def plugged(fabric: Fabric, end: str) -> list[str]:
    """Where the links of an end go, as it is printed."""
    number = fabric.index[end]
    return [
        f"{fabric.devices[cable.b].name} {fabric.port_label(cable.b, cable.b_port)}"
        for cable in fabric.cables
        if cable.a == number
    ]


def up(fabric: Fabric, switch: str) -> list[str]:
    number = fabric.index[switch]
    kinds = ("leaf_spine", "spine_core", "peer")
    return [fabric.port_label(number, c.a_port) for c in fabric.cables if c.a == number and c.kind in kinds]


def test_other_ends_take_what_nodes_leave_then_leaves_of_their_own() -> None:
    """Three places are left on each of two leaves; the seventh link has a third leaf, under the same spines."""
    ends = tuple(OtherEnd(f"storage-{number}", 1) for number in range(7))
    fabric = build(replace(asked(5, 16, rails=2), endpoints=ends))
    where = [plugged(fabric, end.name)[0] for end in ends]
    assert where[:6] == [f"f-leaf-00{leaf} {port}" for port in (6, 7, 8) for leaf in (1, 2)]
    assert where[6] == "f-leaf-003 1"
    own = fabric.devices[fabric.index["f-leaf-003"]]
    assert (own.unit, own.rail) == (None, None)
    assert len(up(fabric, "f-leaf-003")) == len(up(fabric, "f-leaf-001")) == 8


def test_a_leaf_pair_has_a_link_of_every_node_on_either() -> None:
    fabric = built(16, 32, topology="leaf-pair", rails=2, peer_links=4)
    assert plugged(fabric, "n00016") == ["f-leaf-001 16", "f-leaf-002 16"]
    assert up(fabric, "f-leaf-001") == ["29", "30", "31", "32"]


# Kim et al., ISCA 2008: a dragonfly with p = h = 4, a = 8 of switches of 15 ports scales to 1,056 ends in 33 groups.
# Omni-Path: 48^3 / 4 = 27,648 ends on three tiers (Intel, product page of the 48-port edge switch).
@pytest.mark.parametrize(
    ("topology", "ports", "nodes", "counts"),
    [
        ("dragonfly", 15, 1_056, (264, 0, 0)),
        ("dragonfly+", 8, 272, (68, 68, 0)),
        ("fat-tree", 48, 27_648, (1_152, 1_152, 576)),
        ("fat-tree", 40, 800, (40, 20, 0)),
        ("fat-tree", 36, 11_664, (648, 648, 324)),
    ],
)
def test_the_largest_of_a_kind(topology: str, ports: int, nodes: int, counts: tuple[int, int, int]) -> None:
    fabric = built(nodes, ports, topology=topology)
    assert switches(fabric) == counts
    if topology.startswith("dragonfly"):
        joined = Counter(
            (fabric.devices[c.a].unit, fabric.devices[c.b].unit) for c in fabric.cables if c.kind == "global"
        )
        assert set(joined.values()) == {1}
    if nodes != 800:  # of which there are larger ones, of three tiers
        with pytest.raises(CannotBuildError):
            built(nodes + 1, ports, topology=topology)


@pytest.mark.parametrize(
    ("nodes", "counts", "cables"),
    [
        (8, (1, 0, 0), 64),  # 64 links on 64 ports
        (9, (3, 2, 0), 72 + 96),  # 32 places for ends on a leaf: 3 rails of 9 nodes, 3, then 2
        (16, (4, 2, 0), 128 + 128),  # 2 rails of 16
        (17, (8, 4, 0), 136 + 256),  # a leaf has no room for 2 rails of 17
        (32, (8, 4, 0), 256 + 256),
    ],
)
def test_few_nodes_share_leaves_among_rails(nodes: int, counts: tuple[int, int, int], cables: int) -> None:
    fabric = built(nodes, rails=8)
    assert switches(fabric) == counts
    assert len(fabric.cables) == cables
    assert oversubscription(fabric)["leaf"] <= 1.0
    assert metrics(fabric).bisection_gbps == nodes * 8 * 100 / 2


def test_rails_that_share_leaves_are_wired_by_node_then_rail() -> None:
    fabric = built(9, rails=8)
    assert plugged(fabric, "n00002") == [
        *(f"f-leaf-001 {port}" for port in (4, 5, 6)),
        *(f"f-leaf-002 {port}" for port in (4, 5, 6)),
        *(f"f-leaf-003 {port}" for port in (3, 4)),
    ]
    assert fabric.notes == (
        "rails share leaves, up to 3 each; up to 10 nodes no cable of a node moves; for more, set `designed_for`",
    )
    assert moves(fabric, built(10, rails=8)) == ()
    assert len(moves(fabric, built(11, rails=8))) > 0
    assert moves(built(9, rails=8, designed_for=32), built(32, rails=8)) == ()


def test_with_room_for_a_whole_unit_every_rail_has_its_leaf() -> None:
    """So who pulled cables for a unit that is filled later keeps each of them."""
    fabric = built(8, rails=8, designed_for=32)
    assert switches(fabric) == (8, 4, 0)
    assert plugged(fabric, "n00008") == [f"f-leaf-{rail:03} 8" for rail in range(1, 9)]


def test_uplinks_that_are_said_are_those_of_a_leaf_for_each_rail() -> None:
    """Of 16 links down and 16 up nothing is oversubscribed, however many ports are free."""
    fabric = built(16, rails=8, uplinks=16)
    assert switches(fabric) == (8, 2, 0)
    assert oversubscription(fabric) == {"leaf": 1.0}
    assert oversubscription(built(16, rails=8, uplinks=8)) == {"leaf": 2.0}
    assert oversubscription(built(16, rails=8, uplinks=8, designed_for=24)) == {"leaf": 3.0}, "places are kept"
    assert switches(built(8, rails=8, uplinks=8)) == (1, 0, 0)


def test_other_ends_of_leaves_that_rails_share_take_what_these_leave() -> None:
    """4 nodes of 3 rails and 20 others on leaves of 16 ports, 8 for ends: rails 1 and 2 fill one."""
    fabric = build(replace(asked(4, 16, rails=3), endpoints=(OtherEnd("storage", 20),)))
    assert plugged(fabric, "n00004") == ["f-leaf-001 7", "f-leaf-001 8", "f-leaf-002 4"]
    where = plugged(fabric, "storage")
    assert where[:5] == [*(f"f-leaf-002 {port}" for port in range(5, 9)), "f-leaf-003 1"]
    assert switches(fabric) == (4, 2, 0)
