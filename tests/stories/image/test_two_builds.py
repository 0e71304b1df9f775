"""A small image, built twice from one lock: archives and disks are the same bit for bit, and hold nobody's secrets.

A container and a virtual machine are made from it: the part of `make test-vm` that CI has.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.host import processes
from hpcforge.lab import lab as labs
from hpcforge.lab.vm import qemu

REPOSITORY = Path(__file__).parents[3]
BLUEPRINT = """\
schema: 1
name: small
domain: small.example.org
inventory: {lab: nspawn}
access: {user: ops, become: sudo}
nodes:
  head: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.77.0.10}
networks:
  cluster: {cidr: 10.77.0.0/24}
services:
  dns: {on: head}
  time: {on: head}
software:
  os: {name: debian, release: "12"}
slurm:
  controller: head
  enforce: []
  partitions:
    main: {nodes: head, default: true}
"""


@dataclass(frozen=True)
class Images:
    """A folder of images of its own, and a blueprint."""

    home: Path
    blueprint: Path

    def begin(self, *words: object) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "hpcforge", *map(str, words)]
        env = {**os.environ, "HPCFORGE_CACHE_DIR": str(self.home), "HPCFORGE_LAB": f"test-image-{os.getpid()}"}
        del env["HPCFORGE_NO_IMAGE"]
        return subprocess.Popen(
            argv, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        with self.begin(*words) as process:
            out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def build(self, *words: object) -> tuple[dict, str]:
        done = self.run("image", "build", "--disk", self.blueprint, "--json", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    @property
    def listed(self) -> list[dict]:
        return json.loads(self.run("image", "list", "--json").stdout)["images"]


@pytest.fixture(scope="module")
def images() -> Iterator[Images]:
    """In a folder that the package proxy's own user gets to."""
    home = Path(tempfile.mkdtemp(prefix="hpcforge-test-image-", dir="/var/tmp"))
    home.chmod(0o755)
    (home / "small.yaml").write_text(BLUEPRINT)
    try:
        yield Images(home, home / "small.yaml")
    finally:
        labs.down(f"test-image-{os.getpid()}", None, print)
        shutil.rmtree(home)


@pytest.mark.lab
def test_two_builds_of_one_lock_are_the_same_bit_for_bit(images: Images, tmp_path: Path) -> None:
    with images.begin("image", "build", "--disk", images.blueprint) as cut_off:
        assert cut_off.stderr is not None
        heard = []
        for line in cut_off.stderr:
            heard.append(line)
            if "installing " in line:
                break
        assert "installing " in heard[-1], heard
        cut_off.kill()
    assert images.listed == []

    first, said = images.build()
    assert "of a run that was cut off" in said
    assert first["built"] is True
    one = first["image"]
    counted = [line for line in said.splitlines() if '"phase": "installing packages"' in line]
    assert {json.loads(line)["total"] for line in counted} == {one["packages"]}
    assert json.loads(counted[-1])["done"] == one["packages"]
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(Path(one["manifest"]).read_bytes())
    _look_through(Path(one["archive"]))
    assert images.listed == [one]
    assert sorted(path.name for path in Path(one["archive"]).parent.iterdir()) == ["disk", "manifest.json", "root.tar"]

    again, _ = images.build()
    assert again["built"] is False
    assert again["image"] == one

    done = images.run("image", "remove", one["name"])
    assert done.returncode == 0, done.stderr
    assert images.listed == []

    second, _ = images.build("--locked", manifest)
    assert second["built"] is True
    assert second["image"]["sha256"] == one["sha256"]
    assert second["image"]["name"] == one["name"]
    assert second["image"]["disk"] == one["disk"]

    _rehearse(images, one["name"])
    _boot(images)
    assert images.run("image", "remove", one["name"]).returncode == 0
    assert images.listed == []


def _rehearse(images: Images, name: str) -> None:
    """A node of this image is a machine of its own that lacks no package."""
    up = images.run("rehearse", "up", images.blueprint)
    assert up.returncode == 0, up.stderr
    assert f"new nodes use image {name}" in up.stderr
    assert "base system" not in up.stderr

    def on_node(command: str) -> str:
        return images.run("rehearse", "ssh", images.blueprint, "head", "--", command).stdout.strip()

    assert on_node("systemctl is-enabled munge slurmctld chrony ssh || true").split() == ["disabled"] * 3 + ["enabled"]
    assert on_node("sudo find /etc/munge -type f") == ""
    assert len(on_node("cat /etc/machine-id")) == 32
    assert on_node("systemctl is-active slurmctld dnsmasq chrony || true").split() == ["inactive"] * 3

    plan = images.run("plan", images.blueprint, "--json")
    assert plan.returncode == 2, plan.stderr
    changes = [change for step in json.loads(plan.stdout)["steps"] for change in step["changes"].values()]
    assert [change for change in changes if change["resources"]]
    assert [name for change in changes for name in change["packages"]] == []

    refused = images.run("image", "remove", name)
    assert refused.returncode == 1
    assert f"image {name} is used by test-image-{os.getpid()}" in refused.stderr
    assert images.run("rehearse", "down", images.blueprint).returncode == 0


def _boot(images: Images) -> None:
    """A machine of it has a kernel of its own, is who the blueprint says, and leaves nothing."""
    up = images.run("rehearse", "up", "--on", "vm", images.blueprint)
    assert up.returncode == 0, up.stderr
    lab = labs.load(f"test-image-{os.getpid()}")
    assert lab is not None

    def on_node(command: str) -> str:
        return images.run("rehearse", "ssh", images.blueprint, "head", "--", command).stdout.strip()

    assert on_node("systemd-detect-virt") in ("qemu", "kvm")
    assert on_node("findmnt --noheadings --output FSTYPE /sys/fs/cgroup") == "cgroup2"
    assert on_node("cat /proc/sys/kernel/random/boot_id") != Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert on_node("hostname; ip -br -4 address show scope global | wc -l").split() == ["head", "1"]
    assert on_node("sudo find /etc/munge -type f") == ""
    assert images.run("rehearse", "down", images.blueprint).returncode == 0
    assert processes.find(lambda argv: qemu.name_in(argv).startswith(f"{lab.tag}-")) == []
    assert not lab.directory.exists()


def _look_through(archive: Path) -> None:
    """With eyes of its own: what munge's, sshd's and other packages make when they are installed."""
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar}
        assert members["./usr/sbin/munged"].isreg()
        assert "./usr/sbin/slurmctld" in members
        assert members["./etc/machine-id"].size == 0
        named = [name for name in members if "ssh_host_" in name or name.endswith(("/munge.key", "/random-seed"))]
        assert named == []
        logs = [
            name for name, member in members.items() if name.startswith("./var/log/") and member.isreg() and member.size
        ]
        assert logs == []
        links = [name for name in members if name.startswith("./etc/systemd/system/") and members[name].issym()]
        assert any(name.endswith("/ssh.service") for name in links)
        assert not [
            name for name in links if name.endswith(("/chrony.service", "/slurmctld.service", "/munge.service"))
        ]
        shadow = tar.extractfile("./etc/shadow")
        assert shadow is not None
        assert all(line.split(b":")[1] in (b"*", b"!", b"!*") for line in shadow.read().splitlines())
