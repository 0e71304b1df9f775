"""Shards of GPUs: how many each GPU of a node has."""

from __future__ import annotations

import pytest

from hpcforge.cluster.shards import shards


@pytest.mark.parametrize(
    ("asked", "count", "each"),
    [
        ({"all": 4}, 2, (4, 4)),
        ({"0,2": 8, "3": 2}, 4, (8, 0, 8, 2)),
        ({"0,2": 8, "3": 2}, 2, (8, 0)),  # an override: two are away
        ({"2-3": 8}, 2, ()),
        ({}, 2, ()),
    ],
)
def test_gpus_have_the_shards_that_are_said_of_them(asked: dict[str, int], count: int, each: tuple[int, ...]) -> None:
    assert shards(asked, count) == each
