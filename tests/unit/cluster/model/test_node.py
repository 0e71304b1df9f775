"""A node's CPUs and its host key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.plan.conftest import node

NODE = node("w1", "worker", "10.0.0.2")


@pytest.mark.parametrize(
    ("keys", "best"),
    [
        ((), ""),
        (("ssh-rsa A", "ssh-ed25519 B"), "ssh-ed25519 B"),
        (("ssh-rsa A", "ecdsa-sha2-nistp384 C", "ecdsa-sha2-nistp256 D"), "ecdsa-sha2-nistp256 D"),
        (("ssh-ed25519 A", "ssh-ed25519 B"), "ssh-ed25519 A"),
        (("ssh-dss A",), ""),
    ],
)
def test_the_best_host_key_is_of_the_best_type(keys: tuple[str, ...], best: str) -> None:
    machine = replace(NODE, host_keys=keys)
    assert (machine.best_host_key, machine.certified) == (best, bool(keys))


def test_cpus_are_hardware_threads() -> None:
    assert replace(NODE, sockets=2, cores_per_socket=8, threads_per_core=2).cpus == 32
