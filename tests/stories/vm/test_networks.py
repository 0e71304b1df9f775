"""Bonds and VLANs that hpcforge sets up, cables pulled and changes that nobody confirms: `make test-vm`."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator

import pytest

from hpcforge.lab import lab as labs
from hpcforge.lab.vm.machines import tell
from tests.support.vm_rehearsal import Rehearsal, blueprint, configured

pytestmark = pytest.mark.vm

NAME = f"test-vm-networks-{os.getpid()}"
BLUEPRINT = blueprint(
    "wires",
    """\
nodes:
  head: {functions: [head],   hardware: rehearsal-node, addresses: 10.77.0.10}
  w01:  {functions: [worker], hardware: rehearsal-node, addresses: 10.77.0.11}
fabrics:
  lan:  {kind: ethernet, rate_gbps: 1, topology: leaf-pair, switch: sn4600, bond: active-backup,
         interfaces: [lan1, lan2]}
  data: {kind: ethernet, rate_gbps: 1, topology: leaf-pair, switch: sn4600, bond: active-backup,
         interfaces: [data1, data2]}
networks:
  cluster: {fabric: lan,  cidr: 10.77.0.0/24, interface: bond0, boot: true, configure: true}
  storage: {fabric: data, cidr: 10.78.0.0/24, interface: bond1.20, vlan: 20, mtu: 9000, configure: true}
slurm:
  enforce: []
  partitions:
    main: {nodes: w01, default: true}
storage: {projects: {kind: nfs, server: head, network: storage, path: /srv/projects, mount: /projects}}
role_folders: [roles]
users:
  ada: {uid: 2001}
rollout: {confirm_wait: 5min}
""",
)
PING = """\
description: What these tests look along a cable with.
on: "true"
needs: [base]
packages: [iputils-ping]
"""
CABLES = {"lan1": "lab", "lan2": "card1"}  # what QEMU calls what a card of a machine is plugged into
MTU = "cat /sys/class/net/{}/mtu"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Two machines of four cards each, configured: their own addresses are on a bond by then."""
    with configured(NAME, tmp_path_factory.mktemp("site"), BLUEPRINT, {"ping": PING}) as rehearsal:
        yield rehearsal


def the_lab() -> labs.Lab:
    lab = labs.load(NAME)
    assert lab is not None
    return lab


ADDRESS = "/sbin/ip -4 -o address show {} | grep -o 'inet [^ ]*' || :"  # put there by networkd, which nobody waits for


def address_of(up: Rehearsal, node: str, interface: str) -> str:
    return up.on(node, ADDRESS.format(interface)).strip()


def own(node: str) -> str:
    """A machine's own address, which is in another network than the blueprint's where that is taken on this host."""
    return f"inet {the_lab().node(node).address}/24"


def cable(node: str, interface: str, state: str) -> None:
    """Pull ("off") or plug in ("on") what a card of a machine's is plugged into."""
    lab = the_lab()
    tell(lab.machine(node), f"set_link {CABLES[interface]} {state}")


def test_addresses_are_on_bonds_and_in_a_vlan(up: Rehearsal) -> None:
    for node, host in (("head", 10), ("w01", 11)):
        up.becomes(node, ADDRESS.format("bond0"), own(node))
        up.becomes(node, ADDRESS.format("bond1.20"), f"inet 10.78.0.{host}/24")
        assert [address_of(up, node, port) for port in ("lan1", "lan2", "data1", "data2")] == [""] * 4
        modes = "cat /sys/class/net/bond[01]/bonding/mode /sys/class/net/bond[01]/bonding/slaves"
        assert up.on(node, modes).splitlines()[:2] == ["active-backup 1"] * 2
        assert sorted(up.on(node, modes).split()[4:]) == ["data1", "data2", "lan1", "lan2"]


def test_files_are_served_over_the_network_of_the_blueprint_and_no_other(up: Rehearsal) -> None:
    mounted = up.on("w01", "findmnt -n -o SOURCE,OPTIONS /projects")
    assert mounted.startswith("10.78.0.10:/srv/projects ")
    assert "clientaddr=10.78.0.11," in mounted
    assert up.on("head", "sudo exportfs -s").split("(")[0].split() == ["/srv/projects", "10.78.0.11"]
    up.on("w01", "sudo -u ada sh -c 'echo said > /projects/of_ada'")
    assert up.on("head", "cat /srv/projects/of_ada") == "said\n"
    peers = up.on("head", "ss -Htn state established '( sport = :2049 )'").splitlines()
    assert peers and all("10.78.0.10:2049" in line and "10.78.0.11:" in line for line in peers)
    refused = up.on("w01", f"sudo mount -t nfs {the_lab().node('head').address}:/srv/projects /mnt 2>&1 || :")
    assert "access denied" in refused or "No such file" in refused


