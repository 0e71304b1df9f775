"""Mounts: names of units, and what a plan says of them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from hpcforge.node.kinds import mounts, resource

SCRATCH = {"path": "/srv/fast-scratch", "what": "tmpfs", "type": "tmpfs", "options": "size=1M,mode=1777"}


def test_a_try_may_take_longer_than_what_is_waited_between_two() -> None:
    plain = {"path": "/disks", "what": "/dev/nvme0n1", "type": "xfs", "options": "uquota", "retry_s": 25}
    for try_s, limit_s in ((3600, 3600), (0, 25)):
        texts = mounts._texts(resource("mounts", {**plain, "try_s": try_s}))
        assert texts["disks.mount"].endswith(f"\nTimeoutSec={limit_s}\n")
        assert "\nOnUnitInactiveSec=25\n" in texts["disks.timer"]


# Programs of a node whose mount has lost its own program, each of which writes down what it was asked.
STUBS = {
    "systemctl": 'echo "systemctl $*" >>"$OUT"',
    "stat": 'echo "stat: cannot statx: Transport endpoint is not connected" >&2; exit 1',
    "umount": 'echo "umount $*" >>"$OUT"',
}
PLANTED = 'mount -t tmpfs planted /proc; mkdir /proc/7; printf "%s\\n" "$0" >/proc/7/cgroup; exec sh -c "$@"'


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize(
    ("cgroup", "unmounted"),
    [
        ("0::/system.slice/data.mount", False),
        ("4:memory:/system.slice/_data.mount", False),
        ("0::/user.slice/user-2001.slice/user@2001.service/app.slice/data.mount", True),
        ("0::/user.slice/user-2001.slice/user@2001.service/system.slice/data.mount", True),
        ("0::/system.slice/ssh.service", True),
    ],
)
def test_only_a_program_of_the_mounts_own_keeps_a_dead_mount(tmp_path: Path, cgroup: str, unmounted: bool) -> None:
    for name, text in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    wanted = {"path": "/data", "what": "x", "type": "fuse", "options": "ro", "retry_s": 25, "fuse": True}
    service = mounts._texts(resource("mounts", wanted))["hpcforge-mount@data.service"]
    script = re.search(r"^ExecStart=/bin/sh -c '(.*)' sh %i.mount %f$", service, re.MULTILINE)
    assert script
    words = [script[1].replace("$$", "$"), "sh", "data.mount", "/data"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OUT": str(tmp_path / "out")}
    subprocess.run(["unshare", "--mount", "sh", "-ec", PLANTED, cgroup, *words], env=environment, check=True)
    asked = (tmp_path / "out").read_text().splitlines()
    assert asked[0] == "systemctl -q is-active -- data.mount"
    assert asked[1:-1] == (["umount -l -- /data"] if unmounted else [])
    assert asked[-1] == "systemctl start --no-block -- data.mount"
