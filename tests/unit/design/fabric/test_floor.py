"""Lengths of cables over a floor, against figures worked out by hand."""

from __future__ import annotations

import pytest

from hpcforge.design.fabric.floor import run_m, run_terms
from tests.unit.design.fabric import hand


def test_length_in_one_rack() -> None:
    """Two sides of 0.5 m, slack 0.5 m, and two units of 1.75 inches."""
    run = run_m(hand.SPOTS["compute-leaf-001"], hand.SPOTS["compute-spine-001"], hand.RULES)
    assert run == pytest.approx(2 * 0.5 + 0.5 + 2 * 0.04445)


def test_length_between_racks() -> None:
    """A DGX at U3 has its middle at 6 units: 42 units up; a switch at U48 half a unit; 0.75 m along."""
    one, other = hand.SPOTS["gpu001"], hand.SPOTS["compute-leaf-001"]
    by_hand = 2 * 0.5 + 42 * 0.04445 + 0.5 + 0.5 * 0.04445 + 0.5 + 0.75 + 0.5
    assert run_m(one, other, hand.RULES) == pytest.approx(by_hand)
    assert run_m(other, one, hand.RULES) == pytest.approx(by_hand)
    assert run_terms(one, other, hand.RULES) == (
        "2 x 0.5 m sides + 2.37 m up from g01 U3 + 0.52 m up from i01 U48 + 0.75 m along + 0.5 m slack = 5.14 m"
    )


def test_length_between_lines_and_rooms() -> None:
    one = hand.SPOTS["compute-leaf-001"]
    behind = hand.spot(hand.rack("k01", 1.125, line=2), "k01", 48)
    up = 2 * (0.5 * 0.04445 + 0.5)
    assert run_m(one, behind, hand.RULES) == pytest.approx(1.5 + up + 2 * 2.4)
    far = hand.spot(hand.rack("z01", 0.3, line=1, room="annexe"), "z01", 48)
    assert run_m(one, far, hand.RULES) is None
    rules = hand.RULES.model_copy(update={"between_rooms_m": 20.0})
    assert run_m(one, far, rules) == pytest.approx(1.5 + up + 1.125 + 0.3 + 2.4 + 20)
    assert run_terms(one, far, rules).endswith("20 m between rooms + 0.5 m slack = 26.37 m")


def test_length_needs_the_height_of_racks() -> None:
    unknown = hand.spot(hand.rack("x01", 2.0, units=None), "x01", 3)
    assert run_m(hand.SPOTS["gpu001"], unknown, hand.RULES) is None
    assert run_m(unknown, hand.spot(unknown.standing, "x01", 5), hand.RULES) is not None
