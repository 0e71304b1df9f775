"""Three rounds load every part that can carry traffic, whatever the number of nodes."""

from __future__ import annotations

import pytest

from benchmarks.simulate_isolation import covered
from benchmarks.simulated_cluster import fabric_of
from hpcforge.isolation.cover import across, inside, unmet
from hpcforge.isolation.state import Met, State
from hpcforge.isolation.wiring import NodeWiring


@pytest.mark.parametrize("nodes", [2, 3, 8, 9, 31, 32, 33, 47, 64, 65, 96, 97, 127, 232, 257])
def test_every_cable_and_every_uplink_of_a_full_leaf_carries_traffic(nodes: int) -> None:
    cables, uplinks, _ = covered(nodes)
    assert (cables, uplinks) == (0, 0)


def test_a_few_nodes_without_a_plan_meet_each_other_once() -> None:
    pairs = inside(NodeWiring(tuple("abcdefg")), range(7))
    assert len(pairs) == len({frozenset(pair) for pair in pairs}) == 21


def test_nodes_that_give_no_answer_have_no_partner() -> None:
    of = fabric_of(64)
    pairs = [*inside(of, {*range(64)} - {5}), *across(of, {*range(64)} - {5})]
    assert all(5 not in pair for pair in pairs)
    assert {node for pair in pairs for node in pair} == {*range(64)} - {5}


def test_a_node_that_has_met_no_other_gets_a_partner() -> None:
    state = State(fabric_of(4), met=(Met(2, 0, 1, (), (), False),))
    assert unmet(state, range(4)) == [(2, 0), (3, 0)]
