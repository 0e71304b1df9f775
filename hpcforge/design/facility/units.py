"""Formulas of power and heat, and formats of quantities. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

BTU_H_PER_W = 3.412  # 1 W of load is 3.412 BTU/h of heat (ASHRAE Handbook, units and conversions)
BTU_H_PER_TON = 12_000  # a ton of refrigeration (ASHRAE Handbook)
CFM_PER_M3_H = 0.588578  # 1 m3/h in cubic feet a minute: 35.3147 / 60
_AIR_KG_M3 = 1.2  # standard air (ASHRAE Handbook, Fundamentals): 20 degrees Celsius, sea level
_AIR_J_KG_K = 1_005  # specific heat of dry air (the same)


def heat_btu_h(power_w: float) -> float:
    """Return the heat of a load, BTU/h: all power becomes heat."""
    return power_w * BTU_H_PER_W


def heat_tons(power_w: float) -> float:
    """Return the heat of a load in tons of refrigeration."""
    return heat_btu_h(power_w) / BTU_H_PER_TON


def airflow_m3_h(power_w: float, rise_k: float) -> float:
    """Return the air that removes a load's heat and warms by `rise_k`, m3/h: P / (density x heat capacity x rise)."""
    return power_w / (_AIR_KG_M3 * _AIR_J_KG_K * rise_k) * 3_600


def breaker_w(volts: float, amps: float, phases: int, derating: float) -> float:
    """Return the continuous power behind a breaker, W, at power factor 1: derating x (sqrt(3) x) V line to line x A."""
    return derating * (sqrt(3) if phases == 3 else 1) * volts * amps


def breaker_terms(volts: float, amps: float, phases: int, derating: float) -> str:
    """Return the terms of `breaker_w`: `0.8 x sqrt(3) x 415 V x 32 A`."""
    root = "sqrt(3) x " if phases == 3 else ""
    return f"{derating:g} x {root}{volts:g} V x {amps:g} A"


def line_amps(loads_w: Sequence[float], volts: float, wiring: str | None) -> tuple[float, ...]:
    """Return the current in each line, A, for loads at power factor 1.

    One load: one phase at `volts`. Three with wiring wye: each between a line and neutral, at volts / sqrt(3). Three
    with wiring delta: between lines 1-2, 2-3 and 3-1 at `volts`; a line carries the two loads on it, whose currents
    are 60 degrees apart: sqrt(a^2 + b^2 + a b).
    """
    if len(loads_w) == 1:
        return (loads_w[0] / volts,)
    if wiring == "wye":
        return tuple(load * sqrt(3) / volts for load in loads_w)
    amps = [load / volts for load in loads_w]
    pairs = [(amps[line], amps[line - 1]) for line in range(3)]
    return tuple(sqrt(a * a + b * b + a * b) for a, b in pairs)


def line_watts(loads_w: Sequence[float], wiring: str | None) -> tuple[float, ...]:
    """Return the power of each line, W: with wiring delta, half of each of the two loads on it."""
    if len(loads_w) == 1 or wiring == "wye":
        return tuple(loads_w)
    return tuple((loads_w[line] + loads_w[line - 1]) / 2 for line in range(3))


def kw(power_w: float, digits: int = 1) -> str:
    """`10.2 kW`; below 1 kW `850 W`."""
    if abs(power_w) < 1_000:
        return f"{power_w:.{max(0, digits - 1)}f} W"
    return f"{power_w / 1_000:,.{digits}f} kW"


def amperes(current_a: float, digits: int = 1) -> str:
    """`31.9 A`."""
    return f"{current_a:,.{digits}f} A"


def kg(weight_kg: float, digits: int = 0) -> str:
    """`1,300 kg`."""
    return f"{weight_kg:,.{digits}f} kg"


def m3_h(air_m3_h: float, digits: int = 0) -> str:
    """`8,120 m3/h`."""
    return f"{air_m3_h:,.{digits}f} m3/h"


def apart(write: Callable[[float, int], str], larger: float, smaller: float) -> tuple[str, str]:
    """Write two quantities with as many digits as it takes to see that they differ."""
    for digits in range(6):
        pair = write(larger, digits), write(smaller, digits)
        if pair[0] != pair[1] and digits >= 1:
            return pair
    return pair
