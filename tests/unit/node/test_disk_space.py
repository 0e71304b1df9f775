"""Disks that are full, out of inodes or read-only are found before anything is changed."""

import os
import subprocess

import pytest

from hpcforge.node import disk_space
from hpcforge.node.events import NodeError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=20", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@as_root
def test_room_that_is_there_is_enough(disk):
    disk_space.refuse([disk_space.SpaceNeed(f"{disk}/a/b/c", 900_000, 10)])


@as_root
@pytest.mark.parametrize(
    ("size", "inodes", "why"),
    [
        (2_000_000, 1, r"the file system of .*/disk is full, and nothing was changed: 1\.9 MiB needed, 1\.0 MiB free"),
        (1, 50, r"has too few inodes, and nothing was changed: 50 needed, 1\d free"),
    ],
)
def test_what_does_not_fit_is_refused(disk, size, inodes, why):
    with pytest.raises(NodeError, match=why):
        disk_space.refuse([disk_space.SpaceNeed(f"{disk}/a/b/c", size, inodes)])


@as_root
def test_needs_on_one_disk_add_up(disk):
    with pytest.raises(NodeError, match="is full"):
        disk_space.refuse([disk_space.SpaceNeed(f"{disk}/{name}", 400_000, 1) for name in "abc"])


@as_root
def test_a_read_only_disk_is_refused(disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    with pytest.raises(NodeError, match="is read-only, and nothing was changed"):
        disk_space.refuse([disk_space.SpaceNeed(f"{disk}/f", 1, 1)])


@as_root
def test_content_counts_with_what_it_takes_the_place_of(disk, wanted):
    path = disk / "f"
    path.write_bytes(bytes(300_000))
    disk_space.check([{"role": "one", "files": [wanted.file(path, "x" * 300_000)]}])
    with pytest.raises(NodeError, match="is full"):
        disk_space.check([{"role": "one", "files": [wanted.file(path, "x" * 800_000)]}])
