"""A real slurmctld loads the topology that the role makes of a fabric, and says what it understood."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcforge import bundled
from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.hostlist import expand
from hpcforge.cluster.load import load
from hpcforge.kinds.files import File
from hpcforge.plan.compile import compile_desired
from hpcforge.plan.roles.role import load_roles
from hpcforge.slurm.job_end import is_unplaceable
from tests.stories.fabric.conftest import Nodes

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: near
domain: near.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: generic-1u}
  cpu[01-02]: {functions: [worker], hardware: rehearsal-node, addresses: "LOW.[41-42]"}
  gpu[001-072]: {functions: [worker], hardware: gpu-node, addresses: "HIGH.[1-72]"}
hardware:
  gpu-node: {like: rehearsal-node, ports: [{count: 2, rate_gbps: 400, kind: infiniband}]}
fabrics:
  compute: {kind: infiniband, rate_gbps: 400, topology: rail-optimised, rails: 2, switch: qm9700,
            nodes: "gpu[001-072]", subnet_manager: external}
networks:
  mgmt: {cidr: LOW.0/23, nodes: all}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "RELEASE"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  topology: {plugin: PLUGIN}
  partitions:
    main: {nodes: all, default: true}
users: {ada: {uid: 2001}}
"""
UNITS = {"compute-unit-001": "gpu[001-032]", "compute-unit-002": "gpu[033-064]", "compute-unit-003": "gpu[065-072]"}


def controller(start: Callable[..., Nodes], release: str) -> Nodes:
    nodes = start(f"slurm{'abc'[int(release) - 12]}", "head", release=release)
    nodes.install("head", "slurmctld", "slurm-client", "munge")
    return nodes


@pytest.fixture(scope="module", params=["12", "13"])
def head(request: pytest.FixtureRequest, start: Callable[..., Nodes]) -> Nodes:
    return controller(start, request.param)


def configured(head: Nodes, folder: Path, plugin: str, partition: str = "") -> None:
    """Write what the role wants in /etc/slurm, and start slurmctld afresh."""
    path = folder / "near.yaml"
    low, high = head.lab.network_address.network_address, head.lab.network_address.network_address + 256
    text = BLUEPRINT.replace("RELEASE", head.lab.release).replace("PLUGIN", plugin)
    for word, first in (("LOW", low), ("HIGH", high)):
        text = text.replace(word, str(first).rpartition(".")[0])
    path.write_text(text.replace("\nusers:", f"\n{partition}\nusers:"))
    cluster = load(path, head.lab.inventory, judged=True).cluster
    desired = compile_desired(cluster, load_roles(bundled.root() / "roles"), {"munge_key": None})
    [wanted] = [wanted for wanted in desired.nodes["head"] if wanted.role == "slurm_controller"]
    head.run(
        "head", "systemctl stop slurmctld; rm -rf /etc/slurm/* /var/lib/slurm/slurmctld /var/log/slurm", check=False
    )
    for file in wanted.of(File):
        if file.path.startswith("/etc/slurm/"):
            head.write("head", file.path, desired.texts[str(file.digest)])
    head.run(
        "head",
        "install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/log/slurm && systemctl start munge slurmctld && "
        "for i in $(seq 400); do scontrol ping | grep -q 'is UP' && exit 0; sleep 0.2; done; "
        "cat /var/log/slurm/slurmctld.log; journalctl -u slurmctld | tail; exit 1",
    )


def told(head: Nodes, line: str, topology: str = "") -> dict[str, dict[str, str]]:
    """What `scontrol show topology` says, by name."""
    text = head.run("head", f"scontrol show topology {topology}")
    rows = [dict(re.findall(r"(\w+)=(\S*)", row)) for row in text.splitlines()]
    return {row[line]: row for row in rows if line in row}


def problems(head: Nodes) -> list[str]:
    log = head.run("head", "cat /var/log/slurm/slurmctld.log")
    return [line for line in log.splitlines() if re.search(r"topology|switch|block", line) and "error" in line.lower()]


def test_tree(head: Nodes, tmp_path: Path) -> None:
    configured(head, tmp_path, "tree")
    switches = told(head, "SwitchName")
    for name, nodes in UNITS.items():
        assert switches[name]["Level"] == "0"
        assert set(expand(switches[name]["Nodes"])) == set(expand(nodes))
    assert switches["compute-spine"]["Level"] == "1"
    assert expand(switches["compute-spine"]["Switches"]) == tuple(UNITS)
    assert set(expand(switches["compute-spine"]["Nodes"])) == set(expand("gpu[001-072]"))
    assert switches["compute-elsewhere"]["Nodes"] == "cpu[01-02]"
    assert set(expand(switches["compute-and-others"]["Nodes"])) == set(expand("gpu[001-072],cpu[01-02]"))
    assert problems(head) == []


def test_a_job_over_joined_switches_is_taken_and_else_refused(head: Nodes, tmp_path: Path) -> None:
    """No node is up: Slurm judges the request alone. test_mixed_site.py has the same with nodes, by Slurm 22.05."""
    if head.lab.release == "12":
        return
    configured(head, tmp_path, "tree")
    over_all = "runuser -u nobody -- sbatch -N74 -o /dev/null --wrap true 2>&1"
    assert head.run("head", over_all).startswith("Submitted batch job ")
    cut = "sed -i /and-others/d /etc/slurm/topology.conf && systemctl restart slurmctld"
    answers = "until scontrol ping | grep -q UP; do sleep 0.2; done"
    head.run("head", f"{cut} && timeout 60 sh -c '{answers}'")
    assert is_unplaceable(head.run("head", over_all, check=False))


def test_flat(head: Nodes, tmp_path: Path) -> None:
    configured(head, tmp_path, "flat")
    assert told(head, "SwitchName") == {}


def test_block(head: Nodes, tmp_path: Path) -> None:
    if head.lab.release == "12":  # whose Slurm has no topology/block
        with pytest.raises(InvalidInput, match=r"SOFTWARE-080: topology/block and Slurm 22\.05 of debian 12"):
            configured(head, tmp_path, "block")
        return
    configured(head, tmp_path, "block")
    blocks = told(head, "BlockName")
    for name, nodes in UNITS.items():
        assert set(expand(blocks[name]["Nodes"])) == set(expand(nodes))
        assert blocks[name]["BlockSize"] == "2"  # as many as cpu[01-02]: Slurm refuses a block smaller than that
    assert problems(head) == []