def test_what_a_network_s_packets_may_have_passes_and_a_byte_more_does_not(up: Rehearsal) -> None:
    passes = "sudo ping -M do -c 1 -W 30 -s {} 10.78.0.11 2>&1 || :"
    assert " 0% packet loss" in up.on("head", passes.format(9000 - 28))  # less the headers of IP and ICMP
    assert "essage too long" in up.on("head", passes.format(9001 - 28))


def test_a_second_plan_has_nothing_to_do(up: Rehearsal) -> None:
    up.run("plan", up.blueprint)


def test_a_job_goes_on_when_its_node_loses_a_card(up: Rehearsal) -> None:
    counts = shlex.quote("for n in $(seq 90); do echo said $n; sleep 1; done")
    active = up.on("w01", "cat /sys/class/net/bond0/bonding/active_slave").strip()
    (other,) = {"lan1", "lan2"} - {active}
    command = f"cd / && sudo -u ada srun -w w01 sh -c {counts} 2>&1"
    srun = up.start("rehearse", "ssh", up.blueprint, "head", "--", command)
    try:
        assert srun.stdout is not None
        first = srun.stdout.readline()
        assert first == "said 1\n"
        cable("w01", active, "off")
        up.becomes("w01", "cat /sys/class/net/bond0/bonding/active_slave", other)
        assert srun.poll() is None, "the job ended before its card was lost"
        said = first + srun.stdout.read()
        assert (srun.wait(), said) == (0, "".join(f"said {n}\n" for n in range(1, 91)))
    finally:
        srun.kill()
        srun.communicate()
        cable("w01", active, "on")
    up.becomes("w01", f"cat /sys/class/net/{active}/bonding_slave/mii_status", "up")
    assert up.on("w01", f"cat /sys/class/net/{active}/bonding_slave/link_failure_count") == "1\n"
    up.becomes("head", "sinfo -h -o %T", "idle")


def test_an_address_by_which_nobody_comes_in_is_taken_back(up: Rehearsal) -> None:
    """Into a VLAN in which the machine is alone: no connection confirms that."""
    with_other(up, ("interface: bond0, boot", "interface: bond0.30, vlan: 30, boot"), ("5min", "1min"))
    said = up.run("apply", up.blueprint, "--yes", "--only", "networks", "--limit", "w01", expect=5)
    assert "change has been taken back (nobody confirmed it within 60 s)" in said
    up.becomes("w01", ADDRESS.format("bond0"), own("w01"))
    up.becomes("w01", "ls /sys/class/net | grep -c '^bond0[.]' || :", "0")


def test_a_change_of_an_apply_that_was_killed_is_taken_back(up: Rehearsal) -> None:
    with_other(up, ("mtu: 9000", "mtu: 8000"), ("5min", "2min"))
    apply = up.start("apply", up.blueprint, "--yes", "--json", "--only", "networks", "--limit", "w01")
    try:
        assert apply.stdout is not None
        changed = ('"event": "changed"', '"kind": "unit"', "hpcforge-networks.service")
        assert any(all(word in line for word in changed) for line in apply.stdout), "networks were not set up"
    finally:
        apply.send_signal(signal.SIGKILL)
        apply.communicate()
    up.becomes("w01", MTU.format("bond1.20"), "8000")  # it was done, and is not confirmed
    up.becomes("w01", MTU.format("bond1.20"), "9000")
    up.becomes("w01", ADDRESS.format("bond1.20"), "inet 10.78.0.11/24")
    up.becomes("w01", "ls /var/lib/hpcforge/guards /etc/systemd/system | grep -c guard- || :", "0")


def test_what_goes_from_the_blueprint_goes_from_nodes(up: Rehearsal) -> None:
    up.blueprint.write_text("".join(line for line in BLUEPRINT.splitlines(True) if "storage:" not in line))
    said = up.run("apply", up.blueprint, "--yes", errors=True)
    assert "w01: an earlier change of networks was taken back by the node: nobody confirmed it" in said
    for node in ("head", "w01"):
        up.becomes(node, "ls /sys/class/net /etc/systemd/network | grep -c bond1 || :", "0")
    up.run("plan", up.blueprint)
    assert up.on("head", "sudo -iu ada srun hostname") == "w01\n"


def test_a_machine_that_lost_its_power_has_its_bond_again(up: Rehearsal) -> None:
    up.on("w01", "sync")
    up.cut_power("w01")
    up.run("rehearse", "up", up.blueprint)
    up.becomes("w01", ADDRESS.format("bond0"), own("w01"))
    up.becomes("w01", "systemctl is-system-running | grep -c starting || :", "0")  # one can log in before all is
    up.run("plan", up.blueprint)


def with_other(up: Rehearsal, *changes: tuple[str, str]) -> None:
    """The blueprint with these words instead of those."""
    said = BLUEPRINT
    for old, new in changes:
        assert old in said
        said = said.replace(old, new)
    up.blueprint.write_text(said)
