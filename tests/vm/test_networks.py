"""Interfaces that hpcforge sets up, on two virtual machines: bonds, VLANs, and what is taken back: `make test-vm`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.vm import machines

pytestmark = pytest.mark.vm

REPOSITORY = Path(__file__).parents[2]
NAME = f"test-vmnet-{os.getpid()}"
BLUEPRINT = """\
schema: 1
name: wired
domain: wired.example.org
inventory: {lab: vm}
access: {user: ops, become: sudo}
hardware:
  two-drives: {like: rehearsal-node, nvme: 2 x 1.92TB}
nodes:
  head: {functions: [head],   hardware: rehearsal-node, addresses: 10.78.0.10}
  w01:  {functions: [worker], hardware: two-drives,     addresses: 10.78.0.11}
fabrics:
  ether: {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn4600, bond: active-backup,
          interfaces: [lan1, lan2]}
networks:
  cluster: {fabric: ether, cidr: 10.78.0.0/24, interface: bond0, boot: true, configure: true}
  storage: {fabric: ether, cidr: 10.178.0.0/24, vlan: 20, interface: bond0.20, configure: true}
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
    main: {nodes: w01, default: true}
users:
  ada: {uid: 2001}
rollout: {confirm_wait: 2min}
"""
APPLY = ("--yes", "--only", "base", "--only", "networks", "--verify", "none")


@dataclass(frozen=True)
class Rehearsal:
    """A blueprint of two machines."""

    blueprint: Path

    def run(self, *words: object, expect: int = 0) -> str:
        """All that an hpcforge says that ends as expected; how long it took is told."""
        began = time.monotonic()
        env = {name: value for name, value in os.environ.items() if name != "HPCFORGE_NO_IMAGE"}
        done = subprocess.run(
            [sys.executable, "-m", "hpcforge", *map(str, words)],
            cwd=REPOSITORY,
            env={**env, "HPCFORGE_LAB": NAME},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(f"{' '.join(map(str, words[:2])):<20} {time.monotonic() - began:6.0f} s", flush=True)
        for line in done.stdout.splitlines():
            if line.startswith("time: ") or ": started at" in line or ": networks" in line:
                print(f"    {line}", flush=True)
        assert done.returncode == expect, done.stdout
        return done.stdout

    def apply(self) -> str:
        """All that is said by an apply of interfaces alone: without Slurm, nothing is admitted."""
        return self.run("apply", self.blueprint, *APPLY, expect=5)

    def write(self, **changed: str) -> None:
        """The blueprint with the lines of some networks said otherwise."""
        lines = BLUEPRINT.splitlines(keepends=True)
        said = (
            next((f"  {name}: {text}\n" for name, text in changed.items() if line.startswith(f"  {name}: ")), line)
            for line in lines
        )
        self.blueprint.write_text("".join(said))

    def on(self, node: str, command: str) -> str:
        return self.run("rehearse", "ssh", self.blueprint, node, "--", command)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Two machines, with their bonds and VLANs."""
    blueprint = tmp_path_factory.mktemp("site") / "wired.yaml"
    rehearsal = Rehearsal(blueprint)
    rehearsal.write()
    print()
    try:
        rehearsal.run("image", "build", "--disk", blueprint)
        rehearsal.run("rehearse", "up", blueprint)
        said = rehearsal.apply()
        assert "head: networks done" in said and "w01: networks done" in said, said
        yield rehearsal
    finally:
        labs.down(NAME, None, print)


def cable(node: str, card: str, state: str) -> None:
    """Pull a cable out of a machine, or put it in."""
    lab = labs.load(NAME)
    assert lab is not None
    machines.tell(lab.machine(node), f"set_link {card} {state}")


def active(up: Rehearsal) -> str:
    """The port of w01's bond that carries its packets."""
    return up.on("w01", "cat /sys/class/net/bond0/bonding/active_slave").strip()


def test_machines_have_the_cards_and_drives_that_are_declared(up: Rehearsal) -> None:
    assert up.on("w01", "ls /sys/class/net/bond0/ | grep lower_").split() == ["lower_lan1", "lower_lan2"]
    assert up.on("w01", "lsblk --noheadings --nodeps --output NAME,SIZE /dev/nvme*n1").split() == [
        "nvme0n1",
        "4G",
        "nvme1n1",
        "4G",
    ]


def test_a_vlan_answers_between_machines(up: Rehearsal) -> None:
    assert "10.178.0.11/24" in up.on("w01", "ip -4 -brief address show dev bond0.20")
    told = "import socket; socket.create_connection(('10.178.0.10', 22), 60, ('10.178.0.11', 0)); print('heard')"
    assert "heard" in up.on("w01", f'python3 -c "{told}"')


def test_a_bond_keeps_a_connection_when_a_card_is_taken_away(up: Rehearsal) -> None:
    first = active(up)
    lab = labs.load(NAME)
    assert lab is not None
    talking = subprocess.Popen(
        [*labs.ssh_argv(lab, "w01"), "echo begun; read word; echo $word"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with talking:
        assert talking.stdin and talking.stdout
        assert talking.stdout.readline() == "begun\n"
        cable("w01", "lab" if first == "lan1" else "card1", "off")
        try:
            talking.stdin.write("still here\n")
            talking.stdin.flush()
            assert talking.stdout.readline() == "still here\n"
            assert active(up) == ({"lan1", "lan2"} - {first}).pop()
        finally:
            cable("w01", "lab" if first == "lan1" else "card1", "on")


def test_packets_that_a_card_does_not_take_are_taken_back(up: Rehearsal) -> None:
    up.write(cluster="{fabric: ether, cidr: 10.78.0.0/24, interface: bond0, boot: true, configure: true, mtu: 9000}")
    said = up.apply()
    assert "what was changed for it was put back" in said
    assert " mtu 1500 " in up.on("w01", "ip address show dev bond0")
    assert "MTUBytes" not in up.on("w01", "cat /etc/systemd/network/05-hpcforge-bond0.network")


def test_a_network_on_which_hpcforge_does_not_find_the_node_again_is_taken_back(up: Rehearsal) -> None:
    moved = "{fabric: ether, cidr: 10.78.0.0/24, vlan: 7, interface: bond0.7, boot: true, configure: true}"
    up.write(cluster=moved)
    up.apply()
    assert "10.78.0.11/24" in up.on("w01", "ip -4 -brief address show dev bond0")
    assert "bond0.7" not in up.on("w01", "ls /sys/class/net /etc/systemd/network")
    up.write()
    assert "networks" not in up.run("plan", up.blueprint, "--only", "networks")


def test_without_the_word_interfaces_are_as_they_were(up: Rehearsal) -> None:
    up.write(
        cluster="{fabric: ether, cidr: 10.78.0.0/24, interface: bond0, boot: true}",
        storage="{fabric: ether, cidr: 10.178.0.0/24, vlan: 20, interface: bond0.20}",
    )
    up.apply()
    assert "10.78.0.11/24" in up.on("w01", "ip -4 -brief address show dev lan1")
    assert "bond" not in up.on("w01", "ls /sys/class/net; ls /etc/systemd/network /etc/hpcforge")


def test_nothing_is_left_behind(up: Rehearsal) -> None:
    lab = labs.load(NAME)
    assert lab is not None
    up.run("rehearse", "down", up.blueprint)
    assert [path.name for path in Path("/sys/class/net").iterdir() if lab.tag in path.name] == []
    assert not lab.directory.exists()
