"""Rules of power: a sum of known watts above a limit is an error, although other watts are unknown; outlets."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.design.facility.power_rules import outlets_lacking
from tests.unit.design.facility.designs import CASES, altered, design_of, loaded

# Of each node only the GPUs are known: 4 x 300 W, behind supplies of unknown efficiency.
UNKNOWN = ("max_w: 6000\n", "pcie_switched: true\n")


def errors(path: Path) -> dict[str, str | None]:
    return {remark.code: remark.arithmetic for remark in design_of(path).diagnostics if remark.severity == "error"}


def unknown(path: Path) -> tuple[str, ...]:
    return design_of(path).power.unknown


@pytest.mark.parametrize(
    ("code", "old", "new", "sums"),
    [
        ("POWER-007", "limit_w: 20000, limit_kg", "limit_w: 2000, limit_kg", "at least 2 x 1.2 kW = 2.4 kW > 2.0 kW"),
        ("COOL-001", "rack_limit_w: 20000", "rack_limit_w: 2000", "at least 2 x 1.2 kW = 2.4 kW of heat > 2.0 kW"),
        ("POWER-001", "amps: 40, phases: 3", "amps: 1, phases: 3", "1.2 kW > 554 W = 0.8 x sqrt(3) x 400 V x 1 A"),
        ("POWER-005", "A: {volts: 400, phases: 3, limit_w: 50000", "A: {volts: 400, phases: 3, limit_w: 2000",
         "0.9 x 2.4 kW = 2.2 kW > 1.6 kW = 0.8 x 2.0 kW"),
        ("POWER-013", "diversity: 0.9, limit_w: 60000", "diversity: 0.9, limit_w: 4000",
         "4.8 kW x 0.9 x 1.4 = 6.0 kW > 4.0 kW"),
        ("COOL-005", "rack_airflow_m3_h: 4000, limit_w: 40000", "rack_airflow_m3_h: 4000, limit_w: 4000",
         "4.8 kW x 0.9 = 4.3 kW > 4.0 kW"),
        ("NODE-005", "rated_w: 3000", "rated_w: 300", "1.2 kW of known parts > 900 W = 3 x 300 W"),
    ],
)  # fmt: skip
def test_known_parts_above_a_limit_are_an_error(code: str, old: str, new: str, sums: str, tmp_path: Path) -> None:
    path = altered(tmp_path, CASES / "valid.yaml", UNKNOWN, (old, new))
    assert unknown(path) == ("w[1-4]",)
    assert (errors(path)[code] or "").startswith(sums)


def test_below_every_limit_what_is_not_known_stays_not_checked(tmp_path: Path) -> None:
    path = altered(tmp_path, CASES / "valid.yaml", UNKNOWN)
    assert errors(path) == {}
    assert "its known parts take 1.2 kW" in "".join(remark.message for remark in design_of(path).diagnostics)


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("POWER-001", (("derating: 0.8, ", ""), ("amps: 40, phases: 3", "amps: 8, phases: 3"))),
        ("POWER-005", (("derating: 0.8, ", ""), ("phases: 3, limit_w: 50000, ups", "phases: 3, limit_w: 9000, ups"))),
        ("POWER-013", (("pue: 1.4, ", ""), ("diversity: 0.9, limit_w: 60000", "diversity: 0.9, limit_w: 20000"))),
    ],
)
def test_a_limit_that_no_missing_factor_could_raise_is_checked(
    code: str, changes: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    """No breaker carries more than its rating, and no site takes less than its equipment."""
    assert code in errors(altered(tmp_path, CASES / "valid.yaml", *changes))


def test_no_more_is_proposed_than_known_parts_allow(tmp_path: Path) -> None:
    path = altered(
        tmp_path, CASES / "valid.yaml", UNKNOWN, (', rack: "r[1-2]", u: [3, 11]', ""), ("limit_w: 20000, limit_kg",
        "limit_w: 2000, limit_kg"),
    )  # fmt: skip
    assert sorted(rack for rack, _ in loaded(path).placed.layout.place_of.values()) == ["r1", "r2"]
    assert set(errors(path)) == {"RACK-006"}


def test_a_guess_of_the_catalog_counts_and_is_not_checked(tmp_path: Path) -> None:
    ours = "hardware:\n  ours: {like: hpe-xd670, cores_per_socket: 56, threads_per_core: 2, memory_gib: 1024}\n"
    path = altered(tmp_path, CASES / "valid.yaml", ("hardware: our-8u,", "hardware: ours,"), ("hardware:\n", ours))
    said = [remark for remark in design_of(path).diagnostics if remark.code == "POWER-015"]
    assert [remark.severity for remark in said] == ["not-checked"]
    assert said[0].message.startswith("max_w of ours is a guess: as DGX H100")


def test_plugs_with_the_fewest_choices_come_first() -> None:
    assert outlets_lacking({"c14": 4, "c20": 4}, {"c13": 2, "c13-c19": 6}) == ()
    assert outlets_lacking({"c14": 4, "c20": 5}, {"c13": 2, "c13-c19": 6}) == ("c14",)
    assert outlets_lacking({"c20": 1}, {"c13": 12}) == ("c20",)
    assert outlets_lacking({"busbar": 1}, {"c13": 12}) == ("busbar",)
