from __future__ import annotations

from math import isclose, sqrt

import pytest

from hpcforge.design.facility import units


def test_heat() -> None:
    assert isclose(units.heat_btu_h(10_000), 34_120)
    assert isclose(units.heat_tons(3_517), 1, rel_tol=1e-4)


def test_airflow() -> None:
    """The rule of thumb 3.16 CFM for each W and degree Fahrenheit of rise."""
    cfm = units.airflow_m3_h(1_000, 10) * units.CFM_PER_M3_H
    assert isclose(cfm, 3.16 * 1_000 / 18, rel_tol=0.01)


def test_breakers() -> None:
    assert isclose(units.breaker_w(415, 32, 3, 0.8), 0.8 * sqrt(3) * 415 * 32)
    assert isclose(units.breaker_w(230, 16, 1, 1.0), 3_680)


def test_lines() -> None:
    assert units.line_amps((2_300,), 230, None) == (10,)
    assert all(isclose(amps, 10) for amps in units.line_amps((2_300,) * 3, 230 * sqrt(3), "wye"))
    assert units.line_amps((2_080, 0, 0), 208, "delta") == (10, 10, 0)
    assert sum(units.line_watts((2_080, 0, 0), "delta")) == 2_080


@pytest.mark.parametrize(("larger", "smaller"), [(36_802, 36_799.9), (40_800, 36_800), (900.01, 900)])
def test_quantities_that_differ_are_written_so(larger: float, smaller: float) -> None:
    assert len(set(units.apart(units.kw, larger, smaller))) == 2
