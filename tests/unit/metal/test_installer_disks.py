"""The partitions that debian-installer proposes, and on which disks."""

from __future__ import annotations

import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from hpcforge.cluster.model import SystemDisk
from hpcforge.metal.installer_disks import disk_lines

# The forms are those of the README of partman-auto-raid (LEVEL DEVICES SPARES FILE-SYSTEM MOUNT raidid=ID .), of the
# appendix on preseeding of Debian's installation guide, and of recipes/30atomic and recipes-amd64-efi/30atomic of
# partman-auto 162; ten preseed files in public repositories, with and without LVM, BIOS and EFI, have them too.
DISKS = [
    SystemDisk(1, {"/var": 40}),
    SystemDisk(2, {}),
    SystemDisk(2, {"/home": 1, "/var": 100, "/var/log": 7}),
]
PARTITION = re.compile(r"(\d+) (\d+) (-1|\d+) (\w+) (.*)")
ARRAY = re.compile(r"1 (\d) 0 ext4 (/\S*) raidid=(\d+)")


def answers(disk: SystemDisk) -> dict[str, str]:
    """Answers by question, as debconf reads them: a backslash at the end of a line continues it."""
    text = "\n".join(disk_lines(disk)).replace("\\\n", " ")
    found = [line.split(None, 3) for line in text.splitlines()]
    assert all(words[0] == "d-i" for words in found)
    return {words[1]: words[3] for words in found}


def partitions(disk: SystemDisk) -> list[tuple[int, int, str, str]]:
    """Least and largest size in MB, kind and options of each partition of the recipe."""
    name, colons, rest = answers(disk)["partman-auto/expert_recipe"].split(None, 2)
    assert (name, colons) == ("hpcforge", "::")
    stanzas = [" ".join(stanza.split()) for stanza in re.split(r"\s\.(?:\s|$)", rest) if stanza.strip()]
    found = []
    for stanza in stanzas:
        match = PARTITION.fullmatch(stanza)
        assert match, stanza
        assert int(match[1]) <= int(match[2])
        assert match[3] == "-1" or int(match[2]) <= int(match[3])
        assert re.fullmatch(r"(\$?[\w]+\{ ([\w/]+ )?\} ?)+", match[5]), match[5]
        found.append((int(match[1]), int(match[3]), match[4], match[5]))
    return found


def test_one_disk_without_partitions_is_left_to_the_installer() -> None:
    assert disk_lines(SystemDisk()) == []


@pytest.mark.parametrize("disk", DISKS)
def test_the_recipe_has_the_declared_partitions_and_root_with_the_rest(disk: SystemDisk) -> None:
    bios, efi, *own = partitions(disk)
    assert (bios[0], efi[0]) == (1, 538)
    assert ("biosgrub" in bios[3], "efi" in efi[3]) == (True, True)
    sizes = [gib * 2**30 / 10**6 for gib in disk.partitions_gib.values()]
    assert all(0 <= entry[0] - size < 1 and entry[1] == entry[0] for entry, size in zip(own, sizes, strict=False))
    assert [entry[1] for entry in own].index(-1) == len(own) - 1 == len(sizes)
    assert {kind for _, _, kind, _ in own} == {"raid" if disk.drives > 1 else "ext4"}


@pytest.mark.parametrize("disk", DISKS)
def test_each_partition_is_mounted_once_by_itself_or_as_an_array_of_all_disks(disk: SystemDisk) -> None:
    own, mounts = partitions(disk)[2:], [*disk.partitions_gib, "/"]
    recipe = answers(disk).get("partman-auto-raid/recipe", "")
    assert answers(disk)["partman-auto/method"] == ("raid" if disk.drives > 1 else "regular")
    if disk.drives == 1:
        assert recipe == ""
        assert re.findall(r"mountpoint\{ (\S+) \}", " ".join(entry[3] for entry in own)) == mounts
        return
    arrays = [ARRAY.fullmatch(" ".join(entry.split())) for entry in re.split(r" \.(?:\s|$)", recipe) if entry.strip()]
    assert [array and (array[1], array[2]) for array in arrays] == [(str(disk.drives), mount) for mount in mounts]
    identities = [array[3] for array in arrays if array]
    assert [re.findall(r"raidid\{ (\d+) \}", entry[3]) for entry in own] == [[number] for number in identities]
    assert all(before != after for before, after in pairwise(identities))


def test_no_write_is_confirmed_and_no_disk_named(tmp_path: Path) -> None:
    for disk in DISKS:
        assert not [question for question in answers(disk) if "confirm" in question or question.endswith("auto/disk")]


@pytest.fixture
def installer(tmp_path: Path) -> Path:
    """The programs of debian-installer that the command needs beside busybox's: a folder for PATH."""
    for name, script in {
        "list-devices": f"ls -d {tmp_path}/dev/*",
        "debconf-set": f'echo "$@" >>{tmp_path}/answers',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dev").mkdir()
    return tmp_path


def disk_file(folder: Path, name: str, content: bytes = b"", at: int = 0, sectors: int = 8192) -> None:
    with (folder / "dev" / name).open("wb") as file:
        file.truncate(sectors * 512)
        file.seek(at)
        file.write(content)
    (folder / "sys" / name).mkdir(parents=True)
    (folder / "sys" / name / "size").write_text(f"{sectors}\n")


@pytest.mark.parametrize(
    ("contents", "drives", "named"),
    [
        ({"sda": None, "sdb": None}, 2, "sda sdb"),
        ({"sda": None, "sdb": None, "sdc": (b"data", 600)}, 2, "sda sdb"),
        ({"sda": None, "sdb": (b"\x01", 8192 * 512 - 1)}, 2, None),  # the end of a RAID member, or of a second table
        ({"sda": None, "sdb": (b"EFI PART", 512)}, 2, None),
        ({"sda": None, "sdb": None, "sdc": None}, 2, None),  # which two is the operator's choice
        ({"sda": None}, 2, None),
        ({"nvme0n1": None, "sda": (b"x", 0)}, 1, "nvme0n1"),
        ({"sda": (b"x", 0)}, 1, None),
    ],
)
def test_as_many_blank_disks_as_the_system_takes_are_proposed(
    installer: Path, contents: dict[str, tuple[bytes, int] | None], drives: int, named: str | None
) -> None:
    for name, written in contents.items():
        disk_file(installer, name, *(written or (b"", 0)))
    command = answers(SystemDisk(drives, {"/var": 1}))["partman/early_command"].replace(
        "/sys/block", f"{installer}/sys"
    )
    environment = {"PATH": f"{installer}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", command], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = installer / "answers"
    settings = path.read_text().replace(f"{installer}/dev/", "").splitlines() if path.exists() else []
    questions = ("partman-auto/disk", "grub-installer/bootdev")
    assert settings == ([f"{question} {named}" for question in questions] if named else [])
