"""A file system without room, or read-only, is named before a role writes there, with the command that helps."""

import os
import subprocess

import pytest

from hpcforge.node import disk_space, obstacles, receipt
from hpcforge.node.kinds import mounts
from hpcforge.node.obstacles import space

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "none", path], check=True)
    yield path
    subprocess.run(["umount", "-R", path], check=True)


def found(*roles):
    inspection = obstacles.Inspection(roles, {role["role"]: role for role in roles}, receipt.EMPTY)
    return list(space.search(inspection))


def test_a_healthy_disk_is_no_obstacle(disk, wanted):
    assert found({"role": "time", "files": [wanted.file(disk / "f", "x")]}) == []


def test_a_full_disk_is_named_with_its_role(disk, wanted):
    (disk / "f").write_text("old")
    (disk / "filler").write_bytes(bytes(60 * 1024))
    roles = [{"role": "base"}, {"role": "time", "files": [wanted.file(disk / "f", "x")]}]
    [conflict] = found(*roles)
    assert (conflict.role, conflict.kind, conflict.name, conflict.commands) == ("time", "disk", f"{disk}/f", ())
    assert conflict.why.startswith(f"the file system of {disk}/f is full: 4 KiB needed, 0 KiB free; `du -xh {disk} ")


def test_a_disk_without_inodes_is_named(disk, wanted):
    for number in range(7):
        (disk / str(number)).touch()
    [conflict] = found({"role": "time", "files": [wanted.file(disk / "f", "x")]})
    assert conflict.why.startswith(f"the file system of {disk} has too few inodes: 1 needed, 0 free")


def test_a_read_only_disk_is_named_with_the_command_and_the_line_of_fstab(disk, wanted, tmp_path, monkeypatch):
    fstab = tmp_path / "fstab"
    fstab.write_text(f"# /etc/fstab\nnone {disk} tmpfs size=64k,ro,noexec 0 0\n")
    monkeypatch.setattr(mounts, "FSTAB", str(fstab))
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    role = {"role": "time", "files": [wanted.file(disk / "a" / "f", "x")]}
    [conflict] = found(role)
    assert conflict.why == (
        f"the file system of {disk} is read-only: it is mounted so at {disk} by {fstab}:2; "
        "after an error of the disk `dmesg` says why"
    )
    assert conflict.commands[1] == f"mount -o remount,rw {disk}"
    for command in conflict.commands:
        subprocess.run(["sh", "-c", command], check=True)
    assert found(role) == []
    assert fstab.read_text().splitlines()[1] == f"none {disk} tmpfs size=64k,rw,noexec 0 0"


def test_a_read_only_mount_of_a_disk_that_others_write_to_is_named(disk, wanted):
    place = disk / "place"
    place.mkdir()
    subprocess.run(["mount", "--bind", place, place], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
    roles = [
        {"role": "base", "files": [wanted.file(disk / "g")]},
        {"role": "time", "files": [wanted.file(place / "f")]},
    ]
    [conflict] = found(*roles)
    assert (conflict.role, conflict.commands) == ("time", (f"mount -o remount,bind,rw {place}",))
    subprocess.run(["sh", "-c", conflict.commands[0]], check=True)
    assert found(*roles) == []


def test_what_a_roles_own_code_makes_counts_when_it_runs(disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    role = {"role": "pytorch", "trees": [{"path": f"{disk}/pytorch"}]}
    assert found(role) == []
    assert [conflict.name for conflict in found({**role, "opaque": {"digest": "d"}})] == [str(disk)]


def test_packages_are_asked_about_where_there_is_little_room(disk, monkeypatch):
    asked = []
    needs = [disk_space.SpaceNeed(f"{disk}/archives", 1 << 20, 1)]
    monkeypatch.setattr(disk_space, "package_needs", lambda names: asked.append(names) or needs)
    [conflict] = found({"role": "munge", "packages": ["munge"]})
    assert (conflict.role, asked) == ("munge", [["munge"]])
    assert "is full: 1.0 MiB needed, 64 KiB free" in conflict.why


@pytest.mark.parametrize(("options", "state"), [("size=64k", "is full"), ("size=8m,nr_inodes=8", "has too few inodes")])
def test_where_a_daemon_writes_there_is_room_also_where_nothing_is_to_change(disk, monkeypatch, options, state):
    subprocess.run(["umount", disk], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)
    monkeypatch.setattr(space, "_DAEMONS", (str(disk),))
    slurm = {"role": "slurm_compute", "leaves": [{"path": f"{disk}/slurmd", "why": "jobs"}]}

    def daemons(*configured):
        has = receipt.EMPTY._replace(roles={role: {} for role in configured})
        return list(space.search(obstacles.Inspection((), {}, has, [slurm])))

    assert daemons() == []  # its first apply makes the folder
    [conflict] = daemons("slurm_compute")
    assert conflict[:3] == ("slurm_compute", "disk", str(disk))
    assert conflict.why.startswith(f"the file system of {disk}, where a daemon writes, {state}: ")
    (disk / "slurmd").mkdir()
    assert [conflict.name for conflict in daemons()] == [f"{disk}/slurmd"]
    subprocess.run(["mount", "-o", "remount,size=8m,nr_inodes=64", disk], check=True)
    assert daemons("slurm_compute") == []
