"""What is measured again."""

from __future__ import annotations

from hpcforge.isolation.evidence import Evidence
from hpcforge.isolation.explain import explain
from hpcforge.isolation.state import State
from hpcforge.isolation.step import pairs_again
from hpcforge.isolation.wiring import NodeWiring
from tests.unit.isolation.test_explain import told

SIX = NodeWiring(("a", "b", "c", "d", "e", "f"))


def again(state: State, usable: set[int]) -> dict[tuple[int, int], str]:
    evidence = Evidence(state)
    return {(pair.a, pair.b): pair.why for pair in pairs_again(evidence, explain(evidence, set()), usable)}


def test_a_low_pair_repeats_and_both_ends_meet_others() -> None:
    chosen = again(told((2, 0, 1, True), (2, 2, 3, False), (2, 4, 5, False), of=SIX), {*range(6)})
    assert chosen.pop((0, 1)) == "repeat"
    assert {node for pair, why in chosen.items() if why == "suspect" for node in pair} >= {0, 1}
    assert sum(0 in pair for pair in chosen) == 2


def test_ends_that_are_known_to_be_good_meet_each_other_alone() -> None:
    state = told((2, 0, 2, False), (2, 1, 3, False), (3, 0, 1, True), of=SIX)
    assert {pair for pair, why in again(state, {*range(6)}).items() if why != "control"} == {(0, 1)}


def test_nothing_is_asked_of_a_node_that_gives_no_answer() -> None:
    assert again(told((2, 0, 1, True), (2, 2, 3, False), of=SIX), {1, 2, 3, 4, 5}).keys().isdisjoint({(0, 1)})


def test_good_pairs_are_measured_beside_those_that_repeat() -> None:
    state = told((2, 0, 2, False), (2, 1, 3, False), (2, 4, 5, False), (3, 0, 1, True), of=SIX)
    assert again(state, {*range(6)})[4, 5] == "control"
