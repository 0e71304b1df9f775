"""Machines as Debian's installer leaves them: `init --ssh`, `validate`, `apply`, and tests that passed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from tests.support.said import end_of
from tests.support.site import Site
from tests.support.ssh_agent import ssh_agent

pytestmark = pytest.mark.lab

# The account is the first one, so that it has number 1000; hpcforge has nothing else on these nodes.
MACHINES = """\
schema: 1
name: machines
domain: machines.example.org
inventory: {lab: nspawn}
access: {user: debian}
nodes:
  m1: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  m[2-4]: {functions: [worker], hardware: rehearsal-node, addresses: "10.78.0.[11-13]"}
networks: {cluster: {cidr: 10.78.0.0/24}}
services: {dns: {on: m1}, time: {on: m1}}
software: {os: {name: debian, release: "12"}}
slurm: {controller: m1, partitions: {main: {nodes: all, default: true}}}
"""
NAMES = {"m1": "debian", "m2": "GPU-02", "m3": "debian", "m4": "m4.old-site.example.org"}
# A second network card with a network of its own, which no blueprint is to know.
SECOND_NIC = "sudo ip link add ens9 type veth peer name away9 && sudo ip addr add 192.0.2.{number}/24 dev ens9"
NETWORK = "10.78.0"  # of the blueprint


class Machines:
    """The nodes, and hpcforge on a machine that only has their key."""

    def __init__(self, folder: Path) -> None:
        (folder / "blueprints").mkdir()
        self.lab = Site(folder, f"test-first-{os.getpid()}")
        self.lab.blueprint.write_text(MACHINES)
        self.site = folder / "site.yaml"
        self.agent = folder / "agent"

    def cli(self, *words: str) -> tuple[int, str]:
        """Exit status and output of hpcforge, to which these are machines like any others."""
        own = {"SSH_AUTH_SOCK": str(self.agent), "HPCFORGE_IDENTITY": str(self.lab.folder / "age.key")}
        environment = {name: text for name, text in os.environ.items() if name != "HPCFORGE_LAB"} | own
        done = subprocess.run(
            [sys.executable, "-m", "hpcforge", *words],
            env=environment | {"XDG_STATE_HOME": str(self.lab.folder / "state")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        said = self.as_written(f"{done.stderr}{done.stdout}")
        print(f"$ hpcforge {' '.join(words)}\n{end_of(said)}exit status {done.returncode}\n")
        return done.returncode, said

    @property
    def network(self) -> str:
        """How the lab's addresses begin: another lab may have the ones that the blueprint has."""
        lab = labs.load(self.lab.lab)
        assert lab is not None
        return lab.node("m1").address.rpartition(".")[0]

    def as_written(self, text: str) -> str:
        """A text with the blueprint's addresses in place of the lab's."""
        dashed = self.network.replace(".", "-"), NETWORK.replace(".", "-")
        return text.replace(f"{self.network}.", f"{NETWORK}.").replace(f"{dashed[0]}-", f"{dashed[1]}-")

    def init(self, name: str, *addresses: str, user: str = "debian") -> tuple[int, str]:
        """`init --ssh` of these addresses."""
        chosen = [word for address in addresses for word in ("--ssh", address.replace(NETWORK, self.network))]
        return self.cli("init", str(self.site.with_name(name)), *chosen, "--user", user, "--trust-new")


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    here = Machines(tmp_path_factory.mktemp("first"))
    try:
        assert here.lab.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        for number, (node, name) in enumerate(NAMES.items(), 1):
            here.lab.ssh(node, SECOND_NIC.format(number=number))
            here.lab.ssh(node, f"echo {name} | sudo tee /etc/hostname && sudo hostname {name}")
        found = labs.load(here.lab.lab)
        assert found is not None
        with ssh_agent(here.agent, found.key):
            yield here
    finally:
        here.lab.cli("rehearse", "down")


def test_the_machines_are_as_an_installer_leaves_them(machines: Machines) -> None:
    for node in NAMES:
        assert machines.lab.ssh(node, "id -u; id -g") == "1000\n1000\n"
    assert machines.lab.ssh("m4", "command -v python3 || echo none") == "none\n"


