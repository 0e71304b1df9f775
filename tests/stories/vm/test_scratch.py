"""A node's own drives as one file system, on one virtual machine, with somebody else's beside: `make test-vm`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.vm_rehearsal import Rehearsal, blueprint, with_image

pytestmark = pytest.mark.vm

NAME = f"test-vm-drives-{os.getpid()}"
BLUEPRINT = blueprint(
    "drives",
    """\
nodes:
  head: {functions: [head, worker], hardware: seven-drives, addresses: 10.77.0.10}
hardware:
  seven-drives: {like: rehearsal-node, nvme: 7 x 4.3GB}
slurm:
  private_tmp: /scratch/jobs
  partitions:
    main: {nodes: head, default: true}
storage:
  scratch: {kind: xfs, drives: 2 x 4.3GB, mount: /scratch, quota_gib: 1}
users:
  ada: {uid: 2001}
rollout: {confirm_wait: 5min}
""",
)
SAFE = ("nvme3n1", "nvme4n1", "nvme5n1", "nvme6n1")
WITH_SAFE = BLUEPRINT.replace("quota_gib: 1", "quota_gib: 2").replace(
    "users:\n", "  safe: {kind: xfs, drives: 4 x 4.3GB, raid: 6, mount: /safe, keep: true}\nusers:\n"
)
# Nearly a GiB without writing it, which takes an emulated machine minutes, and what is written goes over it.
_WRITES = "fallocate -l 1020M big && dd if=/dev/zero of=much bs=1M count=20 status=none; rm -f big much"
FILL = f"cd /scratch && sudo -u ada sh -c '{_WRITES}' 2>&1"
HEAD = "sudo head -c 16M /dev/{} | sha256sum"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A machine that has seven drives, and somebody else's swap space on six of them."""
    with with_image(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT) as rehearsal:
        rehearsal.run("rehearse", "up", rehearsal.blueprint)
        for drive in ("nvme1n1", "nvme2n1", *SAFE):
            rehearsal.on("head", f"sudo /sbin/mkswap -q -L theirs /dev/{drive}")
        yield rehearsal


def test_drives_with_somebody_s_data_are_named_and_left_alone(up: Rehearsal) -> None:
    before = up.on("head", HEAD.format("nvme1n1"))
    said = up.run("apply", up.blueprint, "--yes", expect=5)
    assert "2 NVMe drives on which nothing is found are to be taken, and there are 1: nvme1n1 has swap theirs " in said
    assert "(to give up all that is on it: wipefs --all /dev/nvme1n1); nvme2n1 has swap theirs" in said
    assert up.on("head", HEAD.format("nvme1n1")) == before
    assert up.on("head", "sudo wipefs --no-act /dev/nvme0n1") == ""


def test_the_plan_names_the_drives_that_are_formatted(up: Rehearsal) -> None:
    up.on("head", "sudo wipefs --quiet --all /dev/nvme1n1")  # as it says
    said = up.run("plan", up.blueprint, expect=2)
    assert "+ volume scratch  FORMATS nvme0n1, nvme1n1, where nothing was found: XFS on RAID 0" in said


def test_blank_drives_become_one_file_system(up: Rehearsal) -> None:
    theirs = up.on("head", HEAD.format("nvme2n1"))
    up.run("apply", up.blueprint, "--yes")
    assert up.on("head", "findmnt -no FSTYPE,TARGET /scratch").split() == ["xfs", "/scratch"]
    assert "raid0" in up.on("head", "grep ^md /proc/mdstat")
    assert int(up.on("head", "df --output=size /scratch | tail -n 1")) > 7 << 20  # KiB: of both
    assert up.on("head", HEAD.format("nvme2n1")) == theirs
    assert "After=scratch.mount" in up.on("head", "systemctl cat slurmd.service")


def test_a_second_plan_has_nothing_to_do(up: Rehearsal) -> None:
    up.run("plan", up.blueprint)


def test_a_user_over_her_quota_cannot_write(up: Rehearsal) -> None:
    assert up.on("head", "sudo -u ada sh -c 'echo hers >/scratch/kept; stat -c %U /scratch/kept'") == "ada\n"
    assert "Disk quota exceeded" in up.on("head", FILL)
    up.on("head", "sudo fallocate -l 1200M /scratch/roots; sudo rm /scratch/roots")


def test_another_quota_holds_for_who_has_files_already(up: Rehearsal) -> None:
    up.blueprint.write_text(BLUEPRINT.replace("quota_gib: 1", "quota_gib: 2"))
    assert "~ volume scratch  quota of a user 1 GiB -> 2 GiB" in up.run("plan", up.blueprint, expect=2)
    up.run("apply", up.blueprint, "--yes")
    assert up.on("head", FILL) == ""


def test_a_job_s_tmp_is_there_and_goes_with_it(up: Rehearsal) -> None:
    shows = "echo mine >/tmp/of_job; stat -f -c %T /tmp"
    assert up.user("ada", "srun", "sh", "-c", shows).split()[-1] == "xfs"
    up.becomes("head", "sudo find /scratch/jobs -name of_job", "")


def test_raid_6_is_made_of_four_others(up: Rehearsal) -> None:
    up.on("head", f"for drive in {' '.join(SAFE)}; do sudo wipefs --quiet --all /dev/$drive; done")
    up.blueprint.write_text(WITH_SAFE)
    line = f"+ volume safe  FORMATS {', '.join(SAFE)}, where nothing was found: XFS on RAID 6"
    assert line in up.run("plan", up.blueprint, expect=2)
    up.run("apply", up.blueprint, "--yes")
    assert "raid6" in up.on("head", "grep ^md /proc/mdstat")
    size = int(up.on("head", "df --output=size /safe | tail -n 1"))  # KiB: of two
    assert 7 << 20 < size < 9 << 20
    up.on("head", "sudo -u ada sh -c 'echo safe >/safe/kept'")
    up.run("plan", up.blueprint)  # while the array is still written for the first time


def test_it_is_there_again_after_a_power_cut(up: Rehearsal) -> None:
    up.on("head", "sync")
    up.cut_power("head")
    up.run("rehearse", "up", up.blueprint)
    up.becomes("head", "cat /scratch/kept /safe/kept", "hers\nsafe")
    up.run("plan", up.blueprint)


def test_a_lost_drive_is_named(up: Rehearsal) -> None:
    up.on("head", "echo 1 | sudo tee /sys/block/nvme1n1/device/device/remove")
    said = up.run("plan", up.blueprint, expect=5)
    assert "nvme1n1 (serial drive1) is lost, and all files with it" in said
    assert "wipefs --all /dev/nvme0n1" in said


def test_raid_6_without_two_drives_has_its_files(up: Rehearsal) -> None:
    for drive in SAFE[:2]:
        up.on("head", f"echo 1 | sudo tee /sys/block/{drive}/device/device/remove")
    said = up.run("plan", up.blueprint, expect=5)
    assert "nvme3n1 (serial drive3), nvme4n1 (serial drive4) is lost; the files are there still: put in another" in said
    assert up.on("head", "cat /safe/kept; sudo -u ada sh -c 'echo more >/safe/more'; cat /safe/more") == "safe\nmore\n"
