"""Virtual machines, from the image to a job of Slurm's on them, and nothing left: `make test-vm`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab import processes
from hpcforge.lab.vm import qemu

pytestmark = pytest.mark.vm

REPOSITORY = Path(__file__).parents[2]
NAME = f"test-vm-{os.getpid()}"
BLUEPRINT = """\
schema: 1
name: machines
domain: machines.example.org
inventory: {lab: vm}
access: {user: ops, become: sudo}
nodes:
  head:     {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "10.77.0.[11-12]"}
networks:
  cluster: {cidr: 10.77.0.0/24}
services:
  dns:  {on: head}
  time: {on: head}
software:
  os: {name: debian, release: "12"}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions:
    main: {nodes: "w[01-02]", default: true}
users:
  ada: {uid: 2001}
"""


@dataclass(frozen=True)
class Rehearsal:
    """A blueprint of three machines."""

    blueprint: Path

    def run(self, *words: object, expect: int = 0) -> str:
        """Standard output of an hpcforge that ends as expected; how long it took is told."""
        began = time.monotonic()
        env = {name: value for name, value in os.environ.items() if name != "HPCFORGE_NO_IMAGE"}
        done = subprocess.run(
            [sys.executable, "-m", "hpcforge", *map(str, words)],
            cwd=REPOSITORY,
            env={**env, "HPCFORGE_LAB": NAME},
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{' '.join(map(str, words[:2])):<20} {time.monotonic() - began:6.0f} s", flush=True)
        for line in done.stderr.splitlines():
            if line.startswith("time: ") or ": started at" in line:
                print(f"    {line}", flush=True)
        assert done.returncode == expect, done.stderr + done.stdout
        return done.stdout

    def on(self, node: str, command: str) -> str:
        return self.run("rehearse", "ssh", self.blueprint, node, "--", command)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Three machines, configured."""
    blueprint = tmp_path_factory.mktemp("site") / "machines.yaml"
    blueprint.write_text(BLUEPRINT)
    rehearsal = Rehearsal(blueprint)
    print()
    try:
        rehearsal.run("image", "build", "--disk", blueprint)
        rehearsal.run("rehearse", "up", blueprint)
        rehearsal.run("apply", blueprint, "--yes")
        yield rehearsal
    finally:
        labs.down(NAME, None, print)


def test_a_job_runs_on_both_workers(up: Rehearsal) -> None:
    assert sorted(up.on("head", "sudo -iu ada srun -N2 hostname").split()) == ["w01", "w02"]
    # What containers share with their host, and machines have for themselves.
    assert up.on("w01", "systemd-detect-virt").strip() in ("qemu", "kvm")
    assert "cgroup2" in up.on("w01", "findmnt --noheadings --output FSTYPE /sys/fs/cgroup")
    ids = {up.on(node, "cat /etc/machine-id /proc/sys/kernel/random/boot_id") for node in ("w01", "w02")}
    assert len({word for text in ids for word in text.split()}) == 4


def test_the_root_file_system_has_grown_to_its_disk(up: Rehearsal) -> None:
    size_kib = int(up.on("w01", "df --output=size / | tail -n 1"))
    assert size_kib > 18 << 20


def test_nothing_is_left_to_change(up: Rehearsal) -> None:
    assert up.run("plan", up.blueprint) != ""


def test_a_machine_that_lost_its_power_is_the_same_machine_again(up: Rehearsal) -> None:
    lab = labs.load(NAME)
    assert lab is not None
    up.on("w02", "echo kept | sudo tee /root/kept > /dev/null; sync")
    before = up.on("w02", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub")
    (pid,) = processes.find(lambda argv: qemu.name_in(argv) == lab.machine("w02"))
    os.kill(pid, signal.SIGKILL)
    assert processes.wait_until(lambda: not labs.runs(lab, "w02"), timeout_s=60)
    assert "w02   10.77" in up.run("rehearse", "up", up.blueprint)
    assert up.on("w02", "sudo cat /root/kept").strip() == "kept"
    assert up.on("w02", "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub") == before


def test_nothing_is_left_behind(up: Rehearsal) -> None:
    lab = labs.load(NAME)
    assert lab is not None
    up.run("rehearse", "down", up.blueprint)
    assert processes.find(lambda argv: qemu.name_in(argv).startswith(f"{lab.tag}-")) == []
    assert [path.name for path in Path("/sys/class/net").iterdir() if lab.tag in path.name] == []
    assert [path for path in Path("/run/hpcforge").iterdir() if lab.tag in path.name] == []
    assert not lab.directory.exists()
