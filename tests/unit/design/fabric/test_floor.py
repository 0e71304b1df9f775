"""Lengths of cables over a floor, against figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.blueprint.sections.site import SiteSection
from hpcforge.cluster import load
from hpcforge.design.fabric.floor import UNIT_M, row, run_m, run_terms, standings
from tests.support.shipped import ROOT
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


def test_racks_stand_in_the_order_of_the_row_and_then_of_their_names() -> None:
    site = SiteSection.model_construct(row=("r3", "r1"))
    assert row(site, ["r1", "r2", "r3", "r4"]) == ("r3", "r1", "r2", "r4")


def test_racks_stand_side_by_side_and_lines_behind_each_other() -> None:
    """Four racks of 600 mm and 48 units, three in a line."""
    room = load(ROOT / "blueprints" / "dgx-h100-unit.yaml", judged=False).placed.room
    assert room.site
    cabling = room.site.cabling.model_copy(update={"racks_in_row": 3, "rack_pitch_m": 0.75})
    site = room.site.model_copy(update={"cabling": cabling})
    blueprint = room.blueprint.model_copy(update={"site": site})
    places = standings(replace(room, blueprint=blueprint))
    ordered = [places[name] for name in row(site, room.racks)]
    assert [(place.line, place.x_m) for place in ordered[:5]] == [
        (0, 0.375), (0, 1.125), (0, 1.875), (1, 0.375), (1, 1.125),
    ]  # fmt: skip
    assert {place.top_m for place in ordered} == {room.racks["g01"].model.rack_units * UNIT_M}  # type: ignore[operator]
