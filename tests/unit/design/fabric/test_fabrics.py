"""Fabrics of a blueprint: ports of the catalog that they use, and cables that growth moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.design.fabric.fabrics import moves
from tests.unit.design.fabric.asks import blueprint, built, loaded, switches
from tests.unit.design.fabric.test_build import plugged, up


def test_a_switch_with_ports_for_uplinks_uses_them(tmp_path: Path) -> None:
    """SN2201: 48 x 1 Gb/s are 0.48 of one uplink of 100 Gb/s; two are used, so that one may fail."""
    text = "  oob: {kind: ethernet, rate_gbps: 1, topology: fat-tree, switch: sn2201, spine_switch: sn4600}"
    [fabric] = loaded(blueprint(tmp_path, text, 99)).fabrics
    assert switches(fabric) == (3, 1, 0)
    assert (fabric.end_ports, fabric.uplink_rate_gbps) == (48, 100)
    assert [up(fabric, f"oob-leaf-00{number}") for number in (1, 3)] == [["49", "50"]] * 2
    assert plugged(fabric, "w00048") == ["oob-leaf-002 1"]


@pytest.mark.parametrize(("switch", "uplinks"), [("sn2410", 8), ("sn3420", 12), ("arista-7050sx3-48yc8", 8)])
def test_nodes_of_25_gbe_are_on_switches_of_the_catalog(tmp_path: Path, switch: str, uplinks: int) -> None:
    """48 x 25 Gb/s are 12 uplinks of 100 Gb/s; of a switch with 8 it takes 32 ports for as much to go up as down."""
    text = f"  ether: {{kind: ethernet, rate_gbps: 25, topology: fat-tree, switch: {switch}, spine_switch: sn4600}}"
    [fabric] = loaded(blueprint(tmp_path, text, 99)).fabrics
    assert (fabric.end_ports, fabric.rate_gbps, fabric.uplink_rate_gbps) == (4 * uplinks, 25, 100)
    assert up(fabric, "ether-leaf-001") == [str(49 + link) for link in range(uplinks)]


def test_nodes_of_the_blueprint_may_be_other_ends(tmp_path: Path) -> None:
    text = (
        "  compute: {kind: infiniband, rate_gbps: 400, topology: rail-optimised, rails: 8, switch: qm9700, nodes: all, "
        "subnet_manager: head01, endpoints: {sm: {nodes: head01}}}"
    )
    [fabric] = loaded(blueprint(tmp_path, text, 31)).fabrics
    assert fabric.devices[31].name == "head01"
    assert (fabric.devices[31].kind, fabric.cable_counts["other_leaf"]) == ("endpoint", 1)
    assert plugged(fabric, "head01") == ["compute-leaf-001 16/2"]


def test_growth_within_the_spines_moves_nothing_and_to_twice_the_spines_half() -> None:
    three, four = built(96, rails=8), built(128, rails=8)
    assert moves(three, four) == ()
    one, two = built(32, rails=8), built(64, rails=8)
    assert (switches(one)[1], switches(two)[1]) == (4, 8)
    moved = moves(one, two)
    assert {move.kind for move in moved} == {"leaf_spine"}
    assert len(moved) == one.cable_counts["leaf_spine"] // 2
    assert all(move.to and move.to[:2] == move.taken[:2] for move in moved), "the ends at the leaves stay"


def test_beyond_designed_for_the_moves_are_told(tmp_path: Path) -> None:
    text = (
        "  compute: {kind: infiniband, rate_gbps: 400, topology: rail-optimised, rails: 8, switch: qm9700, "
        "nodes: worker, subnet_manager: on-switch, designed_for: 32}"
    )
    [within] = loaded(blueprint(tmp_path, text, 32)).fabrics
    assert (within.designed, within.moves) == (None, ())
    [beyond] = loaded(blueprint(tmp_path, text, 40)).fabrics
    assert (beyond.designed, beyond.designed_for, len(beyond.moves)) == (32, 40, 128)
    taken = {move.taken for move in beyond.moves}
    assert {move.taken[0] for move in beyond.moves} == {f"compute-leaf-{leaf:03}" for leaf in range(1, 9)}
    assert len(taken) == 128
