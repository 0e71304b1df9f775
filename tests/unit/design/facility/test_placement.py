"""Where nodes stand: given, pinned, proposed; what is proposed keeps every limit, and what is pinned never moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.membership import node_set_names
from hpcforge.blueprint.node_sets import expand
from hpcforge.cluster import load
from tests.support.in_process import hpcforge
from tests.unit.design.facility.designs import CASES, altered, design_of, loaded, shipped

UNPLACED = ((', rack: "r[1-2]", u: [3, 11]', ""),)


def places(path: Path) -> dict[str, tuple[str, int, str]]:
    where = loaded(path).placed.layout.place_of
    return {name: (rack, item.u, item.how) for name, (rack, item) in where.items()}


def test_the_first_rack_takes_as_many_nodes_as_there_are_units() -> None:
    at = places(shipped("dgx-h100-unit"))
    assert at["gpu001"] == ("g01", 3, "given")
    assert at["gpu004"] == ("g01", 27, "given")
    assert at["gpu005"] == ("g02", 3, "given")
    assert at["gpu032"] == ("g08", 27, "given")
    assert [at[name][1] for name in ("login01", "login02")] == [38, 36]


def test_the_cluster_knows_where_nodes_stand() -> None:
    node = load(shipped("dgx-h100-unit")).cluster.by_name["gpu006"]
    assert (node.rack, node.rack_u) == ("g02", 11)


def test_proposals_are_low_and_even_and_neighbours_in_name_are_neighbours(tmp_path: Path) -> None:
    at = places(altered(tmp_path, CASES / "valid.yaml", *UNPLACED))
    assert at == {
        "w1": ("r1", 1, "proposed"),
        "w2": ("r1", 9, "proposed"),
        "w3": ("r2", 1, "proposed"),
        "w4": ("r2", 9, "proposed"),
    }


def test_heavy_nodes_are_proposed_below_light_ones(tmp_path: Path) -> None:
    light = "  l[1-4]: {functions: [login], hardware: light, addresses: '10.1.0.[21-24]'}\n"
    entry = "hardware:\n  light: {like: our-8u, rack_units: 1, weight_kg: 10, max_w: 500}\n"
    path = altered(tmp_path, CASES / "valid.yaml", *UNPLACED, ("nodes:\n", "nodes:\n" + light), ("hardware:\n", entry))
    at = places(path)
    assert {at[f"w{n}"][1] for n in range(1, 5)} == {1, 9}
    assert {at[f"l{n}"][1] for n in range(1, 5)} == {17, 18}
    assert not any(remark.severity == "error" for remark in design_of(path).diagnostics)


def test_proposals_spread_load_over_feeds(tmp_path: Path) -> None:
    """Two racks on feed A, one on B: each feed gets half of the nodes."""
    racks = (
        "    r[1-2]: {model: our-rack, pdu: our-pdu, feeds: [A]}\n    r3: {model: our-rack, pdu: our-pdu, feeds: [B]}\n"
    )
    old = "    r[1-2]: {model: our-rack, pdu: our-pdu, feeds: [A, B], limit_w: 20000, limit_kg: 500, spare_u: 4}\n"
    path = altered(tmp_path, CASES / "valid.yaml", *UNPLACED, (old, racks), ("row: [r1, r2]", "row: [r1, r2, r3]"))
    assert sorted(rack for rack, _, _ in places(path).values()) == ["r1", "r2", "r3", "r3"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit_w: 20000, limit_kg", "limit_w: 11000, limit_kg"),
        ("limit_kg: 500", "limit_kg: 150"),
        ("rack_limit_w: 20000", "rack_limit_w: 11000"),
        ("spare_u: 4", "spare_u: 30"),
    ],
)
def test_proposals_keep_limits(old: str, new: str, tmp_path: Path) -> None:
    """Each limit lets one node into a rack: two racks take two of four, and no rule but that of room is broken."""
    path = altered(tmp_path, CASES / "valid.yaml", *UNPLACED, (old, new))
    assert sorted(rack for rack, _, _ in places(path).values()) == ["r1", "r2"]
    errors = {remark.code for remark in design_of(path).diagnostics if remark.severity == "error"}
    assert errors == {"RACK-006"}


def test_pinned_positions_never_move(tmp_path: Path) -> None:
    with_inventory = ("schema: 1\n", "schema: 1\ninventory: machines.yaml\n")
    blueprint = altered(tmp_path, CASES / "valid.yaml", *UNPLACED, with_inventory)
    machines = tmp_path / "machines.yaml"
    machines.write_text("schema: 1\n\n# ours\nnodes:\n  w1: {address: 10.1.0.11}  # moved\n")
    before = places(blueprint)
    assert hpcforge("pin", str(blueprint)).returncode == 0
    text = machines.read_text()
    assert text.startswith("schema: 1\n\n# ours\nnodes:\n  w1: {address: 10.1.0.11}  # moved\n\npositions:")
    assert "RACK-008" not in {remark.code for remark in loaded(blueprint).remarks}
    more = (
        "nodes:\n",
        "nodes:\n  a1: {functions: [login], hardware: our-8u, addresses: 10.1.0.9}\n",
    )
    after = places(altered(tmp_path, blueprint, more))
    assert {name: after[name][:2] for name in before} == {name: at[:2] for name, at in before.items()}
    assert after["a1"][2] == "proposed"
    assert hpcforge("pin", str(blueprint)).returncode == 0
    assert hpcforge("pin", str(blueprint)).returncode == 0
    assert machines.read_text().count("positions:") == 1
    assert "  a1: {rack: r1, u: 17}\n" in machines.read_text()


LISTED = "inventory: machines.yaml\n"


def listed(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write a blueprint whose four nodes have a list of units, with an inventory."""
    (folder / "machines.yaml").write_text("schema: 1\n", encoding="utf-8")
    return altered(folder, CASES / "valid.yaml", ("schema: 1\n", f"schema: 1\n{LISTED}"), *changes)


