"""Nested groups of nodes: which share a switch, which share spines, and what leads out of each."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.design.fabric.switch_groups import among, levels
from tests.support.as_plugged import names, pair, rails
from tests.unit.design.fabric.asks import built


@pytest.mark.parametrize(
    ("nodes", "ports", "more", "by", "sizes"),
    [
        (8, 16, {"topology": "single-switch"}, ["leaf"], [[8]]),
        (16, 8, {"topology": "fat-tree"}, ["leaf", "spine"], [[4] * 4, [16]]),
        (64, 8, {"topology": "fat-tree"}, ["leaf", "spine", "core"], [[4] * 16, [16] * 4, [64]]),
        (36, 11, {"topology": "dragonfly", "groups": 2}, ["leaf", "group", "whole"], [[3] * 12, [18] * 2, [36]]),
    ],
)
def test_a_level_is_left_out_where_it_joins_nothing_new(
    nodes: int, ports: int, more: dict[str, Any], by: list[str], sizes: list[list[int]]
) -> None:
    nested = levels(built(nodes, ports, **more))
    assert [level.by for level in nested] == by
    assert [[len(group.nodes) for group in level.groups] for level in nested] == sizes


def test_the_rails_of_a_unit_are_one_group() -> None:
    fabric = rails(nodes=12)  # units of 8 nodes, four leaves each, 8 uplinks a leaf
    units, fabric_level = levels(fabric)
    assert [group.nodes for group in units.groups] == [names("gpu", 12)[:8], names("gpu", 12)[8:]]
    assert [[fabric.devices[switch].name for switch in group.switches] for group in units.groups] == [
        [f"compute-leaf-{number:03}" for number in range(first, first + 4)] for first in (1, 5)
    ]
    assert [group.up_gbps for group in units.groups] == [4 * 8 * 400.0] * 2
    assert [group.up_gbps for group in fabric_level.groups] == [0.0]


def test_a_leaf_pair_is_one_group() -> None:
    [only] = levels(pair())
    assert [len(group.switches) for group in only.groups] == [2]


def test_of_some_nodes_groups_without_any_are_left_out() -> None:
    units = levels(rails(nodes=12))[0]
    shares = among(units, ["gpu011", "gpu009", "stranger"])
    assert [(group.nodes[0], share) for group, share in shares] == [("gpu009", ("gpu009", "gpu011"))]
