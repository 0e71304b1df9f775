"""What `hpcforge design` prints and writes of fabrics, through the real verb, on the shipped site of three fabrics."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster import load
from hpcforge.cluster.design import designed, to_json
from hpcforge.design.fabric.cabling import bom, cabled, transceivers
from hpcforge.design.fabric.graph import PortMaps
from hpcforge.report.design import fabric_svg
from hpcforge.report.design.fabric_svg import cable_lines, picture
from hpcforge.report.html.fabrics import run_text
from tests.support.in_process import hpcforge
from tests.support.shipped import anywhere
from tests.unit.design.fabric import hand

ROOT = Path(__file__).parents[4]
SITE = ROOT / "blueprints" / "dgx-h100-site.yaml"
POD = ROOT / "blueprints" / "dgx-h100-pod.yaml"
SVG = "{http://www.w3.org/2000/svg}"


def altered(folder: Path, path: Path, *changes: tuple[str, str]) -> Path:
    text = anywhere(path)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / path.name).write_text(text, encoding="utf-8")
    return folder / path.name


@cache
def rows(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(hpcforge("design", *arguments).stdout)))


def test_json_has_the_fields_of_the_contract() -> None:
    data = json.loads(hpcforge("design", str(POD), "--json").stdout)
    [fabric] = data["fabrics"]
    assert (fabric["name"], fabric["topology"]) == ("compute", "rail-optimised")
    assert fabric["switches"] == {"leaf": 32, "spine": 16, "core": 0}
    cables = {"node_leaf": 1016, "other_leaf": 4, "leaf_spine": 1024, "spine_core": 0}
    assert cables.items() <= fabric["cables"].items()
    assert fabric["cables"] == {**cables, "peer": 0, "local": 0, "global": 0}
    assert fabric["oversubscription"] == {"leaf": 1.0}
    assert fabric["bisection_gbps"] == 127 * 8 * 400 / 2


def test_json_of_a_site_says_where_switches_stand_and_what_cables_are_bought() -> None:
    compute, inband, oob = to_json(designed(load(SITE), SITE.name))["fabrics"]
    assert {place["rack"] for place in compute["placed"]} == {"i01", "i02", "i03"}
    assert [place["rack"] for place in inband["placed"]] == ["i01", "i02"]
    assert compute["cutting"]["not_checked"] == 0
    assert sum(lot["count"] for lot in compute["cutting"]["lots"]) == sum(compute["cables"].values()) == 768
    total_m = sum(lot["count"] * lot["length_m"] for lot in compute["cutting"]["lots"])
    assert total_m == compute["cutting"]["total_m"]
    assert {lot["model"] for lot in oob["cutting"]["lots"]} == {"cat6a-1g"}


def test_every_cable_is_a_row_with_both_ends_and_labels_are_unique() -> None:
    cables = rows(str(SITE), "--csv", "cables")
    assert len(cables) == 768 + 74 + 36
    labels = [row[key] for row in cables for key in ("label_a", "label_b")]
    assert len(set(labels)) == len(labels)
    assert len({row["cable"] for row in cables}) == len(cables)
    for row in cables:
        assert row["a_room"] == row["b_room"] == "room"
        assert row["a_rack"] and row["a_u"] and row["b_rack"] and row["b_u"], row["cable"]
        assert float(row["run_m"]) <= float(row["length_m"])
        assert row["label_a"].startswith(f"{row['cable']} | {row['a_rack']} U{row['a_u']} {row['a_device']} ")
        here, there = row["label_a"].partition(" | ")[2].split(" > ")
        assert row["label_b"] == f"{row['cable']} | {there} > {here}"
    for fabric in ("compute", "inband", "oob"):
        pulled = [int(row["pull_order"]) for row in cables if row["fabric"] == fabric]
        assert pulled == list(range(1, len(pulled) + 1))


def test_a_length_of_the_table_by_hand() -> None:
    """gpu001 at U3 of g01 to compute-leaf-001 at U48 of i01, four racks of 0.75 m on: docs/fabric.md works it out."""
    [row] = [row for row in rows(str(SITE), "--csv", "cables") if row["cable"] == "compute-leaf-001:1/1"]
    assert (row["a_device"], row["a_rack"], row["a_u"]) == ("gpu001", "g01", "3")
    assert (row["b_device"], row["b_rack"], row["b_u"]) == ("compute-leaf-001", "i01", "48")
    by_hand = 2 * 0.5 + (48 - 6) * 0.04445 + 0.5 + (48 - 47.5) * 0.04445 + 0.5 + 4 * 0.75 + 0.5
    assert float(row["run_m"]) == pytest.approx(by_hand, abs=0.001)
    assert (row["length_m"], row["model"]) == ("10", "optics-mm-400g")


def test_no_port_is_used_twice_and_every_port_is_a_row() -> None:
    ports = rows(str(SITE), "--csv", "ports")
    seen = Counter((row["switch"], row["port"]) for row in ports)
    assert max(seen.values()) == 1
    assert len(ports) == 24 * 64 + 2 * 64 + 52
    used = [row for row in ports if row["use"] != "free"]
    cables = rows(str(SITE), "--csv", "cables")
    between = sum(row["kind"] in ("leaf_spine", "peer") for row in cables)
    assert len(used) == len(cables) + between
    by_name = {row["cable"]: row for row in cables}
    for row in used:
        cable = by_name[row["cable"]]
        assert {row["switch"], row["to_device"]} == {cable["a_device"], cable["b_device"]}
        assert row["label"] in (cable["label_a"], cable["label_b"])
        assert f"{row['switch']} port {row['port']} > " in row["label"]


def test_switches_and_cables_are_in_the_bill_and_switches_in_the_power() -> None:
    lines = rows(str(SITE), "--csv", "bom")
    counts = Counter({(row["kind"], row["model"]): 0 for row in lines})
    for row in lines:
        counts[row["kind"], row["model"]] += int(row["count"])
    assert counts["switch", "our-qm9700"] == 24
    assert counts["cable", "optics-mm-400g"] == 768
    assert counts["cable", "cat6a-1g"] == 36
    design = designed(load(SITE), SITE.name)
    placed = [place for rack in design.racks for place in rack.elevation if place.kind == "switch"]
    assert len(placed) == 27
    switches_w = 24 * 1720 + 2 * 900 + 150
    assert sum(place.power_w or 0 for place in placed) == switches_w
    nodes_w = sum((one.node_w or 0) * one.count for one in design.hardware)
    assert design.power.it_w == nodes_w + switches_w


def test_transceivers_are_one_a_cage_at_a_switch_and_one_a_link_at_a_machine() -> None:
    """Leaf ports 1 and 2 share a cage of two: with four ports used in pairs, two transceivers a leaf."""
    cables = {"optics-mm-400g": load_catalog().cables["optics-mm-400g"]}
    one = cabled(hand.two_rails(), hand.SPOTS, hand.RULES, cables)
    assert transceivers(one, cables) == {"optics-mm-400g": 4 + 4 + 4 + 4}
    twin = hand.two_rails(per_cage=2)
    assert transceivers(cabled(twin, hand.SPOTS, hand.RULES, cables), cables) == {"optics-mm-400g": 4 + 2 + 2 + 2}
    lines = list(bom([one, one], cables))
    assert {(line.kind, line.count) for line in lines if line.kind == "transceiver"} == {("transceiver", 32)}
    assert sum(line.count for line in lines if line.kind == "cable") == 16


def test_port_maps_fold_what_leads_to_the_same() -> None:
    loaded = load(SITE)
    ports = PortMaps(loaded.fabrics[0])
    runs = list(ports.runs(next(iter(ports)).ports))
    assert [(run.first, run.last, run.count, run.use) for run in runs] == [
        ("1/1", "16/2", 32, "node_leaf"),
        ("17/1", "32/2", 32, "leaf_spine"),
    ]
    assert [run_text(run) for run in runs] == [
        "1/1 to 16/2: gpu[001-032] rail 1",
        "17/1 to 32/2: compute-spine-[001-008], 4 each",
    ]
    last = list(ports.runs(ports.of(loaded.fabrics[0].index["compute-leaf-016"]).ports))
    assert [run_text(run) for run in last] == ["1/1 to 16/2: free", "17/1 to 32/2: compute-spine-[001-008], 4 each"]


def test_a_switch_of_several_rates_is_the_same_in_every_output() -> None:
    """4 nodes at 25 Gb/s by one split port and 1 file server by 100 Gb/s, in cables, ports, bill, picture and JSON."""
    path = str(Path(__file__).parent / "cable_cases" / "valid_split.yaml")
    cables, ports = rows(path, "--csv", "cables"), rows(path, "--csv", "ports")
    assert {row["cable"]: row["a_device"] for row in cables} == {
        **{f"data-leaf-001:1/{lane}": f"w{lane}" for lane in range(1, 5)},
        "data-leaf-001:64": "nas1",
    }
    assert {row["port"]: row["to_device"] for row in ports if row["use"] != "free"} == {
        row["b_port"]: row["a_device"] for row in cables
    }
    assert len(ports) == 63 * 4 + 1
    loaded = load(Path(path))
    (cabling,) = loaded.cables
    bought = {(model, ends): count for (model, _, ends), count in cabling.bought.items()}
    assert bought == {("dac-25g", 4): 1, ("dac-100g", 1): 1}
    assert [(line.model, line.count) for line in bom([cabling], load_catalog().cables)] == [
        ("dac-100g", 1),
        ("dac-25g", 1),
    ]
    (design,) = json.loads(hpcforge("design", path, "--json").stdout)["fabrics"]
    assert (design["capacity_gbps"]["node_leaf"], design["capacity_gbps"]["other_leaf"]) == (4 * 25, 100)
    assert design["placed"][0]["ports_used"] == 5
    assert [text for _, text in cable_lines(cabling.fabric)] == [
        "4 cables node to leaf, 25 Gb/s",
        "1 cable other end to leaf, 100 Gb/s",
    ]


def test_a_split_port_has_a_transceiver_of_its_whole_rate() -> None:
    """Four links of 25 Gb/s by multimode fibre: one transceiver of 100 Gb/s at the switch, four of 25 at the nodes."""
    fabric = load(Path(__file__).parent / "cable_cases" / "valid_split.yaml").cables[0].fabric
    rules = hand.RULES.model_copy(update={"kinds": ("optics",)})
    places = {device.name: hand.SPOTS["compute-leaf-001"] for device in fabric.devices}
    optics = transceivers(cabled(fabric, places, rules, load_catalog().cables), load_catalog().cables)
    assert optics == {"optics-mm-25g": 4, "optics-mm-100g": 1 + 2}, "and two of the file server's own link"


def test_adapters_are_in_the_bill() -> None:
    (cabling,) = load(Path(__file__).parent / "cable_cases" / "valid_adapter.yaml").cables
    counts: Counter[tuple[str, str]] = Counter()
    for line in bom([cabling], load_catalog().cables):
        counts[line.kind, line.model] += line.count
    assert counts == {("cable", "dac-25g"): 4, ("adapter", "qsa28"): 4}


def test_a_fabric_as_a_file_is_well_formed_svg() -> None:
    result = hpcforge("design", str(SITE), "--svg", "fabric:compute")
    svg = ET.fromstring(result.stdout)
    labels = [text.text for text in svg.iter(f"{SVG}text")]
    assert {"gpu001", "gpu032", "leaf-001", "spine-008", "32 nodes", "16 leaves"} <= set(labels)
    assert len(list(svg.iter(f"{SVG}path"))) == 256 + 16 * 8 + 2  # cables, leaf to spine together, and the key
    assert svg.find(f"{SVG}style") is not None
    wrong = hpcforge("design", str(SITE), "--svg", "fabric:nobody")
    assert (wrong.returncode, wrong.stdout) == (3, "")


def test_above_64_nodes_a_drawing_shows_groups() -> None:
    shown = picture(load(POD).fabrics[0])
    assert not shown.each
    assert [[box.name for box in row.boxes] for row in shown.rows] == [
        ["16 spines"],
        ["8 leaves"] * 4,
        ["32 nodes", "32 nodes", "32 nodes", "31 nodes", "4 other ends"],
    ]
    counts = Counter[str]()
    for line in shown.lines:
        counts[line.kind] += line.count
    assert counts == {"node_leaf": 1016, "other_leaf": 4, "leaf_spine": 1024}


def test_a_drawing_of_many_groups_stays_small(tmp_path: Path) -> None:
    """1,024 nodes: 32 units, of which the middle ones are one box; no cable is left out of the lines."""
    addresses = ("hardware: dgx-h100}", 'hardware: dgx-h100, addresses: "10.20.[1-4].[1-250],10.20.5.[1-24]"}')
    own = (f"inventory: {ROOT}/inventory/{POD.name}\n", "")
    head = ("generic-1u}", "generic-1u, addresses: 10.20.0.10}")
    changes = ("gpu[001-127]", "gpu[0001-1024]"), addresses, own, head, ("10.20.0.0/22", "10.20.0.0/16")
    path = altered(tmp_path, POD, *changes)
    fabric = load(path).fabrics[0]
    shown = picture(fabric)
    assert max(len(row.boxes) for row in shown.rows) <= 10
    assert sum(line.count for line in shown.lines) == sum(fabric.cable_counts.values())
    assert len(fabric_svg.drawing_in_page(fabric)) < 100_000


def test_without_racks_lengths_are_not_checked_and_all_else_is_there() -> None:
    result = hpcforge("design", str(POD))
    assert result.returncode == 0
    assert "compute: without racks, cables have no lengths" in result.stdout
    assert "as bought  not checked: no places, so no lengths" in result.stdout
    cables = rows(str(POD), "--csv", "cables")
    assert len(cables) == 1016 + 4 + 1024
    assert {(row["run_m"], row["length_m"], row["model"], row["a_rack"]) for row in cables} == {("", "", "", "")}
    assert cables[0]["label_a"] == "compute-leaf-001:1/1 | gpu001 rail 1 > compute-leaf-001 port 1/1"


def test_pinned_switches_stay(tmp_path: Path) -> None:
    """A pin moves a switch; `hpcforge pin` writes where all of them stand, and writing them twice changes nothing."""
    inventory = tmp_path / "site.yaml"
    inventory.write_text("schema: 1\npositions:\n  compute-leaf-001: {rack: i01, u: 2}\n", encoding="utf-8")
    loaded = load(SITE, inventory)
    rack, item = loaded.placed.layout.switch_of["compute-leaf-001"]
    assert (rack, item.u, item.how) == ("i01", 2, "pinned")
    assert hpcforge("pin", str(SITE), "--inventory", str(inventory)).returncode == 0
    pinned = inventory.read_text(encoding="utf-8")
    assert len(re.findall(r"^  \S+-(?:leaf|spine)-\d+: ", pinned, re.MULTILINE)) == 27
    again = load(SITE, inventory)
    assert {item.how for _, item in again.placed.layout.switch_of.values()} == {"pinned"}
    assert [entry for entry in again.diagnostics if "positions" in entry.message] == []
    assert hpcforge("pin", str(SITE), "--inventory", str(inventory)).returncode == 0
    assert inventory.read_text(encoding="utf-8") == pinned


def test_a_pin_in_a_rack_that_the_fabric_does_not_name(tmp_path: Path) -> None:
    inventory = tmp_path / "site.yaml"
    inventory.write_text("schema: 1\npositions:\n  compute-leaf-001: {rack: g01, u: 48}\n", encoding="utf-8")
    loaded = load(SITE, inventory, judged=False)
    assert [remark.message for remark in loaded.remarks if remark.code == "RACK-009"] == [
        "compute-leaf-001 is pinned in g01, but `switches_in` says i[01-03]"
    ]


def test_subnet_managers_stand_where_equipment_of_their_name_does(tmp_path: Path) -> None:
    spare = "      spare_u: 8                      # for patch panels\n"
    managers = "ufm: {u: [1], max_w: 500, weight_kg: 20, psu: {count: 2, needed: 1, inlet: c14}}"
    external = ("subnet_manager: on-switch}", "subnet_manager: external, endpoints: {ufm: {count: 4}}}")
    path = altered(tmp_path, SITE, (spare, f"{spare}      equipment: {{{managers}}}\n"), external)
    cables = [row for row in rows(str(path), "--csv", "cables") if row["kind"] == "other_leaf"]
    assert sorted((row["a_device"], row["a_rack"], row["a_u"]) for row in cables) == [
        ("ufm-1", "i01", "1"), ("ufm-2", "i02", "1"), ("ufm-3", "i03", "1"), ("ufm-4", "i01", "1"),
    ]  # fmt: skip


def test_every_row_of_a_design_is_plain_data() -> None:
    """What the page and the terminal show of fabrics is in the JSON, too."""
    data: dict[str, Any] = json.loads(json.dumps(to_json(designed(load(SITE), SITE.name))))
    assert [fabric["name"] for fabric in data["fabrics"]] == ["compute", "inband", "oob"]
    text = hpcforge("design", str(SITE)).stdout
    for fabric in data["fabrics"]:
        assert f"\n  {fabric['name']}\n" in text
        for loss in fabric["failures"]:
            assert loss["name"] in text


def grown(folder: Path, nodes: int) -> dict[str, tuple[str, str, float]]:
    """The site with room for 64 nodes and so many of them: labels and length of each cable, by its name."""
    changes = (
        ("gpu[001-032]", f"gpu[001-{nodes:03}]"),
        ("hardware: dgx-h100,", f'hardware: dgx-h100, addresses: "10.20.1.[1-{nodes}]",'),
        ('rack: "g[01-08]"', 'rack: "g[01-16]"'),
        ("    g[01-08]:", "    g[01-16]:"),
        ("row: [g01, g02, g03, g04, i01, i02, i03, g05, g06, g07, g08]", 'row: ["g[01-08]", "i[01-03]", "g[09-16]"]'),
        ('"gpu[001-030]"', "gpu001"),
        ('"gpu[031-032]"', "gpu002"),
    )
    compute = load(altered(folder, SITE, *changes), judged=False).cables[0]
    return {
        compute.labels.name(cable): (*compute.labels.both(cable), length)
        for cable, length in zip(compute.fabric.cables, compute.length_m, strict=True)
    }


def test_filling_up_to_what_it_is_designed_for_moves_no_cable_and_no_label(tmp_path: Path) -> None:
    sizes = [grown(tmp_path, nodes) for nodes in (17, 32, 33, 64)]
    assert [len(cables) for cables in sizes] == [512 + 8 * nodes for nodes in (17, 32, 33, 64)]
    for fewer, more in pairwise(sizes):
        assert fewer.items() <= more.items()


def blocks() -> list[tuple[list[str], list[str]]]:
    """The commands of each block of docs/fabric.md that begins with `$`, and what it shows of their output."""
    text = (ROOT / "docs" / "fabric.md").read_text(encoding="utf-8")
    found = []
    for block in re.findall(r"^```\n(\$ .*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines = block.splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found.append((commands, lines[len(commands) :]))
    return found


@pytest.mark.parametrize(("commands", "shown"), blocks(), ids=lambda one: one[-1] if one[-1].startswith("hpc") else "")
def test_what_the_document_shows_is_what_is_printed(tmp_path: Path, commands: list[str], shown: list[str]) -> None:
    """Lines that are shown follow each other in the output; `...` stands for any that are left out."""
    for folder in ("blueprints", "inventory"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    run = f'hpcforge() {{ PYTHONPATH="{ROOT}" NO_COLOR=1 "{sys.executable}" -m hpcforge "$@"; }}\n' + "\n".join(
        commands
    )
    done = subprocess.run(["bash", "-c", run], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    left = done.stdout
    for piece in "\n".join(shown).split("...\n"):
        wanted = piece.removesuffix("...").removesuffix("\n")
        assert wanted in left, f"{commands[-1]}: {done.stderr}"
        left = left[left.index(wanted) + len(wanted) :]


def test_the_document_shows_something() -> None:
    assert len(blocks()) >= 6
    assert all(len([line for line in shown if line != "..."]) >= 1 for _, shown in blocks())
