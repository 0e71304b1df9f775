"""What measurements say about each part."""

from __future__ import annotations

from hpcforge.isolation.evidence import Evidence
from hpcforge.isolation.state import Counts, FleetLine, Met, Part, State
from hpcforge.isolation.wiring import NodeWiring

THREE = NodeWiring(("a", "b", "c"))
LINES = {"inside": FleetLine(0.9, 1.0), "inside 0": FleetLine(0.9, 1.0)}


def evidence(*met: Met) -> Evidence:
    return Evidence(State(THREE, met=met, lines=LINES, counts={"pair": Counts(40)}))


def partners(of: Evidence, part: Part) -> set[int]:
    return {other for ways in of.bad_ways(part) for other in ways.low.values()}


def test_a_pair_without_an_answer_does_not_tell_which_direction_is_bad() -> None:
    silent = Met(2, 0, 1, (0, 1), (0.0, 0.0), silent=True)
    sends = evidence(silent, Met(2, 1, 2, (0,), (0.5,), silent=False))
    assert partners(sends, Part("cable", 1)) == {2}
    both = evidence(silent, Met(2, 1, 2, (0, 1), (0.5, 0.5), silent=False))
    assert partners(both, Part("cable", 1)) == {0, 2}


def test_a_finding_has_the_median_of_its_low_values_and_their_rounds() -> None:
    of = evidence(Met(2, 0, 1, (0, 1), (0.4, 0.5), silent=False), Met(4, 0, 2, (1,), (0.6,), silent=False))
    found = of.finding("bad", (Part("cable", 0),), of.lows)
    assert (found.measured, found.low, found.good, found.rounds) == (0.5, 3, 0, (2, 4))
    assert found.line == LINES["inside"]
