"""The designs of the shipped blueprints: golden JSON and summary, and what holds of every design."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import isclose, sqrt
from pathlib import Path

import pytest

from hpcforge.cluster.design import Design, json_schema, to_json
from hpcforge.report.design import text as design_text
from hpcforge.report.html.design import design_page
from tests.unit.design.facility.designs import CASES, ROOT, SHIPPED, altered, design_of, shipped

GOLDEN = Path(__file__).parent / "golden"
EVERY = [*(shipped(name) for name in SHIPPED), *sorted(CASES.glob("*.yaml"))]


@pytest.mark.parametrize("name", SHIPPED)
def test_golden(name: str, golden: Callable[[Path, str], None]) -> None:
    design = design_of(shipped(name))
    remarks = tuple(replace(remark, file=f"{name}.yaml") for remark in design.diagnostics)
    design = replace(design, diagnostics=remarks)
    golden(GOLDEN / f"{name}.json", json.dumps(to_json(design), indent=1) + "\n")
    golden(GOLDEN / f"{name}.txt", design_text.summary(design))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_blueprints_break_no_rule(name: str) -> None:
    assert {remark.severity for remark in design_of(shipped(name)).diagnostics} <= {"not-checked"}


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_sums_agree(path: Path) -> None:
    """What nodes take is what racks take is what PDUs take is what feeds take, before diversity."""
    design = design_of(path)
    for rack in design.racks:
        if not rack.power_unknown:
            assert isclose(rack.power_w, sum(place.power_w or 0 for place in rack.elevation), abs_tol=1e-6)
        if rack.pdus:
            assert isclose(rack.power_w, sum(pdu.load_w for pdu in rack.pdus), abs_tol=1e-6)
        for pdu in rack.pdus:
            if path.stem != "POWER-014":  # on a feed that it does not fit a PDU's limits and currents are not known
                assert isclose(pdu.load_w, sum(phase.load_w for phase in pdu.phases), abs_tol=1e-6)
            assert pdu.load_w_one_lost >= pdu.load_w - 1e-6
            assert all(phase.load_a_one_lost >= phase.load_a - 1e-6 for phase in pdu.phases)
        assert rack.free_u is None or rack.free_u + rack.used_u >= (rack.height_u or 0)
    racks_w = sum(rack.power_w for rack in design.racks)
    if not design.power.unknown:
        assert isclose(racks_w + _loose(design), design.power.it_w, abs_tol=1e-6)
    feeds_w = sum(feed.load_w for feed in design.feeds) / design.power.diversity
    assert isclose(feeds_w, sum(rack.power_w for rack in design.racks if rack.pdus), abs_tol=1e-6)
    for feed in design.feeds:
        assert isclose(feed.load_w / design.power.diversity, sum(p.load_w for p in feed.phases), abs_tol=1e-6)


def _loose(design: Design) -> float:
    """Power of nodes and switches that stand in no rack."""
    machines_w = sum((one.node_w or 0.0) * one.count for one in design.hardware)
    machines_w += sum((line.each_w or 0.0) * line.count for line in design.bom if line.kind == "switch")
    placed = [place for rack in design.racks for place in rack.elevation if place.kind in ("node", "switch")]
    return machines_w - sum(place.power_w or 0.0 for place in placed)


def test_one_number_flips_the_verdict_and_the_message_says_by_how_much(tmp_path: Path) -> None:
    before = design_of(shipped("dgx-h100-unit"))
    after = design_of(altered(tmp_path, shipped("dgx-h100-unit"), ("derating: 1.0", "derating: 0.8")))
    assert [r for r in before.diagnostics if r.severity == "error"] == []
    [error] = [r for r in after.diagnostics if r.severity == "error"]
    assert (error.code, error.line) == ("POWER-003", 16)
    assert error.arithmetic == (
        "4 x 10.2 kW = 40.8 kW on each of racks g[01-08] > 36.8 kW = 2 feeds x 0.8 x sqrt(3) x 415 V x 32 A: "
        "4.0 kW (11 %) too much"
    )
    assert {rack.survives_one_lost for rack in before.racks} == {True}
    assert {rack.name for rack in after.racks if not rack.survives_one_lost} == {f"g0{n}" for n in range(1, 9)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("derating: 1.0, ", "derating: 1.0, "), "any one may be lost: checked on 10 racks and 3 feeds"),
        (("derating: 1.0, ", ""), "any one to be lost: not checked on 10 of 10 racks, not checked on 3 of 3 feeds"),
        (("derating: 1.0", "derating: 0.8"), "any one to be lost: not carried by 8 of 10 racks"),
        (("limit_w: 250000", "limit_w: 170000"), "any one to be lost: not carried by 2 of 3 feeds"),
        (("survive: any-one-feed", "survive: none"), "no loss of a feed has to be survived"),
    ],
)
def test_text_and_page_say_what_was_checked_of_the_loss_of_a_feed(
    change: tuple[str, str], said: str, tmp_path: Path
) -> None:
    design = design_of(altered(tmp_path, shipped("dgx-h100-unit"), change))
    assert f"feeds          {said}\n" in design_text.summary(design)
    assert said in design_page(design)


def test_two_feeds_are_not_enough_for_a_dgx_h100(tmp_path: Path) -> None:
    path = altered(tmp_path, shipped("dgx-h100-unit"), ("feeds: [A, B, C]", "feeds: [A, B]"))
    stranded = [remark for remark in design_of(path).diagnostics if remark.code == "POWER-004"]
    assert [remark.arithmetic for remark in stranded] == [
        "3 of 6 supplies on other feeds than A < 4 needed; feeds A, B"
    ]


def test_the_contract_of_json() -> None:
    data = to_json(design_of(shipped("dgx-h100-unit")))
    assert data["schema_version"] == 2
    assert set(data["power"]) >= {"it_w", "total_w"}
    assert set(data["feeds"][0]) >= {"name", "load_w", "limit_w", "load_w_one_lost"}
    assert set(data["racks"][0]) >= {"name", "power_w", "heat_btu_h", "weight_kg", "used_u", "free_u"}
    assert set(data["bom"][0]) >= {"kind", "model", "count"}
    assert set(data["diagnostics"][0]) == {
        "code", "severity", "message", "arithmetic", "hint", "file", "line", "column"
    }  # fmt: skip


def test_the_published_schema_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs" / "design.schema.json", json.dumps(json_schema(), indent=2) + "\n")


def test_every_field_of_a_design_is_described_with_its_unit() -> None:
    units = {"_w": " W", "_a": " A", "_kg": "kg", "_btu_h": "BTU/h", "_m3_h": "m3/h", "_k": " K"}
    for section in (json_schema(), *json_schema()["$defs"].values()):
        for name, field in section["properties"].items():
            assert field.get("description", "").endswith("."), name
            for suffix, unit in units.items():
                if name.endswith(suffix):
                    assert unit in field["description"], (section["title"], name)


def test_what_is_written_is_what_the_schema_says() -> None:
    """Every key of the data is a property of the schema, and every property is there."""
    schema, data = json_schema(), to_json(design_of(shipped("dgx-h100-unit")))
    for section, entry in (
        (schema, data),
        (schema["$defs"]["Power"], data["power"]),
        (schema["$defs"]["FeedLoad"], data["feeds"][0]),
        (schema["$defs"]["RackDesign"], data["racks"][0]),
        (schema["$defs"]["PduLoad"], data["racks"][0]["pdus"][0]),
        (schema["$defs"]["BomLine"], data["bom"][0]),
        (schema["$defs"]["Remark"], data["diagnostics"][0]),
    ):
        assert list(section["properties"]) == list(entry)


def test_without_a_site_design_says_what_it_did_not_check() -> None:
    design = design_of(ROOT / "blueprints" / "dgx-h100-32.yaml")
    assert not design.has_site
    assert "SITE-001" in {remark.code for remark in design.diagnostics}
    assert isclose(design.power.it_w, 32 * 10_200 + 800)


def test_rehearsals_are_exempt_and_said_so() -> None:
    design = design_of(ROOT / "blueprints" / "rehearsal.yaml")
    assert design.exempt == ("head,w[01-03]",)
    assert {remark.code for remark in design.diagnostics} == {"NODE-009"}


def test_delta_lines_carry_two_loads(tmp_path: Path) -> None:
    """208 V between lines: three equal loads of 1 kW are sqrt(3) x 1 kW / 208 V in each line."""
    changes = (("volts: 400", "volts: 208"), ("wiring: wye", "wiring: delta"), ("amps: 40", "amps: 80"))
    design = design_of(altered(tmp_path, CASES / "valid.yaml", *changes))
    assert {remark.severity for remark in design.diagnostics} <= {"not-checked"}
    pdu = design.racks[0].pdus[0]
    assert all(isclose(phase.load_a, sqrt(3) * (pdu.load_w / 3) / 208) for phase in pdu.phases)


def test_a_pdu_is_counted_at_the_voltage_of_its_feed(tmp_path: Path) -> None:
    """A PDU made for 415 V gives on a feed of 400 V what 400 V give, and takes more current for the same load."""
    changes = (("volts: 400, amps: 40", "volts: 415, amps: 40"),)
    design = design_of(altered(tmp_path, CASES / "valid.yaml", *changes))
    pdu = design.racks[0].pdus[0]
    assert isclose(pdu.limit_w or 0, 0.8 * sqrt(3) * 400 * 40)
    assert all(isclose(phase.load_a, phase.load_w / (400 / sqrt(3))) for phase in pdu.phases)


def test_feeds_of_two_voltages_are_counted_each_at_its_own(tmp_path: Path) -> None:
    changes = (("A: {volts: 400", "A: {volts: 415"), ("amps: 40", "amps: 20"))
    design = design_of(altered(tmp_path, CASES / "valid.yaml", *changes))
    assert [round((pdu.limit_w or 0) / (0.8 * sqrt(3) * 20)) for pdu in design.racks[0].pdus] == [415, 400]
    [error] = [remark for remark in design.diagnostics if remark.severity == "error"]
    assert error.code == "POWER-003"
    assert "1 feed x 0.8 x sqrt(3) x 400 V x 20 A" in (error.arithmetic or "")


def test_a_pdu_that_does_not_fit_its_feed_has_no_limit(tmp_path: Path) -> None:
    """A PDU made for 415 V cannot hang on 208 V; one that can is named."""
    changes = (("volts: 400, phases", "volts: 208, phases"), ("volts: 400, amps", "volts: 415, amps"))
    design = design_of(altered(tmp_path, CASES / "valid.yaml", *changes))
    errors = [remark for remark in design.diagnostics if remark.severity == "error"]
    assert {remark.code for remark in errors} == {"POWER-014"}
    assert errors[0].arithmetic == "415 V, phases: 3, but the feed has 208 V, phases: 3"
    assert errors[0].hint == "a PDU that fits: pdu-208v-60a, apc-ap8865, raritan-px3-5870v, raritan-px4-5884j"
    assert {pdu.limit_w for rack in design.racks for pdu in rack.pdus} == {None}
    assert {rack.survives_one_lost for rack in design.racks} == {None}
