"""Mounts: names of units, and what a plan says of them."""

import subprocess

import pytest

from hpcforge.kinds.mounts import Mount
from hpcforge.kinds.resource import ActualState
from hpcforge.node import unit_files
from hpcforge.node.kinds import mounts, resource

SCRATCH = {"path": "/srv/fast-scratch", "what": "tmpfs", "type": "tmpfs", "options": "size=1M,mode=1777"}
WAS = {word: SCRATCH[word] for word in ("what", "type", "options")}


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({"exists": False}, "+ mount tmpfs (tmpfs) at /srv/fast-scratch  size=1M,mode=1777"),
        ({"exists": False, **WAS}, "+ mount tmpfs (tmpfs) at /srv/fast-scratch  size=1M,mode=1777"),
        (
            {"exists": True, **WAS, "options": "size=1M,ro"},
            "~ mount tmpfs (tmpfs) at /srv/fast-scratch  -ro +mode=1777",
        ),
        (
            {"exists": True, **WAS, "what": "head:/fast", "type": "nfs", "options": "size=1M,mode=1777,ro"},
            "~ mount tmpfs (tmpfs) at /srv/fast-scratch  head:/fast (nfs) until now -ro",
        ),
    ],
)
def test_a_plan_says_what_is_mounted_and_what_of_it_is_new(found: ActualState, line: str) -> None:
    assert Mount(**SCRATCH).line(found) == line  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/srv/fast-scratch", "/a b/ü/.c", "/.hidden/x_y:z"])
def test_units_are_named_as_systemd_names_them(path: str) -> None:
    asked = subprocess.run(["systemd-escape", "--path", path], capture_output=True, text=True, check=True)
    assert unit_files.escaped(path) == asked.stdout.strip()


def test_a_try_may_take_longer_than_what_is_waited_between_two() -> None:
    plain = {"path": "/disks", "what": "/dev/nvme0n1", "type": "xfs", "options": "uquota", "retry_s": 25}
    for try_s, limit_s in ((3600, 3600), (0, 25)):
        texts = mounts._texts(resource("mounts", {**plain, "try_s": try_s}))
        assert texts["disks.mount"].endswith(f"\nTimeoutSec={limit_s}\n")
        assert "\nOnUnitInactiveSec=25\n" in texts["disks.timer"]
