"""Designs of blueprints, shipped and altered, for tests."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cluster import Loaded, load
from hpcforge.cluster.design import Design, designed
from tests.support.shipped import anywhere

ROOT = Path(__file__).parents[4]
CASES = Path(__file__).parent / "cases"
SHIPPED = ("two-node-lab", "air-cooled-16", "dgx-h100-unit")


def shipped(name: str) -> Path:
    return ROOT / "blueprints" / f"{name}.yaml"


def design_of(path: Path) -> Design:
    return designed(load(path, judged=False), path.name)


def altered(folder: Path, path: Path, *changes: tuple[str, str]) -> Path:
    text = anywhere(path)
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / path.name).write_text(text, encoding="utf-8")
    return folder / path.name


def loaded(path: Path) -> Loaded:
    return load(path, judged=False)
