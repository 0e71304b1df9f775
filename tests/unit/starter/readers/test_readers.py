"""Machines of a site's files: what is read, and what is refused."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import SiteMachine, StarterError
from hpcforge.starter.readers import read, source_of
from tests.unit.starter.readers.test_ansible import INI, YAML
from tests.unit.starter.readers.test_hosts import HOSTS

SLURM = """\
ClusterName=old
SlurmctldHost=ctl1(10.3.0.2)
NodeName=DEFAULT Sockets=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2063000
NodeName=gpu[01-02] NodeAddr=10.3.1.[1-2] Gres=nvme:1,gpu:h100:8(S:0-1) \\
  Feature=x
NodeName=cpu1 NodeAddr=10.3.2.1 CPUs=64 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=256000
"""


def test_slurm_says_hardware_and_gpus() -> None:
    first, second, cpu, head = read(SLURM).machines
    assert first == SiteMachine("gpu01", "10.3.1.1", ("worker",), 2, 56, 2, 2014, "h100", 8, (), features=("x",))
    assert (second.name, second.address) == ("gpu02", "10.3.1.2")
    assert (cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core, cpu.gpus) == (2, 32, 1, 0)
    assert (head.name, head.address, head.functions) == ("ctl1", "10.3.0.2", ("head",))


def test_only_addresses_are_addresses() -> None:
    """What stands in their place becomes no part of the inventory."""
    hostile = """w1: {hosts: {a1: {ansible_host: "10.0.0.1, host_keys: ['x']"}, a2: {ansible_host: a2.example.org}}}"""
    assert [machine.address for machine in read(hostile, "ansible").machines] == [None, None]
    assert read("SlurmctldHost=ctl(ctl-mgmt)\nNodeName=w1 CPUs=2 Weight=!vault\n").machines[-1].address is None
    assert read("all:\n  hosts:\n    w1: {since: 2024-13-45, secret: !vault x}\n").machines[0].name == "w1"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (SLURM, "slurm"),
        (HOSTS, "hosts"),
        ("\ufeff::1\tlocalhost\r\n10.0.0.1\tw1\r\n", "hosts"),
        (INI, "ansible"),
        (YAML, "ansible"),
        ('{"all": {"hosts": ["w1"]}}', "ansible"),
        ("10.0.0.1\n10.0.0.2\n", "ansible"),
        ("10.0.0.1 ansible_user=ops\n", "ansible"),
        ("a: &a [*a]\n", "ansible"),
    ],
)
def test_a_file_is_recognised(text: str, kind: str) -> None:
    assert source_of(text) == kind


def test_what_is_left_out_is_shown_in_part_where_it_is_long() -> None:
    [left_out] = read("10.0.0.1 n1\n10.0.0.2 sw1 " + "x" * 5000 + "\n").left_out
    assert len(left_out.text) == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("10.0.0.1 a\n10.0.0.2 a\n", "a is there twice"),
        ("10.0.0.1 ../etc\n", "not a host name"),
        ("NodeName=w[1-99999] CPUs=1\n", "more than 10000 machines"),
        ("all: [1, 2]\nx: {hosts: [a, }\n", "not YAML"),
        ("all:\n  hosts:\n    '{{ 7 * 7 }}':\n", "not a host name"),
        (
            "".join(f"a{number}[1-131072]\n" for number in range(50)).replace("a0", "[g]\na0", 1),
            "more than 10000 machines",
        ),
    ],
)
def test_a_wrong_file_is_refused(text: str, said: str) -> None:
    with pytest.raises(StarterError, match=said):
        read(text)
