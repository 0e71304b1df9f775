"""Files that a kind writes of its own accord."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from hpcforge.node import backups, written_files
from hpcforge.node.files import put_text
from hpcforge.node.kinds import UNKNOWN

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the files are root's")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("keep", "restore"):
        monkeypatch.setattr(backups, name, partial(getattr(backups, name), folder=tmp_path / "originals"))
    return tmp_path / "x.conf"


def test_a_file_is_there_with_its_text_and_readable_by_all(path: Path) -> None:
    assert not written_files.is_there(str(path), "a\n")
    assert put_text(str(path), "a\n")
    assert written_files.is_there(str(path), "a\n")
    assert not written_files.is_there(str(path), "b\n")
    path.chmod(0o600)
    assert not written_files.is_there(str(path), "a\n")


def test_a_difference_says_whether_there_is_anything(path: Path) -> None:
    assert written_files.compare("x", str(path), "a\n") == {"name": "x", "exists": False}
    path.write_text("b\n")
    assert written_files.compare("x", str(path), "a\n") == {"name": "x", "exists": True}
    put_text(str(path), "a\n")
    assert written_files.compare("x", str(path), "a\n") is None


@pytest.mark.parametrize(("before", "result"), [("ours before\n", "restored"), (None, "removed")])
def test_the_earlier_file_comes_back(path: Path, before: str | None, result: str) -> None:
    if before is not None:
        path.write_text(before)
    record = written_files.own(str(path), "a change")
    put_text(str(path), "a\n")
    assert record is not None
    assert written_files.restore(str(path), record) == result
    assert (path.read_text() if path.exists() else None) == before


def test_of_a_file_that_was_right_already_nothing_earlier_is_known(path: Path) -> None:
    path.write_text("a\n")
    record = written_files.own(str(path), None)
    assert record == {"before": UNKNOWN}
    assert written_files.restore(str(path), record) == "removed"


@pytest.mark.parametrize(("kind", "free"), [("nothing", True), ("file", True), ("link", True), ("directory", False)])
def test_a_directory_is_in_the_way(path: Path, kind: str, free: bool) -> None:
    if kind == "file":
        path.touch()
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind == "directory":
        path.mkdir()
    assert (written_files.obstacle(str(path)) is None) == free
    assert written_files.exists(str(path)) == (kind != "nothing")
    assert (written_files.own(str(path), "a change") is None) == (not free)
