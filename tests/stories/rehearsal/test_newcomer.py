"""The cluster of somebody new: ten nodes, of which four are rehearsed, with NVIDIA's driver from a mirror over TLS."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.nvidia_repository import NEW_570, key, publish, stubs
from tests.support.real_site import Rehearsal
from tests.support.site import REPOSITORY
from tests.support.tls_server import certificate, serving

pytestmark = pytest.mark.lab

BLUEPRINT = REPOSITORY / "tests" / "stories" / "blueprints" / "newcomer.yaml"
URL, FINGERPRINT = "https://mirror.example.org/cuda/debian12/", "0DF39604D862657B8D2640878EBC827A82862855"
NODES = "g[01-02]"  # and with them head01 and stor01, which carry what others need
# How a site has its nodes trust a mirror whose certificate no public authority signed: a role of its own.
TRUSTS = """\
description: Has apt trust the certificate of the site's mirror.
on: "true"
needs: [base]
affects_jobs: false
files:
  - {path: /etc/ssl/mirror.pem, before_packages: true}
  - path: /etc/apt/apt.conf.d/60mirror
    before_packages: true
    content: "Acquire::https::localhost::CAInfo \\"/etc/ssl/mirror.pem\\";\\n"
"""
GRACE = """\
dn: uid=grace,ou=people,dc=newcomer,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
uid: grace
cn: Grace
sn: Hopper
uidNumber: 5001
gidNumber: 5001
homeDirectory: /etc/home
"""


class Mirror:
    """A mirror of NVIDIA's repository on this machine, with a blueprint that names it."""

    def __init__(self, folder: Path, server: ExitStack) -> None:
        self.server = server
        self.rehearsal = Rehearsal(folder, f"test-newcomer-{os.getpid()}")
        self.blueprint = folder / BLUEPRINT.name
        text, fingerprint = key(folder / "gpg", "mirror")
        (folder / "served").mkdir()
        publish(folder / "served" / "nvidia", stubs(), folder / "gpg", "mirror")
        files = certificate(folder)
        self.origin = f"https://localhost:{server.enter_context(serving(folder / 'served', files))}"
        (folder / "mirror.asc").write_text(text)
        role = folder / "roles" / "mirror_trust"
        (role / "files" / "etc" / "ssl").mkdir(parents=True)
        (role / "role.yaml").write_text(TRUSTS)
        (role / "files" / "etc" / "ssl" / "mirror.pem").write_bytes(files[0].read_bytes())
        said = BLUEPRINT.read_text()
        for old, new in ((URL, f"{self.origin}/nvidia/"), (FINGERPRINT, fingerprint)):
            assert old in said
            said = said.replace(old, new)
        self.blueprint.write_text(f"{said}\nrole_folders: [roles]\n")

    def cli(self, *words: str) -> str:
        """What hpcforge says of the blueprint."""
        verb = 2 if words[0] == "rehearse" else 1
        return self.rehearsal.cli(*words[:verb], str(self.blueprint), *words[verb:])


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirror]:
    with ExitStack() as server:
        here = Mirror(tmp_path_factory.mktemp("newcomer"), server)
        try:
            yield here
        finally:
            here.rehearsal.cli("rehearse", "down")


def test_it_is_rehearsed_applied_and_verified(mirror: Mirror) -> None:
    up = mirror.cli("rehearse", "up", "--nodes", NODES)
    assert f"package source {mirror.origin} is reached\n" in up
    said = mirror.cli("apply", "--yes")
    passed = re.findall(r"^(\w+)  passed  (.*? (?:of|on) \S+)", said, flags=re.MULTILINE)
    assert sorted(name for name, _ in passed) == ["allreduce", "memory_copy", "train_ddp"]
    assert "FAILED" not in said
    assert "Nothing to do on 4 nodes." in mirror.cli("apply", "--yes")


def test_its_driver_comes_over_tls(mirror: Mirror) -> None:
    for node in ("g01", "g02"):
        policy = mirror.rehearsal.inside(node, "apt-cache policy nvidia-driver-cuda")
        assert f"Installed: {NEW_570}-1\n" in policy
        assert f" {mirror.origin}/nvidia " in policy
    said = mirror.cli("rehearse", "compare", "--full")
    assert f"\npackage sources: {mirror.origin}: nodes fetch from there through this machine's proxy" in said
    assert "nvidia_driver: " not in said
    assert "without networks storage;" in said and "/homes (nfs), /projects (nfs) is one folder of this machine" in said
    assert said.endswith("; not explained: 0\n")


def test_its_users_have_accounts_and_the_directory_answers(mirror: Mirror) -> None:
    accounts = mirror.rehearsal.inside(
        "head01", "sudo sacctmgr -nP show assoc format=account,user where user=ada,tests"
    )
    assert sorted(accounts.split()) == ["hpcforge_tests|tests", "running|tests", "vision|ada"]
    environment = mirror.rehearsal.inside("head01", "cd / && sudo -u ada srun -N2 --gres=gpu:h100-sxm:8 env").split(
        "\n"
    )
    assert environment.count("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7") == 2
    assert environment.count("SLURM_JOB_ACCOUNT=vision") == 2
    mirror.rehearsal.inside("head01", f"sudo ldapadd -Q -Y EXTERNAL -H ldapi:/// <<'END'\n{GRACE}END")
    mirror.rehearsal.becomes("g01", "getent passwd grace", "grace:*:5001:5001:Grace:/home/grace:/bin/bash\n")


def test_without_its_mirror_the_driver_is_left_out_and_workers_are_usable(mirror: Mirror) -> None:
    mirror.server.close()
    up = mirror.cli("rehearse", "up", "--nodes", NODES)
    assert f"package source {mirror.origin} is out of reach of this machine\n" in up
    why = f"nvidia_driver: its packages come from {mirror.origin}, which this machine cannot reach"
    assert why in mirror.cli("rehearse", "compare", "--full")
    mirror.cli("apply", "--yes", "--verify", "none")
    assert mirror.rehearsal.inside("head01", "cd / && sudo -u ada srun -N2 hostname | sort") == "g01\ng02\n"
