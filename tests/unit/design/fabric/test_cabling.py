"""Lengths, kinds, labels and the order of pulling, against figures worked out by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from hpcforge.blueprint.sections.site import Cabling
from hpcforge.catalog import load_catalog
from hpcforge.design.fabric.cabling import UNKNOWN, cabled, choice
from tests.unit.design.fabric import hand

CABLES = load_catalog().cables
KINDS = ("twisted-pair", "dac", "aoc", "optics")


@pytest.mark.parametrize(
    ("run", "bought"),
    [
        (0.4, (0.5, "dac-400g")),
        (2.51, (3.0, "dac-400g")),
        (3.0, (3.0, "dac-400g")),
        (3.01, (5.0, "aoc-400g")),
        (30.0, (30.0, "aoc-400g")),
        (30.2, (35.0, "optics-mm-400g")),
        (50.1, (75.0, "optics-sm-400g")),
        (500.0, (500.0, "optics-sm-400g")),
        (500.1, None),
    ],
)
def test_kind_follows_from_reach(run: float, bought: tuple[float, str] | None) -> None:
    assert choice(CABLES, 400.0, KINDS, sockets=False).at(run) == bought


def test_kinds_that_a_site_does_not_buy_are_left_out() -> None:
    chosen = choice(CABLES, 400.0, ("dac", "optics"), sockets=False)
    assert chosen.at(3.01) == (5.0, "optics-mm-400g")
    assert choice(CABLES, 400.0, ("optics", "dac"), sockets=False).at(1.0) == (1.0, "optics-mm-400g")
    assert choice(CABLES, 123.0, KINDS, sockets=False).at(1.0) is None


def test_twisted_pair_is_for_sockets() -> None:
    assert choice(CABLES, 10.0, KINDS, sockets=True).at(4.0) == (5.0, "cat6a-10g")
    assert choice(CABLES, 10.0, KINDS, sockets=False).at(4.0) == (4.0, "dac-10g")


def test_every_rate_of_a_switch_in_the_catalog_has_a_cable_within_a_rack_and_across_a_room() -> None:
    for name, switch in load_catalog().switches.items():
        for ports in switch.ports or ():
            sockets = ports.connector == "rj45" or ports.rate_gbps <= 1
            chosen = choice(CABLES, ports.rate_gbps, KINDS, sockets)
            assert chosen.at(1.6), f"{name}: {ports.rate_gbps}"
            assert chosen.reach_m >= 100, f"{name}: {ports.rate_gbps}"


def test_cables_are_cut_to_length() -> None:
    one = cabled(hand.two_rails(), hand.SPOTS, hand.RULES, CABLES)
    assert one.unplaced == ()
    bought = [(one.models[model], length) for model, length in zip(one.model, one.length_m, strict=True)]
    assert Counter(bought) == {("aoc-400g", 7.0): 2, ("aoc-400g", 5.0): 2, ("dac-400g", 2.0): 4}
    assert all(run <= length for run, length in zip(one.run_m, one.length_m, strict=True))
    assert one.bought == {("aoc-400g", 7.0, 1): 2, ("aoc-400g", 5.0, 1): 2, ("dac-400g", 2.0, 1): 4}


def test_the_longest_bundle_is_pulled_first_and_racks_last() -> None:
    far = hand.spot(hand.rack("g02", 9.0), "g02", 3, 8)
    one = cabled(hand.two_rails(), {**hand.SPOTS, "gpu002": far}, hand.RULES, CABLES)
    order = [one.bundle(cable) for cable in one.order]
    assert order == [("g02", "i01")] * 2 + [("g01", "i01")] * 2 + [("i01", "i01")] * 4
    assert sorted(one.pull) == list(range(1, 9))
    assert [one.pull[cable] for cable in one.order] == list(range(1, 9))


def test_what_has_no_place_is_not_checked_and_pulled_last() -> None:
    spots = {name: spot for name, spot in hand.SPOTS.items() if name != "gpu001"}
    one = cabled(hand.two_rails(), spots, hand.RULES, CABLES)
    assert one.unplaced == ("gpu001",)
    assert list(one.length_m[:2]) == [UNKNOWN, UNKNOWN]
    assert list(one.order[-2:]) == [0, 1]
    assert sum(one.bought.values()) == 6
    assert one.labels.end(0, 1) == "gpu001 rail 1"


def test_without_racks_nothing_has_a_length() -> None:
    one = cabled(hand.two_rails(), {}, Cabling.model_construct(), CABLES)
    assert set(one.length_m) == {UNKNOWN}
    assert list(one.order) == list(range(8))
    assert not one.bought


def test_labels_of_both_ends() -> None:
    one = cabled(hand.two_rails(), hand.SPOTS, hand.RULES, CABLES)
    first, *_, last = one.fabric.cables
    assert one.labels.both(first) == (
        "compute-leaf-001:1 | g01 U3 gpu001 rail 1 > i01 U48 compute-leaf-001 port 1",
        "compute-leaf-001:1 | i01 U48 compute-leaf-001 port 1 > g01 U3 gpu001 rail 1",
    )
    assert one.labels.name(last) == "compute-leaf-002:6"
    annexe = replace(hand.G01, room="annexe")
    moved = {**hand.SPOTS, "gpu001": hand.spot(annexe, "g01", 3, 8)}
    both = cabled(hand.two_rails(), moved, hand.RULES, CABLES).labels.both(first)
    assert both[0].endswith("annexe g01 U3 gpu001 rail 1 > room i01 U48 compute-leaf-001 port 1")


def test_labels_are_unique() -> None:
    one = cabled(hand.two_rails(), hand.SPOTS, hand.RULES, CABLES)
    labels = [label for cable in one.fabric.cables for label in one.labels.both(cable)]
    assert len(set(labels)) == len(labels) == 16


def test_a_broken_out_cable_is_bought_once_with_its_longest_leg() -> None:
    """Both rails of both nodes share ports: leaf port 1 is lanes 1 and 2."""
    fabric = hand.two_rails(breakout=2, rate_gbps=400.0, uplink_rate_gbps=800.0, port_rate_gbps=800.0)
    one = cabled(fabric, hand.SPOTS, hand.RULES, CABLES)
    assert one.bought == {("aoc-400g", 7.0, 2): 2, ("dac-800g", 2.0, 1): 4}
    assert one.labels.name(next(iter(fabric.cables))) == "compute-leaf-001:1/1"


def test_steps_of_lengths_never_go_back() -> None:
    for rate in {cable.rate_gbps for cable in CABLES.values() if cable.rate_gbps}:
        for sockets in (True, False):
            lengths = choice(CABLES, rate, KINDS, sockets).lengths_m
            assert all(a < b for a, b in pairwise(lengths)), rate
