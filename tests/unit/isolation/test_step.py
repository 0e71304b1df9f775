"""From measurements to the next round, or to names; on simulated clusters."""

from __future__ import annotations

import pytest

from benchmarks.simulate_isolation import FAULTS, RARE, Fault, World, fabric_of, isolate, planted
from hpcforge.isolation.state import Conclusion, Kind, Part, Round
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring


def named(world: World) -> set[tuple[str, Part]]:
    return {(finding.verdict, part) for finding in isolate(world).outcome.findings for part in finding.parts}


@pytest.mark.parametrize("kind", [*FAULTS, *RARE])
def test_the_bad_part_is_named_and_nothing_else(kind: tuple[Kind, float]) -> None:
    of = fabric_of(104)
    faults = planted(of, 7, [kind], 1)
    assert named(World(of, 7, faults, 1 / 500)) == {("bad", fault.part) for fault in faults}


def test_five_bad_parts_are_named() -> None:
    of = fabric_of(128)
    faults = planted(of, 3, FAULTS, 5)
    assert named(World(of, 3, faults, 1 / 500)) == {("bad", fault.part) for fault in faults}


@pytest.mark.parametrize("glitches", [0.0, 1 / 500, 1 / 50])
def test_healthy_nodes_are_not_accused(glitches: float) -> None:
    of = fabric_of(64)
    for seed in range(3):
        assert named(World(of, seed, (), glitches)) == set()


def test_eight_nodes_without_a_plan() -> None:
    of = NodeWiring(tuple("abcdefgh"))
    for part, factor in ((Part("cable", 2), 0.05), (Part("pair", 1, 4), 0.0), (Part("node", 5), 0.3)):
        assert named(World(of, 5, [Fault(part, factor)], 0.0)) == {("bad", part)}
    assert isolate(World(of, 5, (), 0.0)).rounds == 2


def test_2048_nodes_are_judged_within_16_rounds() -> None:
    of = fabric_of(2048)
    world = World(of, 2, planted(of, 2, FAULTS, 3), 1 / 500)
    told: Round | Conclusion
    state, told = begin(of)
    rounds = 0
    while isinstance(told, Round):
        rounds += 1
        assert rounds <= 16
        state, told = step(state, told, world.measure(told))
    assert isinstance(told, Conclusion)
