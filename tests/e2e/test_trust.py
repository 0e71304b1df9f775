"""Machines that nobody has recorded a host key of: refused, then accepted once by --trust-new, then held to.

And what those keys are good for: users go from node to node by name without a question. Two nodes, no Slurm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpcforge.lab import lab as labs

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).parents[2]
BLUEPRINT = """\
schema: 1
name: trust   # a comment that stays
domain: trust.example.org
access: {{user: ops, via: n1}}
nodes:
  n1: {{functions: [head], hardware: rehearsal-node, addresses: {n1}}}
  n2: {{functions: [worker], hardware: rehearsal-node, addresses: {n2}}}
networks: {{cluster: {{cidr: {cidr}}}}}
services: {{dns: {{on: n1}}, time: {{on: n1}}}}
software: {{os: {{name: debian, release: "12"}}}}
slurm: {{controller: n1, reserve: {{cores: 1, memory_gib: 1}}, partitions: {{main: {{nodes: all, default: true}}}}}}
users:
  ada: {{uid: 2001}}
"""


@dataclass(frozen=True)
class Here:
    """Two nodes, a blueprint that knows their addresses and no inventory, and the real command line."""

    lab: labs.Lab
    blueprint: Path

    @property
    def inventory(self) -> Path:
        return self.blueprint.with_name("trust.inventory.yaml")

    def cli(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HPCFORGE_IDENTITY": str(self.blueprint.with_name("age.key"))}
        environment |= {"SSH_AUTH_SOCK": str(self.blueprint.with_name("agent"))}
        roles = str(self.blueprint.with_name("roles"))
        words = [sys.executable, "-m", "hpcforge", verb, str(self.blueprint), "--roles", roles, *more]
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800, check=False
        )
        print(f"$ {' '.join(words)}\n{done.stderr}{done.stdout}exit status {done.returncode}\n")
        return done

    def inside(self, node: str, script: str, *, check: bool = True) -> str:
        argv = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, name: str) -> str:
        """What a user of n1 gets who runs `hostname` on another node, with nobody to answer a question."""
        ssh = f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {name} hostname"
        return self.inside("n1", f"su ada -c '{ssh}' 2>&1", check=False)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    name, folder = f"test-trust-{os.getpid()}", tmp_path_factory.mktemp("trust")
    try:
        lab = labs.up(
            (labs.LabNode("n1"), labs.LabNode("n2")),
            name=name,
            cidr_wanted="10.77.0.0/24",
            login_user="ops",
            release="12",
            blueprint=folder / "trust.yaml",
            progress=print,
        )
        addresses = {node: lab.node(node).address for node in ("n1", "n2")}
        for role in ("base", "users", "ssh_trust"):
            shutil.copytree(REPOSITORY / "roles" / role, folder / "roles" / role)
        (folder / "trust.yaml").write_text(BLUEPRINT.format(cidr=lab.cidr, **addresses))
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(folder / "agent")], stdout=subprocess.DEVNULL)
        try:
            while not (folder / "agent").exists():
                pass
            environment = {**os.environ, "SSH_AUTH_SOCK": str(folder / "agent")}
            subprocess.run(["ssh-add", "-q", str(lab.key)], env=environment, check=True, capture_output=True)
            yield Here(lab, folder / "trust.yaml")
        finally:
            agent.terminate()
            agent.wait()
    finally:
        labs.down(name, None, print)


def test_without_a_recorded_key_nobody_is_connected_to(here: Here) -> None:
    done = here.cli("plan")
    assert done.returncode == 4
    assert "--trust-new" in done.stdout + done.stderr
    assert not here.inventory.exists()


def test_trust_new_shows_records_and_uses_the_keys(here: Here) -> None:
    done = here.cli("plan", "--trust-new")
    assert done.returncode == 2
    known = yaml.safe_load(here.lab.inventory.read_text())["nodes"]
    recorded = yaml.safe_load(here.inventory.read_text())["nodes"]
    assert {name: node["host_keys"] for name, node in recorded.items()} == {
        name: [" ".join(node["host_keys"][0].split()[:2])] for name, node in known.items()
    }
    for node in ("n1", "n2"):
        seen = here.inside(node, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
        assert f"{seen}" in done.stderr
    text = here.blueprint.read_text()
    assert "name: trust   # a comment that stays\n" in text
    assert text.endswith("inventory: trust.inventory.yaml\n")
    before = here.inventory.read_bytes()
    again = here.cli("plan", "--trust-new")
    assert (again.returncode, here.inventory.read_bytes()) == (2, before)
    assert "fingerprint" not in again.stderr


def test_users_go_from_node_to_node_without_a_question(here: Here) -> None:
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    here.inside("n1", "su ada -c 'mkdir -m 0700 ~/.ssh; ssh-keygen -q -t ed25519 -N \"\" -f ~/.ssh/id_ed25519'")
    public = here.inside("n1", "cat /home/ada/.ssh/id_ed25519.pub").strip()
    here.inside(
        "n2", f"su ada -c 'mkdir -p -m 0700 ~/.ssh; echo {public} >~/.ssh/authorized_keys'; chmod 600 ~ada/.ssh/*"
    )
    address = here.lab.node("n2").address
    here.inside("n1", f"echo '{address} n2.trust.example.org n2' >>/etc/hosts")
    for name in ("n2", "n2.trust.example.org", address):
        assert here.ask(name) == "n2\n"
    assert here.inside("n1", "test -e /home/ada/.ssh/known_hosts", check=False) == ""


def test_a_new_authority_is_brought_to_all(here: Here) -> None:
    before = here.inside("n1", "cat /etc/ssh/ssh_known_hosts2")
    environment = {**os.environ, "HPCFORGE_IDENTITY": str(here.blueprint.with_name("age.key"))}
    rotate = [sys.executable, "-m", "hpcforge", "secrets", "rotate", str(here.blueprint), "ssh_host_ca"]
    subprocess.run(rotate, env=environment, check=True, capture_output=True)
    done = here.cli("apply", "--yes")
    assert done.returncode == 0, done.stderr
    assert here.inside("n1", "cat /etc/ssh/ssh_known_hosts2") not in ("", before)
    assert here.ask(here.lab.node("n2").address) == "n2\n"
    assert here.cli("plan").returncode == 0


def test_a_jump_host_that_is_no_node_is_recorded_with_its_user(here: Here) -> None:
    """n1 as a machine of the site's: another blueprint, which has only n2."""
    n1 = here.lab.node("n1").address
    text = here.blueprint.read_text().replace("via: n1", f"via: {{host: {n1}, user: ops}}")
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("  n1:", "inventory:"))]
    text = "".join(lines).replace("functions: [worker]", "functions: [head, worker]").replace("on: n1", "on: n2")
    behind = Here(here.lab, here.blueprint.with_name("behind.yaml"))
    behind.blueprint.write_text(text.replace("controller: n1", "controller: n2"))
    done = behind.cli("plan", "--trust-new")
    assert done.returncode == 2
    recorded = yaml.safe_load(here.blueprint.with_name("behind.inventory.yaml").read_text())
    known = yaml.safe_load(here.lab.inventory.read_text())["nodes"]
    assert recorded["access"]["via"]["host"] == n1
    assert recorded["access"]["via"]["host_keys"][0].split()[1] == known["n1"]["host_keys"][0].split()[1]
    assert list(recorded["nodes"]) == ["n2"]
    assert behind.cli("plan").returncode == 2


def test_another_machine_under_the_name_is_refused(here: Here) -> None:
    """The authority vouches for recorded keys only."""
    key = "/etc/ssh/ssh_host_ed25519_key"
    here.inside("n2", f"rm {key}*; ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh")
    assert here.ask(here.lab.node("n2").address).strip().endswith("Host key verification failed.")
    done = here.cli("apply", "--yes", "--trust-new")
    assert done.returncode == 4
    assert "the host key of n2" in done.stdout + done.stderr
    assert "nodes replace" in done.stdout + done.stderr
