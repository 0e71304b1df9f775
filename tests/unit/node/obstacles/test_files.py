"""Files and folders with a flag of chattr, or on a mount point, are named before a role writes there.

The flags and a bind mount are set on a file system of the test's own; tmpfs has no flags on older kernels, ext4 has.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcforge.node import obstacles, receipt
from hpcforge.node.kinds import mounts
from hpcforge.node.obstacles import files

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="sets flags and mounts")


def run(*argv):
    return subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def folder(tmp_path):
    """A folder on a file system that has chattr's flags."""
    image, path = tmp_path / "image", tmp_path / "folder"
    path.mkdir()
    run("truncate", "-s", "8M", image)
    run("mkfs.ext4", "-q", image)
    run("mount", "-o", "loop", image, path)
    try:
        yield path
    finally:
        run("chattr", "-R", "-ia", path)
        run("umount", "-R", path)


def found(*roles):
    inspection = obstacles.Inspection(roles, {role["role"]: role for role in roles}, receipt.EMPTY)
    return list(files.search(inspection))


def of_file(wanted, path):
    return {"role": "names", "files": [wanted.file(path, "new\n")]}


def resolve(conflicts):
    for conflict in conflicts:
        for command in conflict.commands:
            subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.parametrize(
    ("flag", "target", "why"),
    [
        ("i", "resolv.conf", "it is immutable (lsattr -d shows i)"),
        ("a", "resolv.conf", "it is append-only (lsattr -d shows a)"),
        ("ia", "resolv.conf", "it is immutable and append-only (lsattr -d shows ia)"),
        ("i", ".", "it is immutable (lsattr -d shows i)"),
        ("a", ".", "it is append-only (lsattr -d shows a)"),
    ],
)
def test_a_flag_on_a_file_or_its_folder_is_named_and_the_command_takes_it_off(folder, wanted, flag, target, why):
    path = folder / "resolv.conf"
    path.write_text("old\n")
    place = (folder / target).resolve()
    assert found(of_file(wanted, path)) == []
    run("chattr", f"+{flag}", place)
    [conflict] = found(of_file(wanted, path))
    kind = "directory" if place == folder else "file"
    assert conflict == ("names", kind, str(place), why, (f"chattr -{flag} {place}",))
    resolve([conflict])
    assert found(of_file(wanted, path)) == []


def test_the_folder_that_is_there_counts_for_what_is_yet_to_be_made(folder, wanted):
    run("chattr", "+i", folder)
    [conflict] = found(of_file(wanted, folder / "a" / "b" / "c.conf"))
    assert conflict.name == str(folder)


def test_one_that_several_roles_write_is_named_once(folder, wanted):
    run("chattr", "+i", folder)
    roles = [{"role": name, "files": [wanted.file(folder / name, "x")]} for name in ("base", "time")]
    assert [(conflict.role, conflict.name) for conflict in found(*roles)] == [("base", str(folder))]


def test_what_is_as_wanted_is_no_obstacle(folder, wanted):
    (folder / "f").write_text("x")
    run("chattr", "+i", folder / "f")
    role = of_file(wanted, folder / "f")
    inspection = obstacles.Inspection([role], {"names": {"role": "names", "files": []}}, receipt.EMPTY)
    assert list(files.search(inspection)) == []


@pytest.mark.parametrize("work", [{"packages": ["munge"]}, {"groups": [{"name": "hpc", "gid": 3000}]}])
def test_the_files_of_accounts_are_written_for_accounts_and_packages(folder, monkeypatch, work):
    path = folder / "passwd"
    path.write_text("root:x:0:0::/root:/bin/sh\n")
    monkeypatch.setattr(files, "_ACCOUNTS", (str(path),))
    run("chattr", "+a", path)
    [conflict] = found({"role": "users", **work})
    assert (conflict.kind, conflict.name, conflict.commands) == ("file", str(path), (f"chattr -a {path}",))


def test_a_file_that_is_a_mount_point_is_named_with_each_mount(folder, wanted):
    path, other = folder / "hosts", folder / "other"
    path.write_text("old\n")
    other.write_text("other\n")
    run("mount", "--bind", other, path)
    run("mount", "--bind", other, path)
    [conflict] = found(of_file(wanted, path))
    assert conflict.why == "it is a mount point (of /other), and cannot be replaced"
    assert conflict.commands == (f"umount {path}",) * 2
    resolve([conflict])
    assert found(of_file(wanted, path)) == []


def test_its_line_in_fstab_is_commented_out(folder, wanted, monkeypatch):
    path, fstab = folder / "my hosts", folder / "fstab"
    path.write_text("old\n")
    fstab.write_text(f"# comment\n/x {str(path).replace(' ', chr(92) + '040')} none bind,ro 0 0\n")
    monkeypatch.setattr(mounts, "FSTAB", str(fstab))
    run("mount", "--bind", path, path)
    [conflict] = found(of_file(wanted, path))
    assert conflict.why == f"it is a mount point by {fstab}:2 (of /my hosts), and cannot be replaced"
    resolve([conflict])
    assert fstab.read_text().splitlines()[1].startswith("# /x ")
    assert found(of_file(wanted, path)) == []


def test_a_folder_on_a_file_system_of_its_own_is_no_obstacle(folder, wanted):
    assert found({"role": "depot", "directories": [wanted.directory(folder)]}, of_file(wanted, folder / "f")) == []


def test_a_device_and_a_link_have_no_flags(tmp_path):
    (tmp_path / "link").symlink_to("/dev/null")
    assert [files._flags(str(path)) for path in (Path("/dev/null"), tmp_path / "link", tmp_path / "none")] == [0, 0, 0]


def test_chattr_is_what_the_commands_need():
    assert shutil.which("chattr")
