"""The way to a file: links, rights and directories on it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpcforge.node import paths
from hpcforge.node.events import NodeError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play root and another user")
OTHER = 65534  # nobody


@pytest.mark.parametrize(
    ("path", "parts"), [("/etc/hosts", ("/etc", "hosts")), ("/a", ("/", "a")), ("/a/b.c/d", ("/a/b.c", "d"))]
)
def test_a_path_has_a_parent_and_a_name(path: str, parts: tuple[str, str]) -> None:
    assert paths.split(path) == parts


@pytest.mark.parametrize("path", ["", "a", "a/b", "/a/", "/a/../b", "/./a", "/a\0b", "/"])
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    with pytest.raises(NodeError):
        paths.split(path)


def opened(path: Path, *, create: bool = False) -> str:
    """Where the kernel is after that way."""
    folder = paths.open_directory(str(path), create)
    try:
        return str(Path(f"/proc/self/fd/{folder}").readlink())
    finally:
        os.close(folder)


def test_missing_directories_are_made_for_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "a/b")
    assert opened(tmp_path / "a/b", create=True) == str(tmp_path / "a/b")
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")} == {0o755}


def test_links_of_root_are_followed_in_directories_of_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "absolute").symlink_to(tmp_path / "link/deep")
    assert opened(tmp_path / "absolute") == str(tmp_path / "real/deep")


@pytest.mark.parametrize("owner", ["link", "directory"])
def test_a_link_that_another_user_can_move_is_refused(tmp_path: Path, owner: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "link").symlink_to("/etc")
    if owner == "link":
        os.lchown(place / "link", OTHER, OTHER)
    else:
        os.chown(place, OTHER, OTHER)
    with pytest.raises(paths.UnsafeError):
        opened(place / "link")


@pytest.mark.parametrize(("mode", "safe"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_a_directory_that_all_users_write_to_needs_the_sticky_bit(tmp_path: Path, mode: int, safe: bool) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    if safe:
        assert opened(tmp_path / "open") == str(tmp_path / "open")
        return
    with pytest.raises(paths.UnsafeError):
        opened(tmp_path / "open")


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(paths.UnsafeError):
        opened(tmp_path / "a")


@pytest.mark.parametrize(
    ("mode", "owner", "roots"), [(0o755, 0, True), (0o775, 0, False), (0o757, 0, False), (0o755, OTHER, False)]
)
def test_a_directory_is_roots_where_no_other_user_writes(tmp_path: Path, mode: int, owner: int, roots: bool) -> None:
    tmp_path.chmod(mode)
    os.chown(tmp_path, owner, 0)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    assert paths.is_roots(folder) is roots
    os.close(folder)


def test_a_private_directory_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o755)
    for _ in range(2):
        os.close(paths.open_private(tmp_path / "private"))
        assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to("private")
    with pytest.raises(OSError):
        paths.open_private(tmp_path / "link")
