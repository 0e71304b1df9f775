"""What this machine has for containers."""

from __future__ import annotations

from pathlib import Path

from hpcforge.host.resources import controllers


def test_controllers_are_those_that_version_1_left_to_version_2(tmp_path: Path) -> None:
    unified = tmp_path / "unified"
    unified.mkdir()
    mounts = tmp_path / "mounts"
    mounts.write_text("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    assert controllers(mounts) == frozenset()
    mounts.write_text(f"{mounts.read_text()}cgroup2 {unified} cgroup2 rw,nosuid 0 0\n")
    (unified / "cgroup.controllers").write_text("")
    assert controllers(mounts) == frozenset()
    (unified / "cgroup.controllers").write_text("cpuset cpu memory\n")
    assert controllers(mounts) == {"cpuset", "cpu", "memory"}
