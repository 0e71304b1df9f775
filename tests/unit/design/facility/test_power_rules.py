"""Outlets for plugs."""

from __future__ import annotations

from hpcforge.design.facility.power_rules import outlets_lacking


def test_plugs_with_the_fewest_choices_come_first() -> None:
    assert outlets_lacking({"c14": 4, "c20": 4}, {"c13": 2, "c13-c19": 6}) == ()
    assert outlets_lacking({"c14": 4, "c20": 5}, {"c13": 2, "c13-c19": 6}) == ("c14",)
    assert outlets_lacking({"c20": 1}, {"c13": 12}) == ("c20",)
    assert outlets_lacking({"busbar": 1}, {"c13": 12}) == ("busbar",)
