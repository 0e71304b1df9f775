"""Which drives are taken, and why others are not: files stand for drives, and libblkid looks at what is in them.

What becomes of the drives that are taken only a machine shows: tests/stories/vm/test_scratch.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.blueprint.sections.storage import FileSystemSection
from hpcforge.kinds import ARRAYS, spare
from hpcforge.kinds.volumes import Volume
from hpcforge.node.kinds import volumes

WANTED = Volume("scratch", "4a7ad7c7-8732-5d3c-8393-7a858d570d86", "/scratch", drives=2, drive_mb=100, quota_gib=5)
SIZE = 195_313 * 512


@dataclass(frozen=True)
class Machine:
    """Its drives: what the kernel says of them, and what is on them."""

    root: Path

    def drive(self, name: str, size: int = SIZE) -> Path:
        """One more, with nothing on it."""
        sysfs, file = self.root / "sys" / name, self.root / "dev" / name
        (sysfs / "device").mkdir(parents=True)
        (sysfs / "holders").mkdir()
        (sysfs / "size").write_text(f"{size // 512}\n")
        (sysfs / "device" / "serial").write_text(f"S-{name}   \n")
        with file.open("wb") as opened:
            opened.truncate(size)
        return file

    def partition(self, drive: str, name: str) -> None:
        """The kernel knows one on a drive."""
        (self.root / "sys" / drive / name).mkdir()
        (self.root / "sys" / drive / name / "partition").write_text("1\n")

    def array(self, *drives: str, state: str = "clean", degraded: str = "") -> None:
        """An array of drives has the file system."""
        slaves, md = self.root / "sys" / "md127" / "slaves", self.root / "sys" / "md127" / "md"
        slaves.mkdir(parents=True)
        md.mkdir()
        (md / "array_state").write_text(f"{state}\n")
        (md / "degraded").write_text(f"{degraded}\n")
        for drive in drives:
            (slaves / drive).mkdir()
            (self.root / "sys" / drive / "holders" / "md127").mkdir()
        (self.root / "dev" / "md127").touch()
        link = self.root / "dev" / "disk" / "by-uuid" / WANTED.uuid
        link.parent.mkdir(parents=True)
        link.symlink_to("../../md127")

    def made_of(self, *drives: str) -> None:
        """It is remembered of which it was made."""
        said = [{"name": drive, "serial": f"S-{drive}", "size": SIZE} for drive in drives]
        (self.root / "records" / "scratch").write_text(json.dumps(said))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("sys", "dev", "records"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(volumes, "SYSTEM", tmp_path / "sys")
    monkeypatch.setattr(volumes, "DEVICES", tmp_path / "dev")
    monkeypatch.setattr(volumes, "RECORDS", tmp_path / "records")
    return Machine(tmp_path)


def swap(drive: Path, label: str) -> None:
    subprocess.run(["/sbin/mkswap", "-q", "-L", label, drive], check=True)


def partitioned(drive: Path) -> None:
    """With one partition in a table as of DOS."""
    with drive.open("r+b") as file:
        file.seek(446)
        file.write(struct.pack("<B3xB3xII", 0, 0x83, 2048, 100_000))
        file.seek(510)
        file.write(b"\x55\xaa")


def obstacle(wanted: Volume = WANTED) -> str:
    return volumes.obstacle(wanted, None) or ""


def test_drives_on_which_nothing_is_found_are_told_before(machine: Machine) -> None:
    machine.drive("nvme1n1")
    machine.drive("nvme0n1")
    (machine.root / "sys" / "nvme0c0n1").mkdir()  # a path to a drive, and none itself
    (machine.root / "sys" / "sda").mkdir()
    found = volumes.compare(WANTED)
    assert found == {"name": "scratch", "exists": False, "drives": ["nvme0n1", "nvme1n1"], "quota_gib": None}
    assert obstacle() == ""
    line = "+ volume scratch  FORMATS nvme0n1, nvme1n1, where nothing was found: XFS on RAID 0"
    assert WANTED.line(found) == line
    assert obstacle(dataclasses.replace(WANTED, drives=1)).endswith(
        "but more are blank: nvme0n1, nvme1n1; hpcforge cannot choose"
    )


def test_what_somebody_has_on_a_drive_is_named_with_the_way_to_give_it_up(machine: Machine) -> None:
    drives = [machine.drive(f"nvme{number}n1") for number in range(3)]
    swap(drives[0], "theirs")
    partitioned(drives[1])
    machine.partition("nvme1n1", "nvme1n1p1")
    before = [hashlib.sha256(drive.read_bytes()).digest() for drive in drives]
    said = obstacle()
    dev = machine.root / "dev"
    assert said.startswith("the volume needs 2 blank NVMe drives, and the node has 1: nvme0n1 has swap")
    assert "swap theirs " in said and f"(to destroy all its data: wipefs --all {dev}/nvme0n1)" in said
    assert "nvme1n1 has dos, partition nvme1n1p1" in said
    assert f"wipefs --all {dev}/nvme1n1p1 {dev}/nvme1n1)" in said
    with pytest.raises(volumes.NodeError, match="the node has 1: nvme0n1 has swap"):
        volumes.put(WANTED)
    assert [hashlib.sha256(drive.read_bytes()).digest() for drive in drives] == before


def test_drives_of_another_size_and_partitions_without_a_name_are_not_taken(machine: Machine) -> None:
    machine.drive("nvme0n1", size=48_000_000)
    machine.drive("nvme1n1", size=101_900_000)  # sizes are nearly what they are called
    machine.drive("nvme2n1")
    machine.partition("nvme2n1", "nvme2n1p1")
    said = obstacle()
    assert "the node has 1: nvme0n1 has 0.0 GB, and not 0.1; nvme2n1 has partition nvme2n1p1 (to" in said


def test_a_drive_that_cannot_be_looked_at_is_not_taken(machine: Machine) -> None:
    machine.drive("nvme0n1")
    machine.drive("nvme1n1").unlink()  # as in a container, which sees what its host has
    assert "the node has 1: nvme1n1 cannot be read: `wipefs " in obstacle()


def test_one_that_is_there_is_left_as_it_is(machine: Machine) -> None:
    for number in range(3):
        swap(machine.drive(f"nvme{number}n1"), "x")
    machine.array("nvme0n1", "nvme2n1")
    machine.made_of("nvme0n1", "nvme2n1")
    assert volumes.compare(WANTED) is None
    assert volumes.put(WANTED) is None


@pytest.mark.parametrize(
    ("raid", "state", "degraded", "why"),
    [
        (
            0,
            "broken",
            "",
            "with all files; to build a new volume .*: umount /scratch; mdadm --stop /dev/md127; wipefs --all ",
        ),
        (1, "clean", "1", "files are safe: insert .*mdadm --manage /dev/md127 --add /dev/DRIVE"),
        (1, "broken", "", "with all files"),
    ],
)
def test_a_lost_drive_is_named(machine: Machine, raid: int, state: str, degraded: str, why: str) -> None:
    machine.drive("nvme0n1")
    machine.array("nvme0n1", state=state, degraded=degraded)
    machine.made_of("nvme0n1", "nvme1n1")
    wanted = dataclasses.replace(WANTED, raid=raid)
    assert volumes.compare(wanted) is not None
    said = obstacle(wanted)
    assert said.startswith("nvme1n1 (serial S-nvme1n1) is lost")
    assert re.search(why, said)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (3, "nvme3n1 (serial S-nvme3n1) is lost; the files are safe: insert another drive"),
        (2, "nvme2n1 (serial S-nvme2n1), nvme3n1 (serial S-nvme3n1) is lost; the files are safe"),
        (1, "nvme3n1 (serial S-nvme3n1) is lost, with all files"),
    ],
)
def test_raid_6_lives_without_two_drives(machine: Machine, there: int, said: str) -> None:
    drives = [f"nvme{number}n1" for number in range(4)]
    for drive in drives[:there]:
        machine.drive(drive)
    machine.array(*drives[:there], degraded=f"{4 - there}")
    machine.made_of(*drives)
    assert said in obstacle(dataclasses.replace(WANTED, drives=4, raid=6))


def test_an_array_that_did_not_start_without_a_drive_is_told_how_to(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start the array is not active, and no file system is seen."""
    for number in range(3):
        machine.drive(f"nvme{number}n1")
        (machine.root / "sys" / f"nvme{number}n1" / "holders" / "md127").mkdir()
    machine.made_of(*(f"nvme{number}n1" for number in range(4)))
    monkeypatch.setattr(volumes, "_is_member", lambda drive, array: True)
    said = obstacle(dataclasses.replace(WANTED, drives=4, raid=6))
    assert "start the array without it (mdadm --run /dev/md127), insert another drive" in said
    assert "with all files; " in obstacle(dataclasses.replace(WANTED, drives=4, raid=0))


