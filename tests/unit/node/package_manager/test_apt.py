"""What apt-get prints of sizes."""

import pytest

from hpcforge.node.package_manager import apt

APT = """\
The following NEW packages will be installed:
  munge libmunge2
0 upgraded, 2 newly installed, 0 to remove and 3 not upgraded.
Need to get {download} of archives.
After this operation, {installed} of additional disk space will be used.
Do you want to continue? [Y/n] N
Abort.
"""


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
    assert apt.sizes(APT.format(download=download, installed=installed)) == found


def test_apt_that_says_nothing_needs_nothing():
    assert apt.sizes("E: Unable to locate package nope\n") == (0, 0)
