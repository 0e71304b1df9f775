"""Directories that a role has: those that were made for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcforge.kinds.directories import Directory
from hpcforge.node.kinds import directories
from tests.support.resources import GROUP, OWNER


def test_a_directory_is_made_with_those_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "a/b"
    directory, made = Directory(str(path), "0750", OWNER, GROUP), set[str]()
    assert directories.obstacle(directory, None) is None
    assert directories.own(directory.path, directory, made) == [str(path), str(tmp_path / "a")]
    assert made == {str(path), str(tmp_path / "a")}
    assert directories.put(directory)
    assert path.stat().st_mode & 0o777 == 0o750
    assert directories.compare(directory) is None
    assert directories.own(directory.path, None, made) == [str(path), str(tmp_path / "a")]  # hpcforge's still


def test_one_that_was_there_is_nobodys(tmp_path: Path) -> None:
    assert directories.own(str(tmp_path), None, set()) == []


@pytest.mark.parametrize("kind", ["file", "link"])
def test_anything_else_is_in_the_way(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.touch()
    else:
        path.symlink_to(tmp_path)
    assert directories.obstacle(Directory(str(path)), None)


@pytest.mark.skipif(os.geteuid() != 0, reason="changes rights of root")
def test_rights_are_put_right(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir(mode=0o700)
    directory = Directory(str(path), "0755", OWNER, GROUP)
    difference = directories.compare(directory)
    assert difference is not None and (difference["exists"], difference["mode"]) == (True, "0700")
    assert directories.put(directory)
    assert directories.compare(directory) is None
