"""Disks that are full, out of inodes or read-only are found before anything is changed."""

import os
import subprocess

import pytest

from hpcforge.node import disk_space
from hpcforge.node.events import NodeError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")
APT = """\
The following NEW packages will be installed:
  munge libmunge2
0 upgraded, 2 newly installed, 0 to remove and 3 not upgraded.
Need to get {download} of archives.
After this operation, {installed} of additional disk space will be used.
Do you want to continue? [Y/n] N
Abort.
"""


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=20", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize(
    ("download", "installed", "found"),
    [
        ("148 kB", "424 kB", (148_000, 424_000)),
        ("1,234 MB", "3.1 GB", (1_234_000_000, 3_100_000_000)),
        ("0 B/148 kB", "424 kB", (0, 424_000)),  # what is at hand already needs no room
        ("12.5 MB/1,148 kB", "0 B", (12_500_000, 0)),
    ],
)
def test_sizes_that_apt_tells(download, installed, found):
    assert disk_space.sizes(APT.format(download=download, installed=installed)) == found


def test_apt_that_says_nothing_needs_nothing():
    assert disk_space.sizes("E: Unable to locate package nope\n") == (0, 0)


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
