"""Whether sshd shows the certificate: it is asked for the type of the key that is certified, and for no other."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable

import pytest

from hpcforge.cluster.model import HOST_KEY_TYPES, Cluster
from hpcforge.plan.desired import Desired


def asked(cluster: Cluster, compiled: Callable[[Cluster], Desired], *keys: str) -> list[tuple[str, ...]]:
    nodes = tuple(dataclasses.replace(node, host_keys=keys) for node in cluster.nodes)
    wanted = compiled(dataclasses.replace(cluster, nodes=nodes)).nodes["w01"]
    return [check.command for one in wanted if one.role == "ssh_trust" for check in one.checks]


def test_sshd_is_asked_for_what_is_certified(rehearsal: Cluster, compiled: Callable[[Cluster], Desired]) -> None:
    for best in range(len(HOST_KEY_TYPES)):
        keys = [f"{kind} AAAA comment" for kind in reversed(HOST_KEY_TYPES[best:])]
        [command] = asked(rehearsal, compiled, *keys)
        assert command == ("ssh-keyscan", "-c", "-t", HOST_KEY_TYPES[best], "-T", "20", "10.77.0.11")
    assert asked(rehearsal, compiled) == []  # no key is known, and so none is certified


@pytest.mark.parametrize("kind", HOST_KEY_TYPES)
def test_ssh_keyscan_knows_each_type_by_that_name(kind: str) -> None:
    scan = ["ssh-keyscan", "-c", "-t", kind, "-p", "1", "-T", "1", "127.0.0.1"]
    assert "Unknown key type" not in subprocess.run(scan, capture_output=True, text=True, check=False).stderr
