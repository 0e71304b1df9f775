"""Plugs in cages, by the makers' words on which module goes where."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.hardware import CableModel
from hpcforge.catalog import load_catalog
from hpcforge.design.fabric.fitting import TAKES, Cages, LinkKind, adapters_of, fitting, link_kinds
from tests.unit.design.fabric import hand

CABLES = load_catalog().cables
KINDS = ("twisted-pair", "dac", "aoc", "optics")


def link(rate: float, near: str | None, far: str | None, breakout: int = 1, cable: str | None = None) -> LinkKind:
    return LinkKind("node_leaf", rate, breakout, (near,) if near else (), (far,) if far else (), cable)


# A cage and a plug: SFF-8402 and SFF-8665 (a cage takes older plugs of its family), the QSFP-DD MSA (QSFP plugs go into
# QSFP-DD cages), the OSFP MSA (it takes no QSFP plug), NVIDIA's and Dell's pages of QSA adapters (SFP in a QSFP cage
# needs one), and answers to questions on QSFP28 in SFP28 ports (never).
@pytest.mark.parametrize(
    ("cage", "plug", "goes"),
    [
        ("sfp28", "sfp28", True),
        ("sfp28", "sfp-plus", True),
        ("sfp-plus", "sfp28", False),
        ("sfp28", "qsfp56", False),
        ("qsfp28", "sfp28", False),
        ("qsfp56", "qsfp28", True),
        ("qsfp28", "qsfp-plus", True),
        ("qsfp28", "qsfp56", False),
        ("qsfp-dd", "qsfp28", True),
        ("qsfp28", "qsfp-dd", False),
        ("osfp", "qsfp-dd", False),
        ("qsfp-dd", "osfp", False),
        ("osfp", "qsfp112", False),
        ("rj45", "sfp-plus", False),
        ("sfp-plus", "rj45", False),
        ("sfp-dd", "sfp28", True),
    ],
)
def test_which_plug_goes_into_which_cage(cage: str, plug: str, goes: bool) -> None:
    assert (plug in TAKES[cage]) is goes


# Links of data sheets and of cabling guides, and what can be bought for them.
@pytest.mark.parametrize(
    ("one", "cables"),
    [
        (link(25, "sfp28", "sfp28"), {"dac-25g", "aoc-25g", "optics-mm-25g", "optics-sm-25g"}),
        (link(25, "sfp28", "qsfp28"), set()),
        (link(25, "sfp28", "qsfp28", 4), {"dac-25g", "aoc-25g", "optics-mm-25g", "optics-sm-25g"}),
        (link(100, "qsfp56", "qsfp56"), {"dac-100g", "aoc-100g", "optics-mm-100g", "optics-sm-100g"}),
        (link(100, "qsfp28", "osfp"), set()),
        (link(100, "qsfp28", "qsfp-dd", 4), {"dac-100g", "aoc-100g", "optics-mm-100g", "optics-sm-100g"}),
        (link(200, "sfp28", "qsfp56"), set()),
        (link(200, "qsfp112", "osfp", 2), {"dac-200g", "aoc-200g", "optics-mm-200g", "optics-sm-200g"}),
        (link(400, "osfp", "osfp"), {"dac-400g", "aoc-400g", "optics-mm-400g", "optics-sm-400g"}),
        (link(400, "qsfp112", "osfp"), {"dac-400g", "aoc-400g", "optics-mm-400g", "optics-sm-400g"}),
        (link(400, "osfp", "qsfp-dd"), {"optics-mm-400g", "optics-sm-400g"}),
        (link(400, "qsfp-dd", "qsfp-dd"), {"dac-400g-dd", "aoc-400g-dd", "optics-mm-400g", "optics-sm-400g"}),
        (link(400, "osfp", "osfp", 2), {"dac-400g", "aoc-400g", "optics-mm-400g", "optics-sm-400g"}),
        (link(10, "rj45", "rj45"), {"cat6a-10g"}),
        (link(10, "rj45", "sfp28"), set()),
        (link(1, "sfp28", "rj45"), {"cat6a-1g"}),
        (link(25, None, None), {"dac-25g", "aoc-25g", "optics-mm-25g", "optics-sm-25g"}),
        (link(25, "sfp28", "a-cage-of-tomorrow"), {"dac-25g", "aoc-25g", "optics-mm-25g", "optics-sm-25g"}),
    ],
)
def test_cables_that_fit_both_ends(one: LinkKind, cables: set[str]) -> None:
    assert set(fitting(one, CABLES, KINDS).cables) == cables


def test_an_optical_link_has_a_transceiver_of_its_own_at_each_end_but_a_named_copper_cable_has_not() -> None:
    assert not fitting(link(400, "osfp", "qsfp-dd", cable="dac-400g"), CABLES, KINDS).cables
    found = fitting(link(400, "osfp", "qsfp-dd", cable="optics-mm-400g"), CABLES, KINDS)
    assert list(found.cables) == ["optics-mm-400g"]


def test_the_end_in_the_way_is_named() -> None:
    assert fitting(link(25, "sfp28", "qsfp28"), CABLES, KINDS).unfit == ("qsfp28",)
    assert fitting(link(25, "qsfp56", "sfp28"), CABLES, KINDS).unfit == ("qsfp56",)
    both = fitting(link(400, "osfp", "qsfp-dd"), CABLES, ("dac",))
    assert (both.unfit, both.plugs) == ((), ("osfp", "qsfp112", "qsfp-dd"))


def test_an_adapter_that_the_site_buys_takes_a_smaller_plug() -> None:
    one = link(25, "sfp28", "qsfp56")
    found = fitting(one, CABLES, (*KINDS, "adapter")).cables
    assert set(found) == {"dac-25g", "aoc-25g", "optics-mm-25g", "optics-sm-25g"}
    assert list(adapters_of(one, CABLES["dac-25g"], CABLES)) == ["qsa28"]
    assert list(adapters_of(link(25, "sfp28", "sfp28"), CABLES["dac-25g"], CABLES)) == []
    assert not fitting(link(50, "sfp56", "qsfp56"), CABLES, (*KINDS, "adapter")).cables, "qsa28 carries 25 Gb/s"


def test_a_cable_without_known_plugs_is_not_judged() -> None:
    own = {"ours": CableModel(kind="dac", rate_gbps=25.0, reach_m=3.0, lengths_m=(1.0,))}
    assert list(fitting(link(25, "sfp28", "qsfp28"), own, KINDS).cables) == ["ours"]


def test_links_of_a_fabric_by_the_ports_that_they_run_between() -> None:
    cages = Cages({"qm9700": ["osfp"] * 8}, {"gpu001": ("osfp",)}, {"gpu002": "dac-400g"})
    kinds = list(link_kinds(hand.two_rails(), cages))
    assert kinds[0] == LinkKind("node_leaf", 400.0, 1, ("osfp",), ("osfp",), None)
    assert kinds[2] == LinkKind("node_leaf", 400.0, 1, (), ("osfp",), "dac-400g")
    assert kinds[-1] == LinkKind("leaf_spine", 400.0, 1, ("osfp",), ("osfp",), None)
