"""A small image, built twice from one lock: the archives are the same bit for bit, and hold nobody's secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
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
        argv = [sys.executable, "-m", "hpcforge", "image", *map(str, words)]
        env = {**os.environ, "HPCFORGE_CACHE_DIR": str(self.home)}
        return subprocess.Popen(
            argv, cwd=REPOSITORY, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        with self.begin(*words) as process:
            out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def build(self, *words: object) -> tuple[dict, str]:
        done = self.run("build", self.blueprint, "--json", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    @property
    def listed(self) -> list[dict]:
        return json.loads(self.run("list", "--json").stdout)["images"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    home = tmp_path_factory.mktemp("images")
    (home / "small.yaml").write_text(BLUEPRINT)
    yield Images(home, home / "small.yaml")
    subprocess.run(["rm", "-rf", str(home / "images")], check=True)


@pytest.mark.lab
def test_two_builds_of_one_lock_are_the_same_bit_for_bit(images: Images, tmp_path: Path) -> None:
    with images.begin("build", images.blueprint) as cut_off:
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
    assert f"installing {one['packages']} packages" in said
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(Path(one["manifest"]).read_bytes())
    _look_through(Path(one["archive"]))
    assert images.listed == [one]
    assert sorted(path.name for path in Path(one["archive"]).parent.iterdir()) == ["manifest.json", "root.tar"]

    again, _ = images.build()
    assert again["built"] is False
    assert again["image"] == one

    done = images.run("remove", one["name"])
    assert done.returncode == 0, done.stderr
    assert images.listed == []

    second, _ = images.build("--locked", manifest)
    assert second["built"] is True
    assert second["image"]["sha256"] == one["sha256"]
    assert second["image"]["name"] == one["name"]


def _look_through(archive: Path) -> None:
    """With eyes of its own: what munge's, sshd's and other packages make when they are installed."""
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar}
        assert members["./usr/sbin/munged"].isreg()
        assert "./usr/sbin/slurmctld" in members
        assert members["./etc/machine-id"].size == 0
        named = [name for name in members if "ssh_host_" in name or name.endswith(("munge.key", "random-seed"))]
        assert named == []
        logs = [name for name, one in members.items() if name.startswith("./var/log/") and one.isreg() and one.size]
        assert logs == []
        links = [name for name in members if name.startswith("./etc/systemd/system/") and members[name].issym()]
        assert any(name.endswith("/ssh.service") for name in links)
        assert not [
            name for name in links if name.endswith(("/chrony.service", "/slurmctld.service", "/munge.service"))
        ]
        shadow = tar.extractfile("./etc/shadow")
        assert shadow is not None
        assert all(line.split(b":")[1] in (b"*", b"!", b"!*") for line in shadow.read().splitlines())
