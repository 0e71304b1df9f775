"""Machines of a site: their power, kinds and racks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import GpusSection, Server
from hpcforge.catalog import load_catalog
from hpcforge.design.facility.room import watts
from tests.unit.design.facility.designs import CASES, altered, loaded

CATALOG = load_catalog()
GPU = CATALOG.gpus["l40s"]
PARTS = {
    "sockets": 2, "cpu": next(name for name, cpu in CATALOG.cpus.items() if cpu.tdp_w), "other_w": 100,
    "psu": {"count": 2, "needed": 1, "efficiency": 0.9},
}  # fmt: skip
CPU_W = CATALOG.cpus[str(PARTS["cpu"])].tdp_w or 0
L40S = GpusSection(model="l40s", count=4)


def server(**facts: object) -> Server:
    return Server.model_validate({**PARTS, **facts})


def test_without_a_published_figure_parts_are_added_and_divided_by_the_efficiency() -> None:
    power = watts(server(), L40S, CATALOG)
    assert power.node_w == pytest.approx((2 * CPU_W + 4 * (GPU.tdp_w or 0) + 100) / 0.9)
    assert power.missing == ()
    assert [part.count for part in power.parts] == [2, 4, 1]


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"cpu": None}, ("processor",)),
        ({"other_w": None}, ("other_w",)),
        ({"psu": {"count": 2}}, ("psu.efficiency",)),
        ({"nics": ["1 x 400G"]}, ("400G",)),
    ],
)
def test_of_an_unknown_part_the_rest_is_the_least(facts: dict[str, object], missing: tuple[str, ...]) -> None:
    power = watts(server(**facts), L40S, CATALOG)
    assert (power.node_w, power.missing) == (None, missing)
    assert power.least_w == pytest.approx(sum(part.total_w or 0 for part in power.parts)) != 0


@pytest.mark.parametrize(
    ("gpus", "node_w"),
    [
        (L40S, 3000),
        (GpusSection(model="l40s", count=2), 3000 - 2 * 350 / 0.9),
        (GpusSection(model="l40s", count=8), 3000 + 4 * 350 / 0.9),
        (None, 3000 - 4 * 350 / 0.9),
        (GpusSection(model="no-such-gpu", count=4), None),
    ],
)
def test_a_published_figure_changes_by_the_power_of_other_gpus(gpus: GpusSection | None, node_w: float | None) -> None:
    power = watts(server(max_w=3000, gpus={"model": "l40s", "count": 4}), gpus, CATALOG)
    assert power.node_w == (node_w and pytest.approx(node_w))


def test_without_an_efficiency_fewer_gpus_take_no_more_than_published() -> None:
    machine = server(max_w=3000, gpus={"model": "l40s", "count": 4}, psu={"count": 2})
    assert watts(machine, GpusSection(model="l40s", count=2), CATALOG).node_w == 3000
    assert watts(machine, GpusSection(model="l40s", count=8), CATALOG).node_w is None


def test_nodes_with_an_override_are_a_kind_of_their_own(tmp_path: Path) -> None:
    override = ("networks: {mgmt", "overrides: {w3: {memory_gib: 512, reason: seen}}\nnetworks: {mgmt")
    room = loaded(altered(tmp_path, CASES / "valid.yaml", override)).placed.room
    assert [(kind.names, kind.overridden) for kind in room.kinds] == [(("w1", "w2", "w4"), None), (("w3",), "w3")]
    kind = room.kind_of["w3"]
    assert (kind.server.memory_gib, kind.metal, kind.floor, kind.worker) == (512, True, False, True)
    assert kind.loc("memory_gib") == ("overrides", "w3", "memory_gib")
    assert kind.loc("sockets") == ("nodes", "w[1-4]", "hardware")
    assert list(room.order) == ["w1", "w2", "w3", "w4"]


@pytest.mark.parametrize(("limit", "result"), [("limit_kg: 500", 500), ("limit_kg: 5000", 1000), ("spare_u: 4", 1000)])
def test_a_rack_bears_the_lesser_of_two_limits(limit: str, result: float, tmp_path: Path) -> None:
    path = altered(tmp_path, CASES / "valid.yaml", ("limit_kg: 500, spare_u: 4", limit))
    rack = loaded(path).placed.room.racks["r2"]
    assert (rack.limit_kg, rack.ordinal, rack.loc) == (result, 1, ("site", "racks", "r[1-2]"))
