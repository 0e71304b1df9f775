"""Trees of two and three tiers: which port of which spine and core a link has, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.design.fabric.graph import Fabric
from hpcforge.design.fabric.spec import CannotBuildError
from tests.unit.design.fabric.asks import built


def links(fabric: Fabric, kind: str, switch: str) -> list[tuple[int, str, int]]:
    """Port of a switch, the switch above, and its port."""
    number = fabric.index[switch]
    return [
        (cable.a_port, fabric.devices[cable.b].name, cable.b_port)
        for cable in fabric.cables
        if (cable.kind, cable.a) == (kind, number)
    ]


@pytest.mark.parametrize("leaf", [1, 2, 3])
def test_a_leaf_has_one_link_to_each_spine_before_the_second(leaf: int) -> None:
    """Three leaves of 8 + 8 and two spines of 16: four links to each, of which every fourth port is a leaf's."""
    fabric = built(17, 16, topology="fat-tree")
    assert links(fabric, "leaf_spine", f"f-leaf-00{leaf}") == [
        (9 + link, f"f-spine-00{1 + link % 2}", leaf + 4 * (link // 2)) for link in range(8)
    ]


def test_spines_of_a_position_are_joined_by_the_cores_of_a_plane() -> None:
    fabric = built(64, 8, topology="fat-tree")  # 4 groups of 4 leaves and 4 spines, 8 cores
    assert (fabric.tiers, fabric.count("leaf"), fabric.count("spine"), fabric.count("core")) == (3, 16, 16, 8)
    planes = {device.name: device.unit for device in fabric.devices if device.kind == "core"}
    by_position = [
        {planes[core] for _, core, _ in links(fabric, "spine_core", f"f-spine-{group * 4 + position:03}")}
        for position in (1, 2)
        for group in range(4)
    ]
    assert by_position == [{0}] * 4 + [{1}] * 4
    ports = [(cable.b, cable.b_port) for cable in fabric.cables if cable.kind == "spine_core"]
    assert len(set(ports)) == len(ports) == 64


@pytest.mark.parametrize(
    ("nodes", "more", "arithmetic"),
    [
        (129, {}, "129 nodes x 1 = 129 links > 128 = 8 groups x 4 leaves x 4 ends = 8^3 / 4"),
        (129, {"rails": 3}, "129 nodes x 3 = 387 links > 96 = 6 groups x 4 leaves x 4 ends"),
        (300, {"breakout": 2}, "300 nodes x 1 = 300 links > 256 = 8 groups x 4 leaves x 8 ends"),
    ],
)
def test_more_than_three_tiers_take_is_an_error_with_the_bound(
    nodes: int, more: dict[str, Any], arithmetic: str
) -> None:
    topology = "rail-optimised" if "rails" in more else "fat-tree"
    with pytest.raises(CannotBuildError) as refused:
        built(nodes, 8, topology=topology, **more)
    assert (refused.value.code, refused.value.arithmetic) == ("FABRIC-001", arithmetic)
