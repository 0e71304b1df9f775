"""`make bench-quick`: what counts as worse, and that every figure is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    assert str(BENCHMARKS) in sys.path


def test_worse_by_a_tenth() -> None:
    from quick import worse  # noqa: PLC0415

    assert worse({"a": 10.0, "b": 10.0, "c": 10.0}, {"a": 10.9, "b": 11.1, "d": 99.0}) == ["b"]


def test_the_table_has_both() -> None:
    from quick import table  # noqa: PLC0415

    assert table({"a": 10.0}, {"a": 11.0, "b": 2.0}).splitlines()[2:] == ["| a | 10 | 11 | 1.10 |", "| b |  | 2 |  |"]


def test_what_is_worse_is_measured_again() -> None:
    from quick import judged  # noqa: PLC0415

    values = iter([20.0, 15.0, 10.5])
    assert judged({"a": lambda: {"a": next(values)}}, {"a": 10.0}) == {"a": 10.5}
    assert list(values) == []


def test_every_part_is_kept(tmp_path: Path) -> None:
    from quick import KEPT, commands, sizes  # noqa: PLC0415

    kept = yaml.safe_load(KEPT.read_text(encoding="utf-8"))["figures"]
    for name in (*commands(), *sizes(tmp_path)):
        assert f"{name}, loops" in kept
    assert any(name.startswith("no change, 8 nodes") for name in kept)
