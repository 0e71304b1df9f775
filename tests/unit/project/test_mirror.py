"""A module of hpcforge has its tests in tests/unit, at its own place and under its name; without_test.txt has the rest.

That list only becomes shorter: whoever writes a module writes its test.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
WITHOUT = (Path(__file__).parent / "without_test.txt").read_text(encoding="utf-8").splitlines()
AT_MOST = 85  # entries of it: lower this with each that goes


def place_of(module: Path) -> Path:
    """Where the test of a module is."""
    place = module.relative_to(ROOT / "hpcforge")
    return ROOT / "tests" / "unit" / place.parent / f"test_{place.name}"


def test_a_module_has_its_test_or_is_listed() -> None:
    modules = [path for path in (ROOT / "hpcforge").rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) > 400
    without = [path for path in modules if not place_of(path).exists()]
    assert sorted(str(path.relative_to(ROOT)) for path in without) == WITHOUT


def test_the_list_only_becomes_shorter() -> None:
    assert len(WITHOUT) == AT_MOST
