"""Which ports are tried: Slurm's settings count, and a node does not try its own services."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.run import worker_ports
from tests.support.three_nodes import CLUSTER


@pytest.mark.parametrize(
    ("settings", "slurmd", "slurmctld"),
    [
        ((), 6818, 6817),
        ((("SlurmdPort", "7003"), ("SlurmctldPort", "7000-7002")), 7003, 7000),
        ((("slurmdport", "7003"),), 7003, 6817),
        ((("SlurmdPort", "odd"),), 6818, 6817),
    ],
)
def test_a_setting_of_the_blueprint_changes_a_port(
    settings: tuple[tuple[str, str], ...], slurmd: int, slurmctld: int
) -> None:
    cluster = replace(CLUSTER, slurm=replace(CLUSTER.slurm, settings=settings))
    head, worker = cluster.by_name["head"].address, cluster.by_name["w1"].address
    assert worker_ports.slurmd(cluster, "w1") == f"{worker}:{slurmd}"
    assert worker_ports.services(cluster, "w1")[f"{head}:{slurmctld}"] == "slurmctld on head"
    (command,) = worker_ports.asks(cluster).values()
    assert f"{worker}:{slurmd}" in command


def test_why_by_worker() -> None:
    port = worker_ports.slurmd(CLUSTER, "w2")
    answers = {worker_ports.SLURMD_PORTS: f"{port} connection refused\n10.9.9.9:1 odd\nodd\n"}
    why = f"head cannot connect to its slurmd at {port}: connection refused"
    assert worker_ports.silent(CLUSTER, answers) == {"w2": why}
    assert worker_ports.silent(CLUSTER, {}) == {}
    assert worker_ports.failures("a:1 b c\n") == {"a:1": "b c"}
    assert worker_ports.probe(["a:1"])[-1] == "a:1"
    assert worker_ports.slurm_port(CLUSTER, "SlurmdPort", 6818) == 6818
