"""`benchmarks/rounds.py`: programs take turns with a base, and ratios are medians of pairs. Nothing is timed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import rounds  # noqa: PLC0415

    return rounds


def runs(rounds: Any, values: Iterable[float], field: str = "wall_s") -> Callable[[], Any]:
    """Return a program whose runs cost these values, one after the other."""
    costs: Iterator[Any] = (rounds.Cost(**{"wall_s": 1.0, "cpu_s": 1.0, "memory_mib": 0.0, field: v}) for v in values)
    return lambda: next(costs)


def test_a_ratio_is_the_median_of_pairs_with_the_base_beside_each(rounds: Any) -> None:
    compared = rounds.compare(runs(rounds, [1.0, 1.05, 2.0, 2.0]), {"a": runs(rounds, [2.05, 9.0, 8.0, 8.0])}, 2)
    assert compared["a"].ratio("wall_s") == rounds.Spread(3.0, 2.0, 4.0, 2)
    assert compared["a"].unsteady == 1  # 9.0, while the machine slowed down by half


def test_on_a_steady_machine_each_program_runs_so_often_and_the_base_once_more(rounds: Any) -> None:
    order: list[str] = []

    def program(name: str) -> Callable[[], Any]:
        return lambda: order.append(name) or rounds.Cost(1.0, 1.0, 0.0)  # type: ignore[func-returns-value]

    rounds.compare(program("base"), {"a": program("a"), "b": program("b")}, 2)
    assert order == ["base", "a", "base", "b", "base", "a", "base", "b", "base"]


def test_an_unsteady_round_is_repeated_but_not_for_ever(rounds: Any) -> None:
    compared = rounds.compare(
        runs(rounds, [1.0, 2.0, 2.0, 4.0, 8.0, 16.0, 32.0]), {"a": runs(rounds, [9.0, 6.0, 9.0, 9.0, 9.0, 9.0])}, 3
    )
    assert compared["a"].ratio("wall_s") == rounds.Spread(3.0, 3.0, 3.0, 1)
    assert compared["a"].unsteady == 5


def test_without_a_steady_round_the_unsteady_ones_count(rounds: Any) -> None:
    compared = rounds.compare(runs(rounds, [1.0, 3.0, 1.0]), {"a": runs(rounds, [4.0, 6.0])}, 1)
    assert compared["a"].ratio("wall_s") == rounds.Spread(2.5, 2.0, 3.0, 2)


def test_steady_is_judged_by_the_compared_field(rounds: Any) -> None:
    def base(field: str) -> Callable[[], Any]:
        return runs(rounds, [1.0, 2.0, 4.0], field)

    for field, unsteady in (("wall_s", 0), ("cpu_s", 2)):
        [compared] = rounds.compare(base(field), {"a": runs(rounds, [1.0] * 2)}, 1, "cpu_s").values()
        assert compared.unsteady == unsteady


def test_what_is_no_ratio_has_a_spread_too(rounds: Any) -> None:
    compared = rounds.compare(runs(rounds, [1.0] * 4), {"a": runs(rounds, [50.0, 52.0, 51.0], "memory_mib")}, 3)
    assert compared["a"].spread("memory_mib") == rounds.Spread(51.0, 50.0, 52.0, 3)
