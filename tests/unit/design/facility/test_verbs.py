"""`design`, `explain` and `validate`, as they are typed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from hpcforge.design.fabric.rules import RULES as FABRIC_RULES
from hpcforge.design.facility.rules import RULES, explained
from hpcforge.design.facility.units import breaker_w
from hpcforge.design.storage.rules import RULES as STORAGE_RULES
from hpcforge.software.rules import rules as software_rules
from tests.unit.design.facility.designs import CASES, ROOT, altered, design_of, shipped
from tests.unit.design.facility.test_placement import hpcforge

DOCUMENT = ROOT / "docs" / "facility.md"


def test_a_design_that_breaks_a_rule_is_shown_whole_and_ends_in_3(tmp_path: Path) -> None:
    path = altered(tmp_path, shipped("dgx-h100-unit"), ("derating: 1.0", "derating: 0.8"))
    result = hpcforge("design", str(path), "--json")
    assert result.returncode == 3
    data = json.loads(result.stdout)
    assert len(data["racks"]) == 10
    assert {entry["code"] for entry in data["diagnostics"] if entry["severity"] == "error"} == {"POWER-003"}
    assert hpcforge("design", str(shipped("dgx-h100-unit"))).returncode == 0


def test_validate_folds_what_is_not_checked() -> None:
    result = hpcforge("validate", str(shipped("dgx-h100-unit")))
    assert "  COOL-002 head01, login[01-02]: no published inlet temperature of head-1u\n" in result.stderr
    assert ": 36 nodes, 10 not checked. Next: " in result.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "blueprints").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_validate_prints_of_a_shipped_blueprint_fits_a_screen(path: Path) -> None:
    result = hpcforge("validate", str(path))
    assert result.returncode == 0, result.stderr
    assert len(result.stderr.splitlines()) < 30


def test_validate_includes_what_rules_say(tmp_path: Path) -> None:
    path = altered(tmp_path, shipped("dgx-h100-unit"), ("derating: 1.0", "derating: 0.8"))
    result = hpcforge("validate", str(path))
    assert result.returncode == 3
    assert f"{path}:16:59: error: POWER-003: racks g[01-08]:" in result.stderr
    assert "COOL-004" not in result.stderr  # counted: what is wrong comes first
    assert result.stderr.endswith("\n\n1 error, 10 not checked\n")
    assert "not checked: COOL-004: " in hpcforge("validate", str(path), "--all").stderr
    data = json.loads(hpcforge("validate", str(path), "--json").stdout)
    assert {entry["severity"] for entry in data["diagnostics"]} == {"error", "not-checked"}
    assert hpcforge("plan", str(path)).returncode == 3


def test_tables() -> None:
    unit = str(shipped("dgx-h100-unit"))
    rows = list(csv.DictReader(io.StringIO(hpcforge("design", unit, "--csv", "power").stdout)))
    assert len(rows) == (8 * 3 + 2 * 2) * 3
    assert sum(float(row["phase_load_w"]) for row in rows) == pytest.approx(design_of(Path(unit)).power.it_w, abs=0.1)
    lines = list(csv.DictReader(io.StringIO(hpcforge("design", unit, "--csv", "bom").stdout)))
    assert {"kind": "server", "model": "dgx-h100", "count": "32"}.items() <= lines[2].items()


def test_one_thing_on_stdout_at_a_time() -> None:
    result = hpcforge("design", str(shipped("two-node-lab")), "--json", "--csv", "bom")
    assert (result.returncode, result.stdout) == (3, "")
    result = hpcforge("design", str(shipped("two-node-lab")), "--svg", "rack:r9")
    assert (result.returncode, result.stdout) == (3, "")


def test_page_and_elevation(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = hpcforge("design", str(shipped("two-node-lab")), "--html", str(page), "--svg", "rack:r1")
    assert result.returncode == 0
    assert "<svg" in result.stdout
    assert "POWER" in page.read_text() or "bench" in page.read_text()


def test_explain() -> None:
    assert hpcforge("explain", "power-003").stdout == explained(RULES["POWER-003"])
    assert [rule["code"] for rule in json.loads(hpcforge("explain", "--json").stdout)["rules"]] == [
        *RULES,
        *FABRIC_RULES,
        *STORAGE_RULES,
        *software_rules(),
    ]
    result = hpcforge("explain", "POWER-03")
    assert (result.returncode, "nearest: POWER-003\n" in result.stderr) == (3, True)


def test_hand_calculation_of_the_document() -> None:
    """Every figure that docs/facility.md works out by hand for rack g01 is the tool's."""
    design = design_of(shipped("dgx-h100-unit"))
    rack = next(rack for rack in design.racks if rack.name == "g01")
    pdu = rack.pdus[0]
    figures = {
        "power": f"{rack.power_w:,.0f} W",
        "heat": f"{rack.heat_btu_h:,.1f} BTU/h",
        "tons": f"{rack.heat_btu_h / 12_000:.3f} tons",
        "air": f"{rack.airflow_m3_h or 0:,.0f} m3/h",
        "weight": f"{rack.weight_kg:.1f} kg",
        "used": f"{rack.used_u} units",
        "free": f"{rack.free_u} units",
        "PDU, all feeds": f"{pdu.load_w:,.0f} W",
        "PDU, one lost": f"{pdu.load_w_one_lost:,.0f} W",
        "PDU limit": f"{pdu.limit_w or 0:,.1f} W",
        "phase, all feeds": f"{max(phase.load_a for phase in pdu.phases):.2f} A",
        "phase, one lost": f"{max(phase.load_a_one_lost for phase in pdu.phases):.2f} A",
        "phase limit": f"{pdu.phases[0].limit_a or 0:.2f} A",
        "PDU limit at 0.8": f"{breaker_w(415, 32, 3, 0.8):,.1f} W",
    }
    table = dict(_rows(DOCUMENT.read_text(encoding="utf-8")))
    assert {name: table.get(name) for name in figures} == figures


def _rows(text: str) -> list[tuple[str, str]]:
    """First and last cell of each row of the table of the hand calculation."""
    section = text[text.index("## One rack by hand") :]
    rows = [line.strip("| ").split("|") for line in section.splitlines() if line.startswith("|")]
    return [(cells[0].strip(), cells[-1].strip()) for cells in rows]


def test_text_of_a_blueprint_stays_text(tmp_path: Path) -> None:
    """Control characters are refused in a blueprint; what a spreadsheet would compute is quoted."""
    path = altered(tmp_path, CASES / "valid.yaml", ("  our-8u:\n", '  our-8u:\n    description: "=1+1"\n'))
    assert "server,our-8u,'=1+1,4," in hpcforge("design", str(path), "--csv", "bom").stdout
