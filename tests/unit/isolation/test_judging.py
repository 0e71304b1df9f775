"""What of a round is low."""

from __future__ import annotations

from benchmarks.simulated_cluster import Fault, World, fabric_of
from hpcforge.isolation.judging import judged
from hpcforge.isolation.state import Alone, NodeValues, Pair, Part, Results, Round, State
from hpcforge.isolation.wiring import NodeWiring

FOUR = NodeWiring(("a", "b", "c", "d"))
ALONE = Round(1, tuple(Alone(node, "first") for node in range(4)))


def values(*each: float) -> Results:
    return Results({node: NodeValues((value,)) for node, value in enumerate(each)})


def test_a_slow_node_and_a_silent_one_are_low() -> None:
    state = judged(State(FOUR), ALONE, values(1.0, 0.5, 1.0))
    assert [(seen.node, seen.silent) for seen in state.seen if seen.low] == [(1, False), (3, True)]
    assert state.counts["alone"].values == 3


def test_a_slow_moment_of_all_nodes_is_not_low() -> None:
    state = judged(State(FOUR), ALONE, values(1.0, 0.5, 1.0, 1.0))
    again = Round(2, (Alone(1, "repeat"), Alone(0, "control"), Alone(2, "control")))
    moment = Results({0: NodeValues((0.5,)), 1: NodeValues((0.5,)), 2: NodeValues((0.5,))})
    assert not [seen for seen in judged(state, again, moment).seen if seen.round == 2 and seen.low]


def test_one_slow_gpu_does_not_make_its_node_slow() -> None:
    results = Results({node: NodeValues((1.0, 1.0, 1.0, 0.6 if node == 2 else 1.0)) for node in range(4)})
    low = [part for seen in judged(State(FOUR), ALONE, results).seen for part in seen.low]
    assert low == [Part("gpu", 2, 3)]


def test_a_pair_without_values_is_silent() -> None:
    now = Round(2, pairs=(Pair(0, 1, "first"), Pair(2, 3, "first")))
    state = judged(State(FOUR), now, Results(pairs={(0, 1): (1.0, 1.0)}))
    assert [(met.a, met.silent, met.low) for met in state.met] == [(0, False, ()), (2, True, (0, 1))]


def test_a_rail_that_is_slow_as_a_whole_is_one_finding_and_makes_no_pair_low() -> None:
    of = fabric_of(64)
    world = World(of, 1, [Fault(Part("rail", 2), 0.5)], 0.0)
    now = Round(2, pairs=tuple(Pair(node, node + 1, "first") for node in range(0, 64, 2)))
    state = judged(State(of), now, world.measure(now))
    assert {*state.slow_rails} == {2}
    assert not [met for met in state.met if met.low]


def test_a_rail_on_which_a_pair_is_good_may_be_less_than_the_whole() -> None:
    of = fabric_of(8, 8, 8)
    faults = [Fault(Part("leaf", 6), 0.5), Fault(Part("node", 7), 0.5, of="network"), Fault(Part("cable", 5, 6), 0.5)]
    now = Round(2, pairs=tuple(Pair(a, b, "first") for a in range(8) for b in range(a + 1, 8)))
    state = judged(State(of), now, World(of, 1, faults, 0.0).measure(now))
    assert {finding.verdict for finding in state.slow_rails[6]} == {"could not tell"}


def test_pairs_inside_of_leaves_are_held_to_what_nodes_reach_across() -> None:
    """Most of the five pairs inside of a leaf are slow, since a node is; nodes of both leaves reach more."""
    of = fabric_of(8, 8, 8)
    faults = [Fault(Part("node", node), 0.5, of="network") for node in (1, 4)]
    now = Round(2, pairs=tuple(Pair(a, b, "first") for a in range(8) for b in range(a + 1, 8) if 6 not in (a, b)))
    state = judged(State(of), now, World(of, 1, faults, 0.0).measure(now))
    assert {(met.a, met.b) for met in state.met if met.low} == {(a, b) for a, b, _ in now.pairs if {a, b} & {1, 4}}
