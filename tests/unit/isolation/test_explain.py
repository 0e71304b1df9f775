"""The fewest parts that explain what was low."""

from __future__ import annotations

from hpcforge.isolation.evidence import Evidence
from hpcforge.isolation.explain import explain
from hpcforge.isolation.state import Counts, FleetLine, Met, Part, State
from hpcforge.isolation.wiring import NodeWiring

LINES = {"inside": FleetLine(0.9, 1.0), "inside 0": FleetLine(0.9, 1.0)}
NODES = NodeWiring(("a", "b", "c", "d"))


def told(*met: tuple[int, int, int, bool], of: NodeWiring = NODES) -> State:
    """Pairs as measured: round, both nodes, whether both directions were low."""
    every = tuple(Met(r, a, b, (0, 1) if low else (), (0.4, 0.4) if low else (), False) for r, a, b, low in met)
    return State(of, met=every, lines=LINES, counts={"pair": Counts(40)})


def test_what_is_low_with_every_partner_is_bad() -> None:
    state = told((2, 0, 1, True), (2, 2, 3, False), (3, 0, 2, True), (3, 1, 3, False), (3, 0, 3, True))
    found = explain(Evidence(state), set())
    assert [(finding.verdict, finding.parts, finding.low) for finding in found.findings] == [
        ("bad", (Part("cable", 0),), 6)
    ]
    assert not found.open


def test_two_nodes_that_only_cannot_talk_to_each_other_are_a_bad_path() -> None:
    others = [(2, 0, 2, False), (2, 1, 3, False)]
    found = explain(Evidence(told((2, 0, 1, True), *others, (3, 0, 1, True), (4, 0, 1, True))), set())
    assert [finding.parts for finding in found.findings] == [(Part("pair", 0, 1),)]


def test_two_nodes_alone_cannot_be_told_apart() -> None:
    state = told((2, 0, 1, True), (3, 0, 1, True), (4, 0, 1, True), of=NodeWiring(("a", "b")))
    (finding,) = explain(Evidence(state), set()).findings
    assert finding.verdict == "could not tell"
    assert {*finding.parts} == {Part("cable", 0), Part("cable", 1)}


def test_a_low_value_passes_if_the_pair_is_good_later() -> None:
    found = explain(Evidence(told((2, 0, 1, True), (3, 0, 1, False))), set())
    assert (found.findings, found.open, found.passing) == ((), (), 2)


def test_a_part_that_is_low_now_and_then_is_unsteady() -> None:
    rounds = [(2 + number, 0, 1 + number % 3, number % 2 == 0) for number in range(10)]
    (finding,) = explain(Evidence(told(*rounds)), set()).findings
    assert (finding.verdict, finding.parts, finding.low, finding.good) == ("unsteady", (Part("cable", 0),), 10, 10)


def test_a_bad_node_explains_its_pairs() -> None:
    state = told((2, 0, 1, True), (3, 0, 1, True), (4, 0, 2, True))
    assert explain(Evidence(state), {Part("node", 0)}).findings == ()


def test_a_part_whose_low_values_are_explained_names_nothing_more() -> None:
    """Node 0 is always low in what it sends, and half of the time in what it receives."""
    sends = tuple(
        Met(r, 0, 1 + r % 3, (0, 1) if r < 5 else (0,), (0.4, 0.4)[: 2 if r < 5 else 1], False) for r in range(2, 8)
    )
    found = explain(Evidence(State(NODES, met=sends, lines=LINES, counts={"pair": Counts(40)})), set())
    assert [
        (finding.verdict, finding.parts, finding.low) for finding in found.findings if finding.verdict == "bad"
    ] == [("bad", (Part("cable", 0),), 6)]


def test_low_values_of_another_bad_part_say_nothing() -> None:
    state = told((2, 2, 3, False), (2, 0, 1, True), (3, 0, 2, True), (4, 0, 3, True), (5, 0, 1, True), (4, 1, 2, True))
    assert [finding.parts for finding in explain(Evidence(state), set()).findings] == [(Part("cable", 0),)]


def test_of_three_nodes_one_whose_partners_are_both_bad_is_not_named() -> None:
    """Node 2 is slow, and node 1 in what it sends: all that node 0 receives is low, too."""
    met = tuple(
        each
        for r in range(2, 8)
        for each in (
            Met(r, 0, 1, (1,), (0.5,), False),
            Met(r, 0, 2, (0, 1), (0.5, 0.5), False),
            Met(r, 1, 2, (0, 1), (0.5, 0.5), False),
        )
    )
    three = NodeWiring(("a", "b", "c"))
    found = explain(Evidence(State(three, met=met, lines=LINES, counts={"pair": Counts(60)})), set())
    assert [(finding.verdict, finding.parts) for finding in found.findings] == [("bad", (Part("cable", 2),))]


def test_a_path_across_leaves_may_be_an_uplink_that_routes_take_unlike_the_plan() -> None:
    of = NodeWiring(tuple("abcd"), 1, ((0,), (0,), (1,), (1,)), ((0,), (1,), (0,), (1,)), (2, 2))
    others = [(2, 0, 1, False), (2, 2, 3, False), (2, 0, 3, False), (2, 1, 2, False)]
    state = told(*others, (3, 0, 2, True), (4, 0, 2, True), (5, 0, 2, True), of=of)
    (finding,) = explain(Evidence(state), set()).findings
    assert (finding.verdict, finding.parts) == ("could not tell", (Part("pair", 0, 2),))
