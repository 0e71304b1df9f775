from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.lab.errors import LabError
from hpcforge.lab.nspawn import base


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCFORGE_CACHE_DIR", str(tmp_path))
    home = tmp_path / "base" / "debian-12-0123456789ab"
    monkeypatch.setattr(base, "_home", lambda release: home.with_name(f"debian-{release}-0123456789ab"))
    for name in ("system", "python"):
        (home / name).mkdir(parents=True)
    return home


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


def test_layers_lie_in_order(home: Path) -> None:
    assert names(base.layers("12", python=True)) == ["python", "system"]
    assert names(base.layers("12", python=False)) == ["system"]
    for name in ("lists-20260101T000000Z", "lists-20260103T000000Z", "lists-20260102T000000Z"):
        (home / name).mkdir()
    assert names(base.layers("12", python=True)) == ["lists-20260103T000000Z", "python", "system"]
    assert names(base.layers("12", python=False)) == ["lists-20260103T000000Z", "system"]


@pytest.mark.usefixtures("home")
def test_what_is_there_is_not_built_again() -> None:
    said: list[str] = []
    base.ensure("12", [], said.append)
    assert said == []


def test_old_trees_go_unless_a_node_lies_on_them(home: Path) -> None:
    used, unused = home.with_name("debian-12-aaaaaaaaaaaa"), home.with_name("debian-12-bbbbbbbbbbbb")
    another_release = home.with_name("debian-13-cccccccccccc")
    lists = [home / f"lists-2026010{day}T000000Z" for day in (1, 2, 3)]
    for tree in (used / "system", unused / "system", another_release / "system", *lists):
        tree.mkdir(parents=True)
    said: list[str] = []
    base.ensure("12", [used / "system", lists[0]], said.append)
    assert said == [f"removing {unused}, of an older recipe"]
    assert used.exists()
    assert another_release.exists()
    assert not unused.exists()
    assert [tree.exists() for tree in lists] == [True, False, True]


def test_lists_that_cannot_be_refreshed_stay(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object) -> None:
        raise LabError("`apt-get update` failed\nCould not resolve host")

    monkeypatch.setattr(base, "_build_layer", offline)
    os.utime(home / "system", (0, 0))
    said: list[str] = []
    base.ensure("12", [], said.append)
    assert said[-1].startswith("package lists stay ")
    assert said[-1].endswith("Could not resolve host")
