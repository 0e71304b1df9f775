"""Proposals keep each phase of a PDU within its current; for a full phase the hint is another order of nodes."""

from __future__ import annotations

from pathlib import Path

from tests.unit.design.facility.designs import CASES, altered, design_of, loaded

# A node's two supplies are on one phase of each of two PDUs: 13 A for 6 kW at 230 V. A phase carries 0.8 x 20 A.
NODES = (
    '  w[1-4]: {functions: [head, worker], hardware: our-8u, addresses: "10.1.0.[1-4]", rack: "r[1-2]", u: [3, 11]}\n'
)
HARDWARE = """hardware:
  our-4u: {like: our-8u, rack_units: 4}
  light-8u: {like: our-8u, max_w: 1000}
  heavy-8u:
    {like: our-8u, max_w: 8000, psu: {count: 2, needed: 1, rated_w: 9000, efficiency: 0.94, inlet: c20,
     volts_min: 200, volts_max: 240}}
"""


def site(folder: Path, *nodes: str) -> Path:
    lines = "".join(
        f"  w{number}: {{functions: [head, worker], addresses: 10.1.0.{number}, rack: r1, {node}}}\n"
        for number, node in enumerate(nodes, 1)
    )
    changes = (
        ("amps: 14", "amps: 20"),
        ("limit_w: 20000, limit_kg", "limit_kg"),
        ("rack_limit_w: 20000, rack_airflow_m3_h: 4000", "rack_limit_w: 40000, rack_airflow_m3_h: 40000"),
        ("hardware:\n", HARDWARE),
        (NODES, lines),
    )
    return altered(folder, CASES / "POWER-002.yaml", *changes)


def problems(path: Path) -> dict[str, str | None]:
    return {remark.code: remark.hint for remark in design_of(path).diagnostics if remark.severity == "error"}


def unit_of(path: Path, node: str) -> int:
    return loaded(path).placed.layout.place_of[node][1].u


def test_a_proposal_avoids_a_phase_that_is_full(tmp_path: Path) -> None:
    """At unit 5 both nodes would be on the first phase; at unit 9 the second one has the next phase."""
    path = site(tmp_path, "hardware: our-4u, u: 1", "hardware: our-8u")
    assert unit_of(path, "w2") == 9
    assert problems(path) == {}


def test_a_rack_whose_phases_are_full_gets_no_proposal(tmp_path: Path) -> None:
    path = site(tmp_path, *["hardware: our-8u"] * 4)
    assert list(problems(path)) == ["RACK-006"]
    assert sorted(unit_of(path, f"w{number}") for number in (1, 2, 3)) == [1, 9, 17]


def test_a_phase_that_is_full_is_relieved_by_an_exchange(tmp_path: Path) -> None:
    """Units 1 and 25 have the same phase."""
    heavy, light = "hardware: our-8u", "hardware: light-8u"
    path = site(tmp_path, f"{heavy}, u: 1", f"{light}, u: 9", f"{light}, u: 17", f"{heavy}, u: 25")
    [(code, hint)] = problems(path).items()
    assert (code, hint) == ("POWER-002", "another order of nodes: exchange those at units 25 and 17")
    better = site(tmp_path, f"{heavy}, u: 1", f"{light}, u: 9", f"{heavy}, u: 17", f"{light}, u: 25")
    assert problems(better) == {}


def test_a_phase_that_is_full_is_relieved_by_another_unit(tmp_path: Path) -> None:
    path = site(tmp_path, "hardware: our-4u, u: 1", "hardware: our-8u, u: 5")
    [(code, hint)] = problems(path).items()
    assert (code, hint) == ("POWER-002", "another order of nodes: move the one at unit 5 to unit 13")
    assert problems(site(tmp_path, "hardware: our-4u, u: 1", "hardware: our-8u, u: 13")) == {}


def test_where_no_order_is_enough_the_hint_says_so(tmp_path: Path) -> None:
    path = site(tmp_path, "hardware: heavy-8u, u: 1", "hardware: light-8u, u: 9")
    assert problems(path) == {"POWER-002": "larger PDUs, or another number of nodes in the rack"}


def test_outlets_are_kept_free_for_what_is_proposed(tmp_path: Path) -> None:
    path = site(tmp_path, *["hardware: our-8u"] * 2)
    text = path.read_text(encoding="utf-8").replace("c19: 12", "c19: 1")
    path.write_text(text, encoding="utf-8")
    assert list(problems(path)) == ["RACK-006"]
