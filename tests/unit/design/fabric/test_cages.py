"""The cages of a blueprint's machines, and what does not fit them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster import Loaded, load
from hpcforge.design.fabric.cages import cages_of, unfit
from hpcforge.design.fabric.fitting import TAKES

HERE = Path(__file__).parent / "cable_cases"


def of(folder: Path, fabric: str, *changes: tuple[str, str]) -> Loaded:
    """The site of `valid_rates.yaml` with another fabric."""
    text = (HERE / "valid_rates.yaml").read_text(encoding="utf-8").partition("fabrics:")[0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "site.yaml"
    path.write_text(f"{text}fabrics:\n  data: {{kind: ethernet, {fabric}, switches_in: [i01]}}\n", encoding="utf-8")
    return load(path, judged=False)


def test_ends_have_the_cages_that_run_at_their_rate(tmp_path: Path) -> None:
    ends = "endpoints: {files: {nodes: nas1, rate_gbps: 100, cable: dac-100g}}"
    loaded = of(tmp_path, f"rate_gbps: 25, topology: single-switch, switch: sn2410, nodes: worker, {ends}")
    cages = cages_of(loaded.fabrics[0], loaded.blueprint, loaded.catalog)
    assert cages.ends["w1"] == ("sfp28",)
    assert cages.ends["nas1"] == ("qsfp56",)
    assert (cages.switches["sn2410"][47], cages.switches["sn2410"][48]) == ("sfp28", "qsfp28")
    assert cages.cables == {"nas1": "dac-100g"}
    assert not list(unfit(loaded.fabrics[0], loaded.blueprint, loaded.catalog))


@pytest.mark.parametrize(
    ("ports", "cages"),
    [
        ("[{count: 1, rate_gbps: 25, connector: sfp28}]", ("sfp28",)),
        ("[{count: 1, rate_gbps: 25, connector: sfp28}, {count: 1, rate_gbps: 100}]", ()),  # one is unknown
        ("[{count: 1, rate_gbps: 10, connector: sfp-plus}]", ()),  # too slow: FABRIC-005 says so
        ("null", ()),
    ],
)
def test_a_node_whose_ports_are_not_all_known_is_not_judged(tmp_path: Path, ports: str, cages: tuple[str, ...]) -> None:
    known = "[{count: 2, rate_gbps: 25, kind: ethernet, connector: sfp28}]"
    loaded = of(
        tmp_path,
        "rate_gbps: 25, topology: single-switch, switch: sn2410, nodes: worker",
        (f"ports: {known}", f"ports: {ports}"),
    )
    assert cages_of(loaded.fabrics[0], loaded.blueprint, loaded.catalog).ends["w1"] == cages


# Mistakes of people who cable: each is one error, where the cable or the rate is set.
@pytest.mark.parametrize(
    ("fabric", "column", "message"),
    [
        ("rate_gbps: 25, switch: sn4600", "rate_gbps", "that the site buys fits the qsfp56 ports of sn4600"),
        ("rate_gbps: 25, switch: sn2410, cable: aoc-100g", "cable", "aoc-100g is of another rate than the links"),
        ("rate_gbps: 25, switch: sn5600", "rate_gbps", "that the site buys fits the osfp ports of sn5600"),
        ("rate_gbps: 25, switch: sn4600, cable: dac-25g", "cable", "dac-25g does not fit the qsfp56 ports of sn4600"),
        ("rate_gbps: 25, switch: sn4600, cable: optics-mm-25g", "cable", "optics-mm-25g does not fit the qsfp56 ports"),
        ("rate_gbps: 25, switch: sn2410, cable: qsa28", "cable", "qsa28 is an adapter, not a cable"),
    ],
)  # fmt: skip
def test_mistakes_of_cables(tmp_path: Path, fabric: str, column: str, message: str) -> None:
    text = f"topology: single-switch, nodes: worker, {fabric}"
    (error,) = [entry for entry in of(tmp_path, text).diagnostics if "CABLE-005" in entry.message]
    assert message in error.message
    assert error.line == 25
    before = (tmp_path / "site.yaml").read_text().splitlines()[24][: (error.column or 0) - 1]
    assert before.endswith(f"{column}: ")


def test_two_switches_of_different_cages_take_optics(tmp_path: Path) -> None:
    switches = "switch: generic-32p-400g, spine_switch: arista-7060x6-64pe"
    fabric = f"rate_gbps: 400, topology: fat-tree, {switches}, nodes: worker, designed_for: 60"
    copper = ("  row: [g01, i01, g02]\n", "  row: [g01, i01, g02]\n  cabling: {kinds: [dac, aoc]}\n")
    (error,) = [entry for entry in of(tmp_path, fabric, copper).diagnostics if "CABLE-005" in entry.message]
    assert "fits both the qsfp-dd ports of generic-32p-400g and the osfp ports of arista-7060x6-64pe" in error.message
    assert error.hint == "`optics` in `site: {cabling: {kinds: ...}}`: each end has its own transceiver"
    assert not [entry for entry in of(tmp_path, fabric).diagnostics if "CABLE-005" in entry.message]


def test_each_switch_of_the_catalog_has_cages_that_are_known() -> None:
    for name, switch in load_catalog().switches.items():
        assert all(some.connector in TAKES for some in switch.ports or ()), name
