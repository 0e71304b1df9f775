"""Names of units of systemd."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hpcforge.node import unit_files


@pytest.mark.parametrize("path", ["/srv/fast-scratch", "/a b/ü/.c", "/.hidden/x_y:z", "/"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    asked = subprocess.run(["systemd-escape", "--path", path], capture_output=True, text=True, check=True)
    assert unit_files.escaped(path) == asked.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(unit_files, "FOLDER", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "free"), [(None, True), (f"{unit_files.MARK}[Unit]\n", True), ("[Unit]\n", False), ("", False)]
)
def test_a_unit_of_another_program_is_not_replaced(folder: Path, text: str | None, free: bool) -> None:
    if text is not None:
        (folder / "x.service").write_text(text)
    assert (unit_files.obstacle({"x.service": ""}) is None) == free
    assert unit_files.any_there({"x.service": "", "y.service": ""}) == (text is not None)


def test_a_unit_with_another_text_is_not_there(folder: Path) -> None:
    assert not unit_files.is_there({"x.service": "[Unit]\n"}, "x.service")
    (folder / "x.service").write_text(f"{unit_files.MARK}[Unit]\nDescription=x\n")
    assert not unit_files.is_there({"x.service": "[Unit]\n"}, "x.service")
