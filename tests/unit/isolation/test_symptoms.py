"""Symptoms of pairs: which part shows them, and what is measured again before it is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.simulated_cluster import fabric_of
from hpcforge.isolation.judging import FLOORS, excesses, symptoms_again
from hpcforge.isolation.state import Conclusion, NodeValues, Part, Quantity, Results, Round, State, Symptom
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring

Value = Callable[[int, int, int], float]  # of a round and a pair
TRIP: Quantity = "round_trip_ms"


def concluded(
    nodes: int | NodeWiring, value: Value, quantity: Quantity = TRIP, slow: int | None = None
) -> tuple[int, Conclusion]:
    """Rounds and names of nodes with good rates; a `slow` one computes at half speed."""
    wiring = nodes if isinstance(nodes, NodeWiring) else NodeWiring(tuple(f"w{number}" for number in range(nodes)))
    state, now = begin(wiring)
    turn: Round | Conclusion = now
    rounds = 0
    while isinstance(turn, Round):
        rounds += 1
        alone = {test.node: NodeValues((0.5 if test.node == slow else 1.0,)) for test in turn.alone}
        pairs = {(pair.a, pair.b): (1.0, 1.0) * wiring.rails for pair in turn.pairs}
        values = [(turn.number, *pair, 0, quantity, value(turn.number, *pair)) for pair in pairs]
        state, turn = step(state, turn, Results(alone, pairs, tuple(Symptom(*each, each[-1]) for each in values)))
    return rounds, turn


def parts(outcome: Conclusion) -> list[Part]:
    return [each.part for each in outcome.excesses]


@pytest.mark.parametrize("quantity", FLOORS)
@pytest.mark.parametrize("nodes", [5, 8, 9, 33])
@pytest.mark.parametrize("bad", [0, 1, 4])
def test_a_node_is_named_when_all_its_pairs_show_it_in_three_rounds(nodes: int, bad: int, quantity: Quantity) -> None:
    _, outcome = concluded(nodes, lambda _, a, b: 50.3 if bad in (a, b) else 0.3, quantity)
    (excess,) = outcome.excesses
    assert (excess.part, excess.quantity, excess.measured, excess.usual) == (Part("cable", bad), quantity, 50.3, 0.3)
    assert len(excess.rounds) >= 3
    assert outcome.findings == ()


def test_a_path_is_named_when_its_ends_are_good_with_others() -> None:
    _, outcome = concluded(6, lambda _, a, b: 50.0 if (a, b) == (1, 4) else 0.3)
    assert parts(outcome) == [Part("pair", 1, 4)]


@pytest.mark.parametrize(
    "value",
    [
        lambda number, a, b: 50.0 if number == 2 and 1 in (a, b) else 0.3,  # once
        lambda number, a, b: 50.0 if number < 4 and 1 in (a, b) else 0.3,  # twice
        lambda number, _a, _b: 50.0 if number > 2 else 0.3,  # then all are slow: so are the control pairs
        lambda _, a, b: 50.0 if 1 in (a, b) and 2 not in (a, b) else 0.3,  # one partner shows that it is good: paths
        lambda _, a, b: 0.9 if 1 in (a, b) else 0.01,  # below the floor
        lambda _, a, b: 24.0 if 1 in (a, b) else 6.0,  # a busy fleet
    ],
)
def test_a_moment_or_a_busy_fleet_names_no_node(value: Value) -> None:
    rounds, outcome = concluded(6, value)
    assert [part for part in parts(outcome) if part.kind == "cable"] == []
    assert rounds <= 5


def test_healthy_pairs_are_not_measured_again() -> None:
    assert concluded(6, lambda _, a, b: 0.3 + 0.1 * (a + b)) == (2, Conclusion(()))


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("nodes", [5, 6, 8])
def test_a_longer_way_to_some_nodes_names_no_path_without_a_plan(nodes: int, room: int) -> None:
    _, outcome = concluded(nodes, lambda _, a, b: 0.02 if (a < room) == (b < room) else 4.0)
    assert parts(outcome) == ([Part("cable", 0)] if room == 1 else [])  # a node in a room of its own is far from all


@pytest.mark.parametrize("nodes", [24, 40])
def test_a_longer_way_between_two_rooms_names_no_path(nodes: int) -> None:
    of = fabric_of(nodes, 1, 16)
    assert len(of.units) > 1
    rounds, outcome = concluded(of, lambda _, a, b: 0.02 if of.unit_of[a] == of.unit_of[b] else 4.0)
    assert (rounds, outcome) == (3, Conclusion(()))


def test_a_node_of_two_rooms_is_named() -> None:
    of = fabric_of(40, 1, 16)
    _, outcome = concluded(of, lambda _, a, b: 50.0 if 5 in (a, b) else 0.02 if of.unit_of[a] == of.unit_of[b] else 4.0)
    assert parts(outcome) == [Part("cable", 5)]


def test_a_node_that_is_slow_alone_is_not_named_for_its_round_trip() -> None:
    _, outcome = concluded(6, lambda _, a, b: 90.0 if 2 in (a, b) else 0.3, slow=2)
    assert [finding.parts for finding in outcome.findings] == [(Part("node", 2),)]
    assert outcome.excesses == ()


def test_what_is_measured_again_are_suspects_with_good_partners_and_controls() -> None:
    state, now = begin(NodeWiring(tuple("abcdef")))
    alone = {node: NodeValues((1.0,)) for node in range(6)}
    state, turn = step(state, now, Results(alone))
    assert isinstance(turn, Round)
    met = [Symptom(2, p.a, p.b, 0, TRIP, 50.0 if 3 in p[:2] else 0.3, 50.0 if 3 in p[:2] else 0.3) for p in turn.pairs]
    state, turn = step(state, turn, Results({}, {(p.a, p.b): (1.0, 1.0) for p in turn.pairs}, tuple(met)))
    assert isinstance(turn, Round)
    why = {(pair.a, pair.b): pair.why for pair in turn.pairs}
    assert [pair for pair in why if why[pair] == "suspect"] != []
    assert all((3 in pair) == (why[pair] == "suspect") for pair in why)
    assert {*why.values()} == {"suspect", "control"}
    assert excesses(state, ()) == ()
    assert {(p.a, p.b) for p in symptoms_again(state, (), range(6))} == {*why}


def test_nothing_is_measured_again_of_a_state_without_symptoms() -> None:
    assert [*symptoms_again(State(NodeWiring(tuple("ab"))), (), (0, 1))] == []


@pytest.mark.parametrize("liar", [0, 2, 5])
def test_a_node_that_lies_of_its_pairs_makes_no_other_named_alone(liar: int) -> None:
    _, outcome = concluded(6, lambda _, a, b: 900.0 if a == liar else 0.3)
    named = [{part.of, part.at} if part.kind == "pair" else {part.of} for part in parts(outcome)]
    assert all(liar in ends for ends in named)
