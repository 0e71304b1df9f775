"""What a role's own code made goes with all that is in it, and nothing else does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.node import trees
from hpcforge.node.events import NodeError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to play another user, and to mount")
HER = 65534


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in (tmp_path, tmp_path.parent):
        folder.chmod(0o755)
    path = tmp_path / "tree"
    (path / "a/b").mkdir(parents=True)
    (path / "a/b/file").write_text("made\n")
    return path


def test_all_of_it_goes_and_what_links_lead_to_stays(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("hers\n")
    (tree / "link").symlink_to(tmp_path / "precious")
    assert trees.remove(str(tree)) == "removed"
    assert trees.remove(str(tree)) is None
    assert trees.remove(str(tmp_path / "none/at/all")) is None
    assert (tmp_path / "precious/file").read_text() == "hers\n"


def test_a_link_in_its_place_goes_alone(tree: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert trees.remove(str(link)) == "removed"
    assert (tree / "a/b/file").exists()


@as_root
def test_what_lies_where_others_may_write_is_left_to_them(tree: Path, tmp_path: Path) -> None:
    os.chown(tmp_path, HER, HER)
    with pytest.raises(NodeError, match="not only root may write"):
        trees.remove(str(tree))
    os.chown(tmp_path, 0, 0)
    hers = tmp_path / "hers"
    hers.symlink_to(tmp_path)
    os.lchown(hers, HER, HER)
    with pytest.raises(NodeError, match="symbolic link that nobody made"):
        trees.remove(f"{hers}/tree")
    assert (tree / "a/b/file").exists()


@pytest.fixture(params=["bind", "tmpfs"])
def mounted(tree: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Something of somebody's, mounted in the tree; a bind mount has the same device."""
    source = tmp_path / "source"
    source.mkdir()
    words = ["--bind", str(source)] if request.param == "bind" else ["-t", "tmpfs", "tmpfs"]
    subprocess.run(["mount", *words, str(tree / "a/b")], check=True)
    try:
        (tree / "a/b/precious").write_text("hers\n")
        yield tree / "a/b/precious"
    finally:
        subprocess.run(["umount", str(tree / "a/b")], check=True)


@as_root
def test_what_is_mounted_in_it_is_not_entered(tree: Path, mounted: Path) -> None:
    with pytest.raises(NodeError, match=f"something is mounted there .{tree}/a/b.; unmount it first"):
        trees.remove(str(tree))
    assert mounted.read_text() == "hers\n"
