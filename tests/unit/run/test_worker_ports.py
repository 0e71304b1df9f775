"""Which ports are tried: a node does not try its own services."""

from __future__ import annotations

from hpcforge.run import worker_ports
from tests.support.three_nodes import CLUSTER


def test_a_node_tries_what_other_nodes_serve() -> None:
    head, worker = CLUSTER.by_name["head"].address, CLUSTER.by_name["w1"].address
    of_worker = worker_ports.services(CLUSTER, "w1")
    assert of_worker[f"{head}:6817"] == "slurmctld on head"
    assert of_worker[f"{head}:123/udp"] == "the time server on head"
    assert worker_ports.services(CLUSTER, "head") == {f"{head}:6817": "slurmctld on head"}
    command = worker_ports.asks(CLUSTER)[worker_ports.SLURMD_PORTS]
    assert f"{worker}:6818" in command


def test_why_by_worker() -> None:
    port = worker_ports.slurmd(CLUSTER, "w2")
    answers = {worker_ports.SLURMD_PORTS: f"{port} connection refused\n10.9.9.9:1 odd\nodd\n"}
    why = f"head cannot connect to its slurmd at {port}: connection refused"
    assert worker_ports.silent(CLUSTER, answers) == {"w2": why}
    assert worker_ports.silent(CLUSTER, {}) == {}
    assert worker_ports.failures("a:1 b c\n") == {"a:1": "b c"}
    assert worker_ports.probe(["a:1"])[-1] == "a:1"
