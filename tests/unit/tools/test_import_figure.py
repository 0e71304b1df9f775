from __future__ import annotations

import networkx
import pytest

from tools.import_figure import ROOT, figure, floors, package_imports


def test_the_published_figure_has_the_present_imports() -> None:
    published = (ROOT / "docs" / "packages.svg").read_text()
    assert published == figure(), "write it: make references"


def test_each_package_is_above_what_it_imports() -> None:
    imports = package_imports()
    height = {package: number for number, floor in enumerate(floors(imports)) for package in floor}
    assert height.keys() == imports.keys()
    assert all(height[package] > height[target] for package, targets in imports.items() for target in targets)


def test_a_circle_is_refused() -> None:
    with pytest.raises(networkx.NetworkXUnfeasible):
        floors({"a": ["b"], "b": ["a"]})