def test_nodes_of_a_list_of_units_are_pinned_where_they_stand(tmp_path: Path) -> None:
    blueprint = listed(tmp_path)
    assert "4 positions pinned" in hpcforge("pin", str(blueprint)).stderr
    text = (tmp_path / "machines.yaml").read_text()
    assert "  w1: {rack: r1, u: 3}\n  w2: {rack: r1, u: 11}\n  w3: {rack: r2, u: 3}\n" in text
    assert [remark.code for remark in loaded(blueprint).remarks if remark.severity != "not-checked"] == []


def test_a_node_before_others_in_a_list_of_units_moves_no_pinned_one(tmp_path: Path) -> None:
    """Without the pins each node would move up by one place."""
    blueprint = listed(tmp_path)
    assert hpcforge("pin", str(blueprint)).returncode == 0
    before = places(blueprint)
    more = (("w[1-4]:", '"w[0,1-4]":'), ('"10.1.0.[1-4]"', '"10.1.0.9,10.1.0.[1-4]"'), ("u: [3, 11]", "u: [3, 11, 19]"))
    after = places(altered(tmp_path, blueprint, *more))
    assert {name: after[name] for name in before} == before
    assert after["w0"][:2] == ("r1", 19)


def test_a_removed_node_moves_no_other_of_a_list_of_units(tmp_path: Path) -> None:
    blueprint = listed(tmp_path)
    before = places(blueprint)
    result = hpcforge("nodes", "remove", str(blueprint), "w2", "--yes")
    assert result.returncode == 0, result.stderr
    after = places(blueprint)
    assert set(after) == {"w1", "w3", "w4"}
    assert {name: at[:2] for name, at in after.items()} == {name: before[name][:2] for name in after}
    assert hpcforge("nodes", "add", str(blueprint), "w5", "--addresses", "10.1.0.5", "--yes").returncode == 0
    assert places(blueprint)["w5"][:2] == before["w2"][:2]


def test_a_change_that_moves_pinned_nodes_comes_first_in_the_plan(tmp_path: Path) -> None:
    blueprint = listed(tmp_path)
    assert hpcforge("pin", str(blueprint)).returncode == 0
    moved = altered(tmp_path, blueprint, ("u: [3, 11]", "u: [2, 11]"))
    where = "moves w[1,3] within racks: w1 from r1 unit 3 to r1 unit 2, w3 from r2 unit 3 to r2 unit 2"
    assert f"warning: RACK-012: this change {where}" in hpcforge("validate", str(moved)).stderr
    plan = hpcforge("plan", str(moved), "--offline")
    assert plan.stderr.splitlines()[0] == f"note: this change {where}"
    assert hpcforge("pin", str(moved)).returncode == 0
    assert "RACK-012" not in hpcforge("validate", str(moved)).stderr


def test_a_rack_names_the_nodes_that_are_pinned_there(tmp_path: Path) -> None:
    """After a removal the places of a list are not those in the order of names."""
    blueprint = listed(tmp_path)
    assert hpcforge("nodes", "remove", str(blueprint), "w2", "--yes").returncode == 0
    of = loaded(blueprint)
    assert expand("r2", node_set_names(of.blueprint, of.inventory)) == ("w3", "w4")


def test_pins_of_nodes_that_are_gone_are_a_warning(tmp_path: Path) -> None:
    path = altered(tmp_path, CASES / "valid.yaml", ("schema: 1\n", "schema: 1\ninventory: machines.yaml\n"))
    (tmp_path / "machines.yaml").write_text("schema: 1\npositions: {w9: {rack: r1, u: 3}}\n")
    [warning] = load(path).diagnostics
    assert (warning.severity, warning.message) == ("warning", "positions of w9, which the blueprint does not have")


def test_pin_needs_an_inventory() -> None:
    result = hpcforge("pin", str(CASES / "valid.yaml"))
    assert result.returncode == 3
    assert "the blueprint names no inventory" in result.stderr
