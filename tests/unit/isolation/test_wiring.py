"""Where the links of nodes end, by the fabric's plan."""

from __future__ import annotations

from benchmarks.simulated_cluster import fabric_of
from hpcforge.design.fabric.build import build
from hpcforge.design.fabric.spec import Ask, Model
from hpcforge.isolation.wiring import NodeWiring, wiring

SWITCH = Model("64-port", 64, 64)


def test_each_rail_of_a_node_is_on_a_leaf_of_its_own() -> None:
    of = fabric_of(70)
    assert [len(unit) for unit in of.units] == [32, 32, 6]
    assert len({*of.leaf[33]}) == 8
    assert of.place[33] == (1,) * 8
    assert of.uplinks[of.leaf[33][0]] == 32
    assert of.crosses(1, 33, 0)
    assert not of.crosses(32, 33, 0)
    assert {*of.reached_over(of.leaf[0][3], 1, 3)} == {33, 65}


def test_without_a_plan_there_are_only_nodes() -> None:
    fabric = build(Ask("x", "roce", "fat-tree", 100, 100, ("a", "b"), SWITCH, SWITCH))
    assert wiring(("a", "c"), fabric) == NodeWiring(("a", "c"))
    assert wiring(("a", "b"), None).units == ((0, 1),)


def test_routes_of_a_dragonfly_are_not_known() -> None:
    names = tuple(f"n{number}" for number in range(200))
    ask = Ask("x", "infiniband", "dragonfly", 100, 100, names, SWITCH, SWITCH)
    of = wiring(names, build(ask))
    assert of.known
    assert of.uplink(0, 150, 0) is None
