"""One node that reports what it likes, beside healthy and dead ones: no healthy node is named."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from hpcforge.isolation.names import PartNames
from hpcforge.isolation.state import NodeValues, Results, Round
from hpcforge.isolation.step import begin, step
from hpcforge.isolation.wiring import NodeWiring

Lie = Callable[[int, int, random.Random], float]  # of a round and of the other node, itself for what it computes
LIES: dict[str, Lie] = {
    "the most": lambda _round, _other, _chance: 1e5,
    "nothing": lambda _round, _other, _chance: 0.0,
    "nothing of one": lambda _round, other, _chance: 0.0 if other == 1 else 40.0,
    "the most but of one": lambda _round, other, _chance: 40.0 if other == 1 else 1e5,
    "by turns": lambda number, _other, _chance: 0.0 if number % 2 else 40.0,
    "at random": lambda _round, _other, chance: chance.choice([0.0, 1e-9, 20.0, 40.0, 80.0, 1e5]),
}


def accused(nodes: int, liar: int, dead: frozenset[int], lie: Lie) -> set[tuple[str, ...]]:
    """The nodes of each finding; those of a pair together."""
    chance = random.Random(liar)
    wiring = NodeWiring(tuple(f"w{number}" for number in range(nodes)))
    names = PartNames(wiring)
    state, told = begin(wiring)
    while isinstance(told, Round):
        alone = {
            test.node: NodeValues(
                tuple(lie(told.number, liar, chance) if test.node == liar else chance.gauss(40, 0.2) for _ in range(2))
            )
            for test in told.alone
            if test.node not in dead
        }
        pairs = {}
        for a, b, _ in told.pairs:
            if a == liar:  # the first of a pair reports it
                pairs[a, b] = (lie(told.number, b, chance), lie(told.number, b, chance))
            elif dead.isdisjoint((a, b)):
                slow = min(40.0, lie(told.number, a, chance)) / 40 if b == liar else 1.0
                pairs[a, b] = (slow * chance.gauss(40, 0.2), slow * chance.gauss(40, 0.2))
        pairs = {pair: values for pair, values in pairs.items() if dead.isdisjoint(pair)}
        state, told = step(state, told, Results(alone, pairs))
    return {tuple(name for part in finding.parts for name in names.nodes(part)) for finding in told.findings}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize(("nodes", "dead"), [(5, 0), (5, 2), (5, 3), (8, 0), (8, 4), (8, 5), (17, 0)])
def test_a_node_that_lies_makes_no_healthy_node_named(nodes: int, dead: int, lie: Lie) -> None:
    for liar in (0, nodes // 2, nodes - 1):
        others = [node for node in range(nodes) if node not in (liar, 1)]
        away = frozenset(others[::-1][:dead])
        guilty = {f"w{node}" for node in {liar, *away}}
        for named in accused(nodes, liar, away, lie):
            assert guilty & {*named}, (liar, away, named)
