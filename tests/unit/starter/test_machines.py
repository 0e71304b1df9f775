"""Machines of a site's files: what is read, and what is refused."""

from __future__ import annotations

import pytest

from hpcforge.starter.machines import (
    SiteMachine,
    StarterError,
    distinct,
    functions_by_name,
    guessed_head,
    of_facts,
    with_head,
)

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
    with pytest.raises(StarterError, match="not among these machines"):
        with_head(machines, "gpu99")


def test_machines_of_one_name_are_named_by_their_addresses() -> None:
    machines = [
        SiteMachine("debian", "10.3.0.6"),
        SiteMachine("head", "10.3.0.7"),
        SiteMachine("debian", "10.3.0.8"),
    ]
    assert [machine.name for machine in distinct(machines)] == ["node-10-3-0-6", "head", "node-10-3-0-8"]


def test_a_name_says_a_function_by_its_beginning_or_a_word_after_a_hyphen() -> None:
    heads = ("head1", "mgt", "xcat", "sms", "control", "admin01", "hpc-mgmt", "demo-control", "demo-control-0")
    assert {functions_by_name(name, "") for name in heads} == {("head",)}
    assert functions_by_name("demo-login-12", "") == ("login",)
    assert functions_by_name("fs-nfs", "") == ("storage",)
    assert {functions_by_name(name, "") for name in ("node01-mgmt", "n1", "gpu-a", "overhead")} == {None}
