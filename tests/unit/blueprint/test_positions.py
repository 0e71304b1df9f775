"""Places in racks: which node of a group has which, and how they are written to an inventory."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.positions import Place, given_places, with_positions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("schema: 1\n", "schema: 1\n\nNEW"),
        ("schema: 1", "schema: 1\n\nNEW"),
        ("schema: 1\npositions: {}\nnodes: {}\n", "schema: 1\nNEWnodes: {}\n"),
        ("schema: 1\npositions:\n  a: {rack: b, u: 1}\n\n  c: {rack: d, u: 2}\n\n# of nodes\nnodes: {}\n",
         "schema: 1\nNEW\n# of nodes\nnodes: {}\n"),
        ("positions:\n  a: {rack: b, u: 1}", "NEW"),
    ],
)  # fmt: skip
def test_only_positions_are_rewritten(before: str, after: str) -> None:
    new = with_positions("", {"w1": ("r1", 3)}).lstrip()
    assert new.endswith("\n  w1: {rack: r1, u: 3}\n")
    assert with_positions(before, {"w1": ("r1", 3)}) == after.replace("NEW", new)


@pytest.mark.parametrize(
    ("pinned", "places"),
    [
        ({}, {"w1": ("r1", 3), "w2": ("r1", 11), "w3": ("r2", 3)}),
        ({"w3": ("r1", 3)}, {"w1": ("r1", 11), "w2": ("r2", 3), "w3": ("r1", 3)}),
        ({"w2": ("r9", 3), "w1": ("r1", 4)}, {"w1": ("r1", 3), "w2": ("r1", 11), "w3": ("r2", 3)}),  # not the group's
        ({"other": ("r1", 3)}, {"w1": ("r1", 3), "w2": ("r1", 11), "w3": ("r2", 3)}),
    ],
)
def test_pinned_nodes_keep_their_place_and_others_take_the_next(
    pinned: dict[str, Place], places: dict[str, Place]
) -> None:
    assert given_places(["w1", "w2", "w3"], "r[1-2]", (3, 11), pinned) == places


def test_a_node_beyond_the_last_place_has_none() -> None:
    assert given_places(["w1", "w2"], "r1", (3,), {"w2": ("r1", 3)}) == {"w2": ("r1", 3)}


def test_without_positions_the_section_is_removed() -> None:
    assert with_positions("schema: 1\npositions:\n  a: {rack: b, u: 1}\nnodes: {}\n", {}) == "schema: 1\nnodes: {}\n"
