"""Machines of a site's files: what is read, and what is refused."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import SiteMachine, StarterError
from hpcforge.starter.readers import read, source_of

SLURM = """\
ClusterName=old
SlurmctldHost=ctl1(10.3.0.2)
NodeName=DEFAULT Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2063000
NodeName=gpu[01-02] NodeAddr=10.3.1.[1-2] Gres=nvme:1,gpu:h100:8(S:0-1) \\
  Feature=x
NodeName=cpu1 NodeAddr=10.3.2.1 CPUs=64 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000
"""
HOSTS = """\
127.0.0.1 localhost
::1 localhost
10.4.0.10 head1 head1.example.org
10.4.0.21 w1.example.org   # spare
10.4.0.30 login
"""
INI = """\
[slurm_controller]
ctl ansible_host=10.5.0.1
[gpu]
g[01:03]
g03 ansible_host=10.5.1.3 ansible_user=root
[gpu:vars]
x=1
"""
YAML = """\
all:
  children:
    workers:
      hosts:
        a1: {ansible_host: 10.6.0.1}
        a2:
    nfs:
      hosts: {store: }
"""


def test_slurm_says_hardware_and_gpus() -> None:
    first, second, cpu, head = read(SLURM).machines
    assert first == SiteMachine("gpu01", "10.3.1.1", ("worker",), 2, 56, 2, 2014, "h100", 8, ())
    assert (second.name, second.address) == ("gpu02", "10.3.1.2")
    assert (cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core, cpu.gpus) == (2, 32, 1, 0)
    assert (head.name, head.address, head.functions) == ("ctl1", "10.3.0.2", ("head",))


def test_names_say_functions_of_hosts() -> None:
    assert [(machine.name, machine.functions) for machine in read(HOSTS).machines] == [
        ("head1", ("head",)),
        ("w1", ("worker",)),
        ("login", ("login",)),
    ]


def test_groups_of_ansible_say_functions() -> None:
    machines = {machine.name: machine for machine in read(INI).machines}
    assert list(machines) == ["ctl", "g01", "g02", "g03"]
    assert machines["ctl"].functions == ("head",)
    assert machines["g03"].address == "10.5.1.3"
    assert [(machine.name, machine.address, machine.functions) for machine in read(YAML).machines] == [
        ("a1", "10.6.0.1", ("worker",)),
        ("a2", None, ("worker",)),
        ("store", None, ("storage",)),
    ]


def test_only_addresses_are_addresses() -> None:
    """What stands in their place becomes no part of the inventory."""
    hostile = """w1: {hosts: {a1: {ansible_host: "10.0.0.1, host_keys: ['x']"}, a2: {ansible_host: a2.example.org}}}"""
    assert [machine.address for machine in read(hostile, "ansible").machines] == [None, None]
    assert read("SlurmctldHost=ctl(ctl-mgmt)\nNodeName=w1 CPUs=2 Weight=!vault\n").machines[-1].address is None
    assert read("all:\n  hosts:\n    w1: {since: 2024-13-45, secret: !vault x}\n").machines[0].name == "w1"


@pytest.mark.parametrize(("text", "kind"), [(SLURM, "slurm"), (HOSTS, "hosts"), (INI, "ansible"), (YAML, "ansible")])
def test_a_file_is_recognised(text: str, kind: str) -> None:
    assert source_of(text) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no machine was found"),
        ("10.0.0.1 a\n10.0.0.2 a\n", "a is there twice"),
        ("10.0.0.1 ../etc\n", "not a host name"),
        ("NodeName=w[1-99999] CPUs=1\n", "more than 10000 machines"),
        ("all: [1, 2]\nx: {hosts: [a, }\n", "not YAML"),
        ("all:\n  hosts:\n    '{{ 7 * 7 }}':\n", "not a host name"),
        ("all: &a\n  hosts: {a1: }\nb: *a\n", "aliases"),
        (
            "".join(f"a{number}[1-131072]\n" for number in range(50)).replace("a0", "[g]\na0", 1),
            "more than 10000 machines",
        ),
    ],
)
def test_a_wrong_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(StarterError, match=said):
        read(text)
