"""Designs of blueprints, shipped and altered, for tests."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cluster import Loaded, load
from hpcforge.cluster.blueprint_design import designed
from hpcforge.cluster.design import Design
from hpcforge.design.facility.training import TrainingRun
from tests.support.shipped import anywhere

ROOT = Path(__file__).parents[4]
CASES = Path(__file__).parent / "cases"
SHIPPED = ("two-node-lab", "air-cooled-16", "dgx-h100-unit")
RUN = TrainingRun(parameters=70e9, tokens=2e12, utilisation=0.4, price_per_kwh=0.2)


def shipped(name: str) -> Path:
    return ROOT / "blueprints" / f"{name}.yaml"


def design_of(path: Path, *runs: TrainingRun) -> Design:
    return designed(load(path, judged=False), path.name, runs)


def altered(folder: Path, path: Path, *changes: tuple[str, str]) -> Path:
    text = anywhere(path)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / path.name).write_text(text, encoding="utf-8")
    return folder / path.name


def loaded(path: Path) -> Loaded:
    return load(path, judged=False)
