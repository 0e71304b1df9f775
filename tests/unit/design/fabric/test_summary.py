"""What a fabric is said to carry, against the maximum flow of its graph as networkx finds it; and its ways."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcforge.design.fabric.graph import Fabric, columns, oversubscription
from hpcforge.design.fabric.spec import Ask, Model
from hpcforge.design.fabric.summary import (
    Half,
    flow_gbps,
    fold,
    halves,
    metrics,
    paths,
    without_cable,
    without_switch,
)
from tests.unit.design.fabric.asks import built
from tests.unit.design.fabric.test_properties import PROPERTIES, asks, buildable

TREES = ("single-switch", "leaf-pair", "fat-tree", "rail-optimised")
SWITCHED = ("leaf_spine", "spine_core", "peer", "local", "global")


def maximum_flow(fabric: Fabric, half: Half, lost: int | None = None, cut: int | None = None) -> float:
    """The maximum flow from the links that send to those that take, over every cable of the graph."""
    capacity: Counter[tuple[int | str, int | str]] = Counter()
    for number, cable in enumerate(fabric.cables):
        if number == cut or lost in (cable.a, cable.b):
            continue
        if cable.kind == "node_leaf":
            send = half(cable.b, [cable.a])
            capacity["from", cable.b] += send * fabric.rate_gbps  # type: ignore[assignment]
            capacity[cable.b, "to"] += (1 - send) * fabric.rate_gbps  # type: ignore[assignment]
        elif cable.kind in SWITCHED:
            capacity[cable.a, cable.b] += fabric.uplink_rate_gbps  # type: ignore[assignment]
            capacity[cable.b, cable.a] += fabric.uplink_rate_gbps  # type: ignore[assignment]
    graph = nx.DiGraph()
    graph.add_nodes_from(("from", "to"))
    graph.add_weighted_edges_from(((a, b, gbps) for (a, b), gbps in capacity.items()), weight="capacity")
    return float(nx.maximum_flow_value(graph, "from", "to"))


@PROPERTIES
@given(asks(TREES))
def test_folded_trees_carry_the_maximum_flow(ask: Ask) -> None:
    fabric = buildable(ask)
    whole = fold(fabric)
    for half in halves(fabric, whole):
        assert flow_gbps(whole, half) == pytest.approx(maximum_flow(fabric, half))


@PROPERTIES
@given(asks(TREES), st.data())
def test_what_a_failure_leaves_is_the_maximum_flow_of_the_rest(ask: Ask, data: st.DataObject) -> None:
    fabric = buildable(ask)
    whole = fold(fabric)
    switch = data.draw(st.sampled_from([n for n, device in enumerate(fabric.devices) if device.model]))
    cable = data.draw(st.integers(0, len(fabric.cables) - 1))
    for half in halves(fabric, whole):
        left = without_switch(fabric, whole, switch)
        assert flow_gbps(left, half) == pytest.approx(maximum_flow(fabric, half, lost=switch))
        left = without_cable(fabric, whole, cable)
        assert flow_gbps(left, half) == pytest.approx(maximum_flow(fabric, half, cut=cable))


@PROPERTIES
@given(asks(("dragonfly", "dragonfly+")))
def test_folded_dragonflies_carry_no_less_than_the_maximum_flow(ask: Ask) -> None:
    fabric = buildable(ask)
    whole = fold(fabric)
    for half in halves(fabric, whole):
        assert flow_gbps(whole, half) >= maximum_flow(fabric, half) - 1e-6


# Groups that are full and even in number: the halves are whole groups.
@pytest.mark.parametrize(
    ("topology", "ports", "groups", "nodes"),
    [("dragonfly", 11, 2, 36), ("dragonfly", 11, 4, 72), ("dragonfly+", 8, 2, 32), ("dragonfly+", 8, 4, 64)],
)
def test_folded_dragonflies_of_whole_groups_carry_the_maximum_flow(
    topology: str, ports: int, groups: int, nodes: int
) -> None:
    fabric = built(nodes, ports, topology=topology, groups=groups)
    whole = fold(fabric)
    by_nodes, by_leaves = halves(fabric, whole)
    assert len({device.unit for device in fabric.devices if device.kind == "leaf"}) == groups
    assert flow_gbps(whole, by_nodes) == pytest.approx(maximum_flow(fabric, by_nodes))
    assert flow_gbps(whole, by_leaves) == pytest.approx(maximum_flow(fabric, by_leaves))


@pytest.mark.parametrize(("ratio", "down", "up"), [(1, 20, 20), (2, 26, 13), (4, 32, 8), (1.5, 24, 16)])
def test_bisection_of_whole_leaves_is_half_of_their_uplinks(ratio: float, down: int, up: int) -> None:
    fabric = built(4 * down, 40, topology="fat-tree", leaf_oversubscription=float(ratio))
    assert (fabric.count("leaf"), fabric.end_ports, fabric.cable_counts["leaf_spine"]) == (4, down, 4 * up)
    assert oversubscription(fabric) == {"leaf": pytest.approx(down / up)}
    assert metrics(fabric).bisection_gbps == 4 * up * 100 / 2


def test_what_is_oversubscribed_carries_less_in_proportion() -> None:
    """8 leaves of 12 ends and 4 uplinks on 16-port switches: half of 8 x 4 links cross, of 8 x 12 / 2 that would."""
    fabric = built(96, 16, topology="fat-tree", leaf_oversubscription=3.0)
    assert (fabric.count("leaf"), fabric.count("spine")) == (8, 2)
    assert metrics(fabric).bisection_gbps == 8 * 4 * 100 / 2
    three = built(2 * 12 * 16, 16, topology="fat-tree", leaf_oversubscription=3.0, spine_oversubscription=2.0)
    assert three.tiers == 3
    assert oversubscription(three)["spine"] > 1
    even = built(2 * 12 * 16, 16, topology="fat-tree")
    assert metrics(three).bisection_gbps < metrics(even).bisection_gbps


@pytest.mark.parametrize(
    ("nodes", "ports", "more"),
    [(24, 8, {}), (96, 8, {"topology": "fat-tree"}), (40, 8, {"rails": 2}), (90, 12, {"rails": 3})],
)
def test_ways_between_leaves(nodes: int, ports: int, more: dict[str, Any]) -> None:
    """Numbers of shortest ways, and of ways that share no cable, as networkx counts them on the multigraph."""
    fabric = built(nodes, ports, **more)
    leaves = [n for n, device in enumerate(fabric.devices) if device.kind == "leaf"]
    links = Counter(pair for kind in ("leaf_spine", "spine_core") for pair in zip(*columns(fabric, kind), strict=True))
    spine_group = {a: fabric.devices[b].unit for (a, b) in links if fabric.devices[a].kind == "leaf"}
    near = [leaf for leaf in leaves[1:] if spine_group[leaf] == spine_group[leaves[0]]]
    far = [leaf for leaf in leaves[1:] if spine_group[leaf] != spine_group[leaves[0]]]
    found = paths(fabric)
    assert len(found) == bool(near) + bool(far)
    graph = nx.Graph()
    graph.add_weighted_edges_from(((a, b, count) for (a, b), count in links.items()), weight="capacity")
    for one, leaf in zip(found, [group[-1] for group in (near, far) if group], strict=True):
        ways = list(nx.all_shortest_paths(graph, leaves[0], leaf))
        assert one.ways == sum(product_of(links, way) for way in ways)
        assert one.switches == len({way[len(way) // 2] for way in ways})
        assert one.disjoint == nx.maximum_flow_value(graph, leaves[0], leaf)


def product_of(links: Counter[tuple[int, int]], way: list[int]) -> int:
    count = 1
    for a, b in pairwise(way):
        count *= links[a, b] or links[b, a]
    return count


def test_what_failures_cost() -> None:
    """127 DGX H100: a leaf is the eighth part of 32 nodes; a spine two links of each leaf; a link is a link."""
    model = Model("qm9700", 64, 64)
    fabric = built(127, rails=8, leaf=model, spine=model, rate_gbps=400.0, uplink_rate_gbps=400.0)
    cost = {failure.what: failure for failure in metrics(fabric).failures}
    assert set(cost) == {"leaf", "spine", "node_leaf", "leaf_spine"}
    assert (cost["leaf"].links_lost, cost["leaf"].nodes_cut_off) == (32, 0)
    assert (cost["spine"].links_lost, cost["spine"].alike) == (0, 16)
    assert cost["spine"].bisection_gbps == pytest.approx(127 * 8 * 200 - 12_000)
    assert (cost["node_leaf"].links_lost, cost["node_leaf"].nodes_cut_off) == (1, 0)
    assert cost["node_leaf"].name == "n00001 rail 1 - f-leaf-001 1"


def test_the_loss_of_one_of_a_pair_cuts_nobody_off_and_of_a_single_switch_everybody() -> None:
    pair = {failure.what: failure for failure in metrics(built(16, topology="leaf-pair", rails=2)).failures}
    assert (pair["leaf"].links_lost, pair["leaf"].nodes_cut_off) == (16, 0)
    assert pair["leaf"].bisection_gbps == metrics(built(16, topology="leaf-pair", rails=2)).bisection_gbps / 2
    one = {failure.what: failure for failure in metrics(built(16, topology="single-switch")).failures}
    assert (one["leaf"].nodes_cut_off, one["leaf"].bisection_gbps) == (16, 0)