def test_an_array_that_was_finished_once_is_never_formatted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file system is not found: by damage, or because power was lost while it was made."""
    drives = [volumes.NvmeDrive(f"nvme{number}n1", f"S-{number}", SIZE) for number in range(2)]
    ran: list[list[str]] = []
    monkeypatch.setattr(volumes, "_members", lambda _: drives)
    monkeypatch.setattr(volumes, "_assembled", lambda *_: "md127")
    monkeypatch.setattr(volumes.commands, "succeed", lambda argv, _: ran.append(argv) or "")
    with pytest.raises(volumes.NodeError, match=r"without a file system: nothing was formatted .*wipefs --all"):
        volumes.put(WANTED)
    assert "mkfs.xfs" not in {argv[0] for argv in ran}

    (machine.root / "records" / "scratch.begun").write_text("[]")
    with pytest.raises(volumes.NodeError, match="/dev/md127 was formatted, and udev does not show"):
        volumes.put(WANTED)
    assert [argv[0] for argv in ran].count("mkfs.xfs") == 1


def test_names_that_are_none_are_refused(machine: Machine) -> None:
    machine.drive("nvme0n1")
    assert "letters, digits" in obstacle(dataclasses.replace(WANTED, name="../x"))
    levels = "levels are 0 of 2 drives or more, 1 of 2 drives or more, 6 of 4 drives or more"
    assert obstacle(dataclasses.replace(WANTED, raid=5)) == f"volume scratch: RAID 5 of 2 drives is not made; {levels}"
    assert "RAID 6 of 3 drives is not made" in obstacle(dataclasses.replace(WANTED, raid=6, drives=3))


def test_levels_are_those_of_the_blueprint() -> None:
    said = FileSystemSection.model_json_schema()["properties"]["raid"]["anyOf"][0]["enum"]
    assert said == list(ARRAYS)
    assert [spare(level, 12) for level in ARRAYS] == [0, 11, 2]
    assert spare(0, 1) == 0


def test_limits_are_read_as_xfs_quota_prints_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ("#0  0  0  5242880  00 [--------]", "#2001  1048576  0  1048576  00 [6 days]")
    said = "".join(f"{row}\n" for row in rows)
    monkeypatch.setattr(volumes.commands, "succeed", lambda *_: said)
    assert volumes._limits("/scratch") == {0: 5 << 20, 2001: 1 << 20}
    assert not volumes._right_limits(WANTED, volumes._limits("/scratch"))
    assert volumes._right_limits(WANTED, {0: 5 << 20, 2001: 0, 2002: 5 << 20})
