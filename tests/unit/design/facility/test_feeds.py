"""The load of feeds, with all of them and with one lost, and how long UPSs carry it."""

from __future__ import annotations

from math import isclose
from pathlib import Path

import pytest

from hpcforge.blueprint.sections.hardware import RunTime, Ups
from hpcforge.design.facility.feeds import Carried, carried, run_time_min
from hpcforge.design.facility.loads import load_racks
from tests.unit.design.facility.designs import CASES, altered, design_of, loaded, shipped

CURVE = Ups(run_times=(RunTime(load_w=1_000, minutes=60), RunTime(load_w=2_000, minutes=20)))


@pytest.mark.parametrize(
    ("load_w", "minutes"), [(500, 60), (1_000, 60), (1_500, 40), (2_000, 20), (2_001, 0)]
)  # never better than published
def test_run_time_from_a_curve(load_w: float, minutes: float) -> None:
    assert run_time_min(CURVE, 1, load_w) == minutes
    assert run_time_min(CURVE, 2, 2 * load_w) == minutes


def test_run_time_from_a_battery() -> None:
    assert run_time_min(Ups(battery_wh=1_000, efficiency=0.9), 1, 900) == 60
    assert run_time_min(Ups(battery_wh=1_000), 1, 900) is None


def test_diversity_counts_for_feeds_and_site_only(tmp_path: Path) -> None:
    whole = design_of(altered(tmp_path, shipped("dgx-h100-unit"), ("diversity: 0.9", "diversity: 1.0")))
    part = design_of(shipped("dgx-h100-unit"))
    assert part.racks == whole.racks
    assert part.power.it_w == whole.power.it_w
    assert [feed.load_w_one_lost for feed in part.feeds] == [feed.load_w_one_lost for feed in whole.feeds]
    for one, other in zip(part.feeds, whole.feeds, strict=True):
        assert isclose(one.load_w, 0.9 * other.load_w)
    assert isclose(part.power.total_w or 0, 0.9 * (whole.power.total_w or 0))


def test_a_pdu_of_one_phase_hangs_on_one_phase_of_its_feed(tmp_path: Path) -> None:
    changes = (("volts: 400, amps: 40, phases: 3, wiring: wye", "volts: 230, amps: 125, phases: 1"),)
    design = design_of(altered(tmp_path, CASES / "valid.yaml", *changes))
    assert not any(remark.code == "POWER-014" for remark in design.diagnostics)
    assert [round(phase.load_w) for phase in design.feeds[0].phases] == [6000, 6000, 0]


@pytest.mark.parametrize(
    ("lost", "worst"),
    [({}, (300.0, None)), ({"B": (100.0, 150.0, 200.0)}, (450.0, "B")), ({"B": (9.0,), "C": (400.0,)}, (400.0, "C"))],
)
def test_the_worst_loss_is_that_of_the_feed_that_leaves_most(
    lost: dict[str, tuple[float, ...]], worst: tuple[float, str | None]
) -> None:
    feed = Carried((100.0, 100.0, 100.0), "wye", lost)
    assert (feed.load_w, feed.worst) == (300.0, worst)


def test_with_one_feed_lost_the_other_carries_both() -> None:
    """Four nodes of 6 kW, each with supplies on feeds A and B."""
    room = loaded(CASES / "valid.yaml").placed.room
    feeds = carried(room, load_racks(room, loaded(CASES / "valid.yaml").placed.layout))
    assert {name: (feed.load_w, feed.worst) for name, feed in feeds.items()} == {
        "A": (pytest.approx(12_000), (pytest.approx(24_000), "B")),
        "B": (pytest.approx(12_000), (pytest.approx(24_000), "A")),
    }
    assert [feed.wiring for feed in feeds.values()] == ["wye", "wye"]
