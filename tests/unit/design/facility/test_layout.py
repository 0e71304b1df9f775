"""Items in racks, and racks while they are filled."""

from __future__ import annotations

import pytest

from hpcforge.design.facility.layout import Filling, Item, allowed_racks, item_of
from hpcforge.design.facility.room import Load
from tests.unit.design.facility.designs import CASES, loaded

ROOM = loaded(CASES / "valid.yaml").placed.room
LOAD = Load("x", 500.0, None, 10.0)


def item(u: int, height: int = 1, units: tuple[int, ...] = ()) -> Item:
    return Item("x", "equipment", LOAD, u, height, "given", units=units)


@pytest.mark.parametrize(
    ("thing", "units", "runs"),
    [
        (item(3, 2), (3, 4), ((3, 4),)),
        (item(1, units=(1, 2, 40)), (1, 2, 40), ((40,), (1, 2))),
        (item(5, units=(5, 7, 8)), (5, 7, 8), ((7, 8), (5,))),
    ],
)
def test_units_of_an_item_run_from_the_top_down(
    thing: Item, units: tuple[int, ...], runs: tuple[tuple[int, ...], ...]
) -> None:
    assert (thing.taken, thing.runs) == (units, runs)


def filling(*items: Item) -> Filling:
    rack = Filling(ROOM.racks["r1"])  # 42 units
    for thing in items:
        rack.put(thing)
    return rack


@pytest.mark.parametrize(
    ("items", "height", "gaps", "top"),
    [
        ((), 42, [1], 1),
        ((), 43, [], None),
        ((item(2, 39),), 1, [1, 41, 42], 42),
        ((item(2, 39),), 2, [41], 41),
        ((item(2, 40),), 2, [], None),
        ((item(1, 10), item(21, 22)), 8, [11, 12, 13], 13),
    ],
)
def test_gaps_are_free_units_side_by_side(
    items: tuple[Item, ...], height: int, gaps: list[int], top: int | None
) -> None:
    rack = filling(*items)
    assert (list(rack.gaps(height)), rack.top_gap(height)) == (gaps, top)


def test_the_first_item_has_the_unit_and_all_count() -> None:
    first, second = item(1, 2), Item("y", "equipment", LOAD, 2, 2, "given")
    rack = filling(first, second)
    assert rack.owner == {1: "x", 2: "x", 3: "y"}
    assert (rack.power_w, rack.weight_kg) == (1000.0, 20.0)


def test_a_node_stands_in_the_racks_of_its_group() -> None:
    [kind] = ROOM.kinds
    node = item_of("w1", kind, 3, "given")
    assert (node.height, node.taken[-1], node.load.weight_kg) == (8, 10, 100)
    assert allowed_racks(ROOM, kind) == ("r1", "r2")
