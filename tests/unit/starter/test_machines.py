"""Machines of a site's files: what is read, and what is refused."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import (
    FoundMachine,
    StarterError,
    distinct,
    guessed_head,
    of_facts,
    read,
    source_of,
    with_head,
)

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
    first, second, cpu, head = read(SLURM)
    assert first == FoundMachine("gpu01", "10.3.1.1", ("worker",), 2, 56, 2, 2014, "h100", 8, ())
    assert (second.name, second.address) == ("gpu02", "10.3.1.2")
    assert (cpu.sockets, cpu.cores_per_socket, cpu.threads_per_core, cpu.gpus) == (2, 32, 1, 0)
    assert (head.name, head.address, head.functions) == ("ctl1", "10.3.0.2", ("head",))


def test_names_say_functions_of_hosts() -> None:
    assert [(machine.name, machine.functions) for machine in read(HOSTS)] == [
        ("head1", ("head",)),
        ("w1", ("worker",)),
        ("login", ("login",)),
    ]


def test_groups_of_ansible_say_functions() -> None:
    machines = {machine.name: machine for machine in read(INI)}
    assert list(machines) == ["ctl", "g01", "g02", "g03"]
    assert machines["ctl"].functions == ("head",)
    assert machines["g03"].address == "10.5.1.3"
    assert [(machine.name, machine.address, machine.functions) for machine in read(YAML)] == [
        ("a1", "10.6.0.1", ("worker",)),
        ("a2", None, ("worker",)),
        ("store", None, ("storage",)),
    ]


def test_only_addresses_are_addresses() -> None:
    """What stands in their place becomes no part of the inventory."""
    hostile = """w1: {hosts: {a1: {ansible_host: "10.0.0.1, host_keys: ['x']"}, a2: {ansible_host: a2.example.org}}}"""
    assert [machine.address for machine in read(hostile, "ansible")] == [None, None]
    assert read("SlurmctldHost=ctl(ctl-mgmt)\nNodeName=w1 CPUs=2 Weight=!vault\n")[-1].address is None
    assert read("all:\n  hosts:\n    w1: {since: 2024-13-45, secret: !vault x}\n")[0].name == "w1"


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


FACTS = {
    "hostname": "GPU07.site.example",
    "memory_kib": 2_113_000_000,
    "cpus": 224,
    "gpus": {"fake": 0, "nvidia": 8, "amd": 0},
    "nvml": {"gpus": [{"model": "NVIDIA H100 80GB HBM3"}] * 8},
    "os_id": "debian",
    "os_release": "13",
}
TOPOLOGY = "# comment\n" + "".join(f"{cpu // 56 % 2},{cpu % 112},{cpu}\n" for cpu in range(224)) + "-,-,x\n"


def test_a_machine_is_read_from_its_facts() -> None:
    machine = of_facts("10.3.0.7", FACTS, TOPOLOGY, ("ssh-ed25519 AAAA",))
    assert (machine.name, machine.address, machine.functions) == ("gpu07", "10.3.0.7", ("worker",))
    assert (machine.sockets, machine.cores_per_socket, machine.threads_per_core) == (2, 56, 2)
    assert (machine.memory_gib, machine.gpus, machine.gpu) == (2016, 8, "NVIDIA H100 80GB HBM3")
    assert machine.system == ("debian", "13")
    assert machine.guesses == ("functions",)


def test_a_machine_that_says_little_is_taken_with_what_it_says() -> None:
    machine = of_facts("10.3.0.8", {"hostname": "../evil\x1b[2J", "memory_kib": 1}, "0,0,0,0\nno", ())
    assert machine.name == "node-10-3-0-8"
    assert (machine.sockets, machine.cores_per_socket, machine.memory_gib, machine.gpus) == (None, None, 1, 0)


def test_a_head_by_its_own_name_is_a_guess_until_it_is_chosen() -> None:
    machines = [
        of_facts(f"10.3.0.{host}", FACTS | {"hostname": name}, TOPOLOGY, ())
        for host, name in enumerate(("gpu06", "head", "head2"), 6)
    ]
    guess = guessed_head(machines)
    assert (guess.name, guess.guesses) == ("head", ("functions",))
    chosen = with_head(machines, "gpu06")
    assert [machine.functions for machine in chosen] == [("head", "worker"), ("worker",), ("worker",)]
    assert (guessed_head(chosen).name, guessed_head(chosen).guesses) == ("gpu06", ())
    with pytest.raises(StarterError, match="none of these machines"):
        with_head(machines, "gpu99")


def test_machines_of_one_name_are_named_by_their_addresses() -> None:
    machines = [
        FoundMachine("debian", "10.3.0.6"),
        FoundMachine("head", "10.3.0.7"),
        FoundMachine("debian", "10.3.0.8"),
    ]
    assert [machine.name for machine in distinct(machines)] == ["node-10-3-0-6", "head", "node-10-3-0-8"]
