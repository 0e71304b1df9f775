"""Volumes in a plan: which drives are formatted has to be seen before."""

from __future__ import annotations

import pytest

from hpcforge.kinds.resource import ActualState
from hpcforge.kinds.volumes import Volume

ONE = Volume("scratch", "4a7ad7c7", "/scratch", drives=1)
TWO = Volume("scratch", "4a7ad7c7", "/scratch", drives=2, raid=1, quota_gib=5)


@pytest.mark.parametrize(
    ("volume", "state", "line"),
    [
        (ONE, {"exists": False}, "+ volume scratch  FORMATS the NVMe drive on which nothing is found: XFS"),
        (
            TWO,
            {"exists": False},
            "+ volume scratch  FORMATS the 2 NVMe drives on which nothing is found: XFS on RAID 1",
        ),
        (
            TWO,
            {"exists": False, "drives": ["nvme0n1", "nvme2n1"]},
            "+ volume scratch  FORMATS nvme0n1, nvme2n1, where nothing was found: XFS on RAID 1",
        ),
        (
            TWO,
            {"exists": False, "drives": []},
            "~ volume scratch  put together again from its own drives; nothing is formatted",
        ),
        (TWO, {"exists": True, "quota_gib": 1}, "~ volume scratch  quota of a user 1 GiB -> 5 GiB"),
        (TWO, {"exists": True, "quota_gib": None}, "~ volume scratch  quota of a user none -> 5 GiB"),
        (ONE, {"exists": True, "quota_gib": 0}, "~ volume scratch  write permissions"),
    ],
)
def test_a_plan_says_what_is_formatted(volume: Volume, state: ActualState, line: str) -> None:
    assert volume.line(state) == line
