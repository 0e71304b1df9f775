"""A virtual machine of Debian 13: its image, one apply, a job that its kernel holds to what it has. `make test-vm`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.vm_rehearsal import Rehearsal, blueprint, configured, interfaces, machines, sockets

pytestmark = pytest.mark.vm

NAME = f"test-vm-13-{os.getpid()}"
BLUEPRINT = blueprint(
    "thirteen",
    """\
nodes:
  head: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.77.0.10}
software: {os: {name: debian, release: "13"}}
slurm:
  private_tmp: /var/spool/jobs
  partitions:
    main: {nodes: head, default: true}
users:
  ada: {uid: 2001}
rollout: {confirm_wait: 5min}
""",
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """One machine, configured."""
    with configured(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT, {}) as rehearsal:
        yield rehearsal


def test_it_runs_a_kernel_of_its_own_release(up: Rehearsal) -> None:
    assert up.on("head", "systemd-detect-virt").strip() in ("qemu", "kvm")
    assert up.on("head", ". /etc/os-release; echo $VERSION_ID") == "13\n"
    assert "+deb13-cloud-amd64" in up.on("head", "uname -r")
    assert "cgroup2" in up.on("head", "findmnt --noheadings --output FSTYPE /sys/fs/cgroup")
    assert int(up.on("head", "df --output=size / | tail -n 1")) > 18 << 20  # KiB: grown to its disk


def test_nothing_is_left_to_change(up: Rehearsal) -> None:
    up.run("plan", up.blueprint)


def test_a_job_is_its_user_s_and_has_its_cores_and_no_other(up: Rehearsal) -> None:
    every = "id -un; taskset -pc 0-1 $$ >/dev/null; nproc"  # asks for more than it has
    assert int(up.on("head", "nproc")) > 1
    assert up.user("ada", "srun", "-n1", "-c1", "--mem=100M", "sh", "-c", every).splitlines()[-2:] == ["ada", "1"]


def test_a_job_over_its_memory_is_killed(up: Rehearsal) -> None:
    limited = ("srun", "-J", "over", "--mem=100M", "python3", "-c")
    assert up.user("ada", *limited, "bytearray(20 << 20); print('fits')").endswith("fits\n")
    assert "oom" in up.user("ada", *limited, "x = bytearray(400 << 20)").lower()
    state = "scontrol -o show job | grep JobName=over | tail -n 1 | grep -o JobState=[A-Z_]*"
    up.becomes("head", state, "JobState=OUT_OF_MEMORY")
    assert "Memory cgroup out of memory" in up.on("head", "sudo dmesg")


def test_a_job_s_tmp_goes_with_it(up: Rehearsal) -> None:
    said = up.user("ada", "srun", "--mem=100M", "sh", "-c", "touch /tmp/of_job; ls /tmp; stat -c %U /tmp")
    assert said.split()[-2:] == ["of_job", "ada"]
    assert up.on("head", "ls /tmp/of_job 2>/dev/null || :") == ""
    up.becomes("head", "sudo find /var/spool/jobs -name of_job", "")


def test_after_a_power_cut_it_works_and_nothing_is_left_to_change(up: Rehearsal) -> None:
    up.on("head", "sync")
    up.cut_power("head")
    up.run("rehearse", "up", up.blueprint)
    up.becomes("head", "sinfo -h -o %T", "idle")
    up.run("plan", up.blueprint)


def test_no_part_of_it_is_left_behind(up: Rehearsal) -> None:
    lab = up.lab
    up.run("rehearse", "down", up.blueprint)
    assert (machines(lab), interfaces(lab), sockets(lab)) == ([], [], [])
    assert not lab.directory.exists()