def test_one_machine_at_two_addresses_is_listed_once_and_clones_are_named(machines: Machines) -> None:
    machines.lab.ssh("m2", f"sudo ip addr add {machines.network}.21/24 dev host0")
    machines.lab.ssh("m3", "sudo cp /etc/machine-id /etc/kept-id && sudo chmod 644 /etc/machine-id")
    same = machines.lab.ssh("m2", "cat /etc/machine-id").strip()
    machines.lab.ssh("m3", f"echo {same} | sudo tee /etc/machine-id")
    code, said = machines.init("odd.yaml", "10.78.0.[10-13]", "10.78.0.21")
    assert code == 0
    assert "10.78.0.21 and 10.78.0.11 are one machine: it is listed once, at 10.78.0.11\n" in said
    assert "10.78.0.11, 10.78.0.12 are clones: different machines with the same machine-id" in said
    inventory = machines.as_written((machines.lab.folder / "odd.inventory.yaml").read_text())
    assert inventory.count(": {address: 10.78.0.") == 4 and "   # also at 10.78.0.21; a clone: " in inventory
    machines.lab.ssh("m2", f"sudo ip addr del {machines.network}.21/24 dev host0")
    machines.lab.ssh("m3", "sudo cp /etc/kept-id /etc/machine-id && sudo rm /etc/kept-id")


CLOUD = 'command="echo Please login as the user debian;exit 142" '
NO_PASSWORD = """
sudo useradd --create-home --groups sudo olga && sudo mkdir /home/olga/.ssh
sudo cp /home/debian/.ssh/authorized_keys /home/olga/.ssh/ && sudo chown -R olga: /home/olga
"""


def test_a_login_that_cannot_become_root_is_named_with_what_the_machine_says(machines: Machines) -> None:
    key = machines.lab.ssh("m1", "cat .ssh/authorized_keys")
    machines.lab.ssh(
        "m1", f"sudo mkdir -p /root/.ssh && echo '{CLOUD}{key.strip()}' | sudo tee /root/.ssh/authorized_keys"
    )
    machines.lab.ssh("m2", NO_PASSWORD)
    code, said = machines.init("root.yaml", "10.78.0.10", user="root")
    assert code == 3
    assert (
        "lets root in and does not run hpcforge's commands (exit status 142): Please login as the user debian" in said
    )
    code, said = machines.init("olga.yaml", "10.78.0.11", user="olga")
    assert code == 3
    assert "10.78.0.11: olga cannot become root: " in said
    assert "sudo: a password is required; as root there: in /etc/sudoers.d/olga: " in said
    machines.lab.ssh("m1", "sudo rm -r /root/.ssh")
    machines.lab.ssh("m2", "sudo userdel --remove olga")


def test_numbers_that_differ_or_are_taken_are_named_and_not_written(machines: Machines) -> None:
    machines.lab.ssh("m3", "sudo groupadd -g 1901 lab && sudo useradd -g 1901 -u 1901 lab")
    machines.lab.ssh("m2", "sudo groupmod -g 1500 debian")
    code, said = machines.init("numbers.yaml", "10.78.0.[10-13]")
    assert code == 0
    assert "account debian has uid 1000 and gid 1500, and no group of its own name and number" in said
    assert "tests gets number 1902: 1901 is in use: user lab on " in said
    text = (machines.lab.folder / "numbers.yaml").read_text()
    assert "  # guess: debian is left out, and hpcforge logs in with it all the same: " in text
    assert re.search(r"^  tests: \{uid: 1902\}", text, re.MULTILINE) and "\n  debian: {" not in text
    assert machines.cli("validate", str(machines.site.with_name("numbers.yaml")))[0] == 0
    machines.lab.ssh("m2", "sudo groupmod -g 1000 debian")
    machines.lab.ssh("m3", "sudo userdel lab")


def test_they_become_a_cluster_whose_tests_pass(machines: Machines) -> None:
    code, said = machines.init("site.yaml", "10.78.0.[10-13]")
    assert code == 0
    assert "10.78.0.13 has no Python 3: `apply` installs it\n" in said
    assert "10.78.0.10 calls itself debian: it is node-10-78-0-10 here, and `apply` makes that its hostname\n" in said
    text = machines.as_written(machines.site.read_text())
    assert "  debian: {uid: 1000, admin: true}\n" in text and "mgmt: {cidr: 10.78.0.0/24}\n" in text
    assert machines.cli("validate", str(machines.site))[0] == 0
    code, said = machines.cli("apply", str(machines.site), "--yes")
    assert code == 0
    passed = re.findall(r"^(\w+)  passed  ", said, flags=re.MULTILINE)
    assert sorted(set(passed)) == ["allreduce", "memory_copy", "train_ddp"]
    code, said = machines.cli("apply", str(machines.site), "--yes")
    assert (code, "Nothing to do on 4 nodes." in said) == (0, True)


def test_another_number_than_the_machines_have_is_refused_with_its_line(machines: Machines) -> None:
    other = machines.site.with_name("other.yaml")
    text = machines.site.read_text()
    other.write_text(text.replace("debian: {uid: 1000,", "debian: {uid: 1900,"))
    line = next(number for number, each in enumerate(other.read_text().splitlines(), 1) if "uid: 1900" in each)
    code, said = machines.cli("plan", str(other))
    assert code == 5
    assert "write 1000 in the blueprint: debian: {uid: 1000}; or renumber it by hand" in said
    assert f"({other}:{line})" in said
