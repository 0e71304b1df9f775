"""The worked examples of docs/roles.md, one of each kind of role, on a real node: applied, mended, taken away again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.lab import lab as labs

pytestmark = pytest.mark.lab
REPOSITORY = Path(__file__).parents[3]
EXAMPLES = REPOSITORY / "docs/examples/roles"
BLUEPRINT = """\
schema: 1
name: examples
domain: examples.example.org
inventory: {lab: nspawn}
access: {user: ops, become: sudo}
nodes:
  n01: {functions: [head, worker], hardware: rehearsal-node, addresses: 10.77.0.11}
networks:
  cluster: {cidr: 10.77.0.0/24}
services:
  dns:  {external: [192.0.2.2]}
  time: {external: [192.0.2.3]}
software:
  os: {name: debian, release: "12"}
slurm:                                # no role here looks at it, but a blueprint has it
  controller: n01
  reserve: {cores: 0, memory_gib: 1}
  partitions:
    main: {nodes: n01, default: true}
users:
  ada: {uid: 2001}
"""


@dataclass(frozen=True)
class Site:
    """A node, a blueprint of it, and the examples beside the two shipped roles that they need."""

    folder: Path
    lab: labs.Lab

    def run(self, verb: str, *options: str, code: int = 0) -> str:
        own = {
            "HPCFORGE_LAB": self.lab.name,
            "HPCFORGE_IDENTITY": str(self.folder / "age.key"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
        }
        with_roles = REPOSITORY / "tests" / "support" / "with_roles.py"
        start = [sys.executable, "-P", str(with_roles), str(self.folder / "roles")]
        words = [*start, verb, str(self.folder / "site.yaml"), *options]
        done = subprocess.run(
            words, env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    def inside(self, script: str) -> str:
        """A script on the node as root; what it printed."""
        argv = labs.ssh_argv(self.lab, "n01", ["sudo", "-n", "sh", "-c", script])
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "site.yaml").write_text(BLUEPRINT)
    shutil.copytree(EXAMPLES, folder / "roles")
    for role in ("base", "users"):
        shutil.copytree(bundled.root() / "roles" / role, folder / "roles" / role)
    name = f"test-examples-{os.getpid()}"
    try:
        lab = labs.up(
            labs.UpRequest(
                name=name,
                nodes=(labs.LabNode("n01", "10.77.0.11"),),
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=folder / "site.yaml",
            ),
            print,
        )
        yield Site(folder, lab)
    finally:
        labs.down(name, None, print)


def test_each_kind_of_role_reaches_a_node(site: Site) -> None:
    site.run("apply", "--yes")
    assert site.inside("stat -c '%a %U:%G' /scratch/ada; cat /scratch/README") == (
        "700 ada:ada\nScratch space of n01 alone. What nobody touched for ten days is removed."
    )
    assert site.inside("sed 1d /etc/tmpfiles.d/scratch.conf") == "e /scratch/ada - - - 10d"
    believed = "openssl verify -no-CApath -CAfile /etc/ssl/certs/ca-certificates.crt"
    assert site.inside(f"{believed} /usr/local/share/ca-certificates/site.crt").endswith("OK")
    assert site.inside("sh -lc 'echo $SITE_CLUSTER $SITE_RUNS_JOBS'") == "examples yes"
    site.run("plan")  # exit status 0: there is nothing left to do


def test_what_a_check_misses_its_code_brings_back(site: Site) -> None:
    site.inside("rm /etc/profile.d/site.sh; : > /etc/ssl/certs/ca-certificates.crt")
    planned = site.run("plan", code=2)
    assert "login_shell" in planned
    assert "internal_ca" in planned
    site.run("apply", "--yes")
    site.run("plan")


def test_the_roles_go_as_they_say(site: Site) -> None:
    site.inside("touch /scratch/ada/result")
    for role in ("scratch", "internal_ca", "login_shell"):
        shutil.rmtree(site.folder / "roles" / role)
    site.run("plan", code=2)
    site.run("apply", "--yes")
    left = "ls -d /scratch/ada/result /etc/profile.d/site.sh /etc/tmpfiles.d/scratch.conf 2>/dev/null; true"
    assert site.inside(left) == "/scratch/ada/result"
