"""How long UPSs carry a load."""

from __future__ import annotations

import pytest

from hpcforge.blueprint.sections.hardware import RunTime, Ups
from hpcforge.design.facility.feeds import run_time_min

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
