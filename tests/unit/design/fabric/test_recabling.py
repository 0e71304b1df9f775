"""The fewest moves of plugs, on a fabric of two nodes, two leaves and a spine."""

from __future__ import annotations

from hpcforge.design.fabric.cable_index import CableEnds, PortName
from hpcforge.design.fabric.recabling import PlugMove, assign, plugs, swaps
from tests.support.as_plugged import drawn
from tests.unit.design.fabric import hand

DESIGN = drawn(hand.two_rails())


def rail(node: int, number: int) -> PortName:
    return PortName(f"gpu00{node}", f"compute rail {number}")


def leaf(number: int, port: int) -> PortName:
    return PortName(f"compute-leaf-00{number}", str(port))


def spine(port: int) -> PortName:
    return PortName("compute-spine-001", str(port))


def test_of_a_wrong_cable_the_plug_at_the_node_stays() -> None:
    """Rails 1 and 2 of a node are exchanged: each cable has an empty place at either end."""
    wrong = [CableEnds(rail(1, 1), leaf(2, 1)), CableEnds(rail(1, 2), leaf(1, 1))]
    empty = {("gpu001", "compute-leaf-001"): 1, ("gpu001", "compute-leaf-002"): 1}
    kept = assign(wrong, empty, DESIGN)
    assert kept == {wrong[0]: rail(1, 1), wrong[1]: rail(1, 2)}
    filled: set[PortName] = set()
    moves = plugs(wrong, kept, filled, DESIGN)
    assert moves == [PlugMove(wrong[0], leaf(2, 1), leaf(1, 1)), PlugMove(wrong[1], leaf(1, 1), leaf(2, 1))]
    assert [move.stays for move in moves] == [rail(1, 1), rail(1, 2)]
    assert filled == {rail(1, 1), rail(1, 2), leaf(1, 1), leaf(2, 1)}


def test_a_cable_makes_room_for_one_that_has_no_other_place() -> None:
    """The first takes its end at the node, and moves to its other end when the second needs that place."""
    first = CableEnds(rail(1, 1), leaf(2, 1))
    second = CableEnds(leaf(1, 1), PortName("nas", "1"))
    empty = {("gpu001", "compute-leaf-001"): 1, ("gpu001", "compute-leaf-002"): 1}
    assert assign([first, second], empty, DESIGN) == {first: leaf(2, 1), second: leaf(1, 1)}


def test_without_an_empty_place_a_cable_is_left_over() -> None:
    wrong = [CableEnds(rail(1, 1), leaf(2, 1))]
    assert assign(wrong, {("gpu002", "compute-leaf-001"): 1}, DESIGN) == {}
    assert plugs(wrong, {}, set(), DESIGN) == []


def test_where_a_parallel_cable_is_in_the_port_another_of_the_bundle_is_used() -> None:
    wrong = [CableEnds(leaf(1, 5), spine(8))]
    filled = {spine(1)}
    assert plugs(wrong, {wrong[0]: leaf(1, 5)}, filled, DESIGN) == [PlugMove(wrong[0], spine(8), spine(2))]


def test_two_plugs_that_change_places_are_one_move_at_the_device_they_share() -> None:
    one = PlugMove(CableEnds(rail(1, 1), leaf(2, 1)), leaf(2, 1), leaf(1, 1))
    other = PlugMove(CableEnds(rail(1, 2), leaf(1, 1)), leaf(1, 1), leaf(2, 1))
    alone = PlugMove(CableEnds(leaf(1, 5), spine(8)), spine(8), spine(2))
    turned = (
        PlugMove(one.cable, rail(1, 1), rail(1, 2)),
        PlugMove(other.cable, rail(1, 2), rail(1, 1)),
    )
    assert list(swaps([one, alone, other], DESIGN)) == [turned, (alone,)]
