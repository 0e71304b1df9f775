"""How many ranks a test gets: the number that it needs, or why there is none."""

from __future__ import annotations

import pytest

from hpcforge.cluster.launches import SHARING, RankNeeds, RanksError, divided, ranks_per_node


@pytest.mark.parametrize(
    ("needs", "nodes", "usual", "gpus", "expected"),
    [
        (RankNeeds(), 3, 2, 0, 2),
        (RankNeeds(), 4, 8, 8, 8),
        (RankNeeds(per_node=2), 2, 1, 0, 2),
        (RankNeeds(multiple_of=4), 2, 1, 0, 2),  # ranks without GPUs share cores
        (RankNeeds(multiple_of=4), 3, 8, 8, 8),
        (RankNeeds(at_most=8), 2, 8, 8, 4),
        (RankNeeds(multiple_of=4, at_most=8), 1, 6, 6, 4),
        (RankNeeds(multiple_of=16, at_most=16), 1, 1, 0, 16),
    ],
)
def test_the_number(needs: RankNeeds, nodes: int, usual: int, gpus: int, expected: int) -> None:
    assert ranks_per_node(needs, nodes, usual, gpus) == expected


@pytest.mark.parametrize(
    ("needs", "nodes", "usual", "gpus", "said"),
    [
        (RankNeeds(per_node=4), 2, 2, 2, "it needs 4 ranks on each node, and a node has 2 GPUs"),
        (RankNeeds(at_most=8), 9, 8, 8, "it needs at most 8 ranks: 9 nodes with 1 to 8 ranks each have none"),
        (
            RankNeeds(multiple_of=4, at_most=8),
            3,
            1,
            0,
            "it needs a multiple of 4 and at most 8 ranks: 3 nodes with 1 to 4 ranks each have none",
        ),
        (RankNeeds(2, 3), 2, 1, 0, "it needs a multiple of 3 ranks: 2 nodes with 2 ranks each have none"),
        (RankNeeds(multiple_of=100_000), 1, 1, 0, f"1 nodes with 1 to {SHARING} ranks each have none"),
    ],
)
def test_or_why_there_is_none(needs: RankNeeds, nodes: int, usual: int, gpus: int, said: str) -> None:
    with pytest.raises(RanksError, match=said):
        ranks_per_node(needs, nodes, usual, gpus)


def test_a_part_of_the_ranks_is_exact() -> None:
    assert divided(2, 2, 2) == (2, 1)
    assert divided(2, 1, 2) == (1, 1)
    assert divided(2, 3, 2) == (1, 3)
    for nodes in range(1, 13):
        for per_node in range(1, 13):
            for by in (by for by in range(1, nodes * per_node + 1) if nodes * per_node % by == 0):
                some, each = divided(nodes, per_node, by)
                assert some * each * by == nodes * per_node
                assert 1 <= some <= nodes
                assert 1 <= each <= per_node
