"""Topologies of partitions that nothing gives, and NVLink domains of racks that are not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.cluster.load import load
from hpcforge.cluster.model import Slurm

TEXT = """\
schema: 1
name: near
domain: near.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.1.0.1}
  t[01-04]: {functions: [worker], hardware: tray, addresses: "10.1.0.[11-14]"}
hardware:
  tray: {like: generic-1u, sockets: 1, cores_per_socket: 32, threads_per_core: 2, memory_gib: 256}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "14"}}
slurm:
  controller: head
  partitions:
    main: {nodes: all, default: true}
    near: {nodes: "t[01-03]", topology: block}
users: {tests: {uid: 2001}}
"""
FABRIC = """\
fabrics:
  compute: {kind: infiniband, rate_gbps: 400, topology: fat-tree, switch: qm9700, nodes: worker,
            subnet_manager: external}
"""
RACKS = "site: {racks: {'r[1-2]': {model: rack-48u}}}\n"


def near(tmp_path: Path, text: str) -> Slurm:
    path = tmp_path / "near.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path).cluster.slurm


def refused(tmp_path: Path, text: str) -> tuple[str, int | None, str | None]:
    """The message, line and hint of the only error."""
    with pytest.raises(InvalidInput) as caught:
        near(tmp_path, text)
    [error] = [found for found in caught.value.diagnostics if found.severity == "error"]
    return error.message, error.line, error.hint


def test_a_partition_has_a_topology_of_its_own(tmp_path: Path) -> None:
    slurm = near(tmp_path, TEXT + FABRIC)
    assert [topology.plugin for topology in slurm.topologies] == ["tree", "block"]
    assert [partition.topology for partition in slurm.partitions] == [None, "block"]
    assert slurm.topologies[1].blocks[0].nodes == ("t01", "t02", "t03")


def test_the_default_is_not_named_again(tmp_path: Path) -> None:
    slurm = near(tmp_path, TEXT.replace("topology: block", "topology: tree") + FABRIC)
    assert [topology.plugin for topology in slurm.topologies] == ["tree"]
    assert [partition.topology for partition in slurm.partitions] == [None, None]


def test_blocks_of_no_fabric_are_refused(tmp_path: Path) -> None:
    message, line, hint = refused(tmp_path, TEXT)
    assert message == "the workers are on no InfiniBand, RoCE or Omni-Path fabric that gives a block"
    assert line == TEXT[: TEXT.index("topology: block")].count("\n") + 1
    assert hint == "name their fabric in `slurm.topology.fabric`, or remove this"
    assert near(tmp_path, TEXT.replace("topology: block", "topology: flat")).topologies == ()


def test_nvlink_domains_are_racks(tmp_path: Path) -> None:
    text = TEXT.replace("memory_gib: 256", "memory_gib: 256, nvlink_domain: rack")
    message, line, hint = refused(tmp_path, text.replace("topology: block", "topology: flat"))
    assert message == "the nodes of a rack share an NVLink domain, and the rack of t[01-04] is not set"
    assert (line, hint) == (7, "add `rack` to the group, and the racks to `site.racks`")
    slurm = near(tmp_path, text.replace("hardware: tray,", "hardware: tray, rack: 'r[1-2]', u: [1, 3],") + RACKS)
    flat, block = slurm.topologies
    assert (flat.plugin, [partition.topology for partition in slurm.partitions]) == ("flat", [None, "block"])
    assert [(each.name, each.nodes) for each in block.blocks] == [
        ("nvlink-r1", ("t01", "t02")),
        ("nvlink-r2", ("t03",)),
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("PreemptMode: REQUEUE", "PreemptMode REQUEUE needs a PreemptType other than preempt/none"),
        ("preempttype: preempt/none, PreemptMode: CANCEL", "PreemptMode CANCEL needs a PreemptType other than"),
        ("PreemptType: preempt/partition_prio", "preempt/partition_prio needs a PreemptMode that is not OFF"),
        ("PreemptType: PREEMPT/QOS, PreemptMode: GANG", "preempt/qos needs a PreemptMode that is not OFF"),
        ("PreemptType: preempt/qos, PreemptMode: SUSPEND", "PreemptMode SUSPEND needs GANG"),
        ("FirstJobId: 500, MaxJobId: 400", "MaxJobId is below FirstJobId"),
        ("MaxJobId: 0", "MaxJobId is below FirstJobId"),
    ],
)
def test_settings_with_which_slurmctld_does_not_start_together(tmp_path: Path, settings: str, message: str) -> None:
    text = TEXT.replace(", topology: block", "")
    text = text.replace("  controller: head\n", f"  controller: head\n  settings: {{{settings}}}\n")
    assert message in refused(tmp_path, text)[0]


@pytest.mark.parametrize(
    ("settings", "qos"),
    [
        ("PreemptType: preempt/partition_prio, PreemptMode: 'GANG,SUSPEND'", ""),
        ("PreemptType: preempt/none", ""),
        ("PreemptMode: GANG", ""),
        ("PreemptMode: 'OFF'", ""),
        ("FirstJobId: 500", ""),
        ("PreemptMode: CANCEL", "  qos: {high: {preempt: [low]}, low: {}}\n"),  # hpcforge writes PreemptType
        ("PreemptExemptTime: '00:10:00'", "  qos: {high: {preempt: [low]}, low: {}}\n"),
    ],
)
def test_settings_that_go_together(tmp_path: Path, settings: str, qos: str) -> None:
    text = TEXT.replace(", topology: block", "").replace("time: {on: head}", "time: {on: head}, accounting: {on: head}")
    near(tmp_path, text.replace("  controller: head\n", f"  controller: head\n  settings: {{{settings}}}\n{qos}"))


APART = """fabrics:
  compute: {kind: infiniband, rate_gbps: 400, topology: fat-tree, switch: qm9700, nodes: "t[01-02]",
            subnet_manager: external}
  KIND
"""
INFINIBAND = """older: {kind: infiniband, rate_gbps: 200, topology: fat-tree, switch: qm9700, nodes: "t[03-04]",
          subnet_manager: external}"""
ETHERNET = "lan: {kind: ethernet, rate_gbps: 25, topology: fat-tree, switch: sn2410, nodes: all}"
TESTED = 'acceptance: {run_as: tests, tests: {mpi_allreduce: {nodes: [all, "t[03-04]"]}}}\n'


def warned(tmp_path: Path, text: str) -> list[tuple[str, int | None]]:
    """Warnings of the topology, each with its line."""
    path = tmp_path / "near.yaml"
    path.write_text(text.replace('near: {nodes: "t[01-03]", topology: block}', 'near: {nodes: "t[01-02]"}'))
    found = [each for each in load(path).found if "topology of Slurm" in each.message]
    assert {each.severity for each in found} <= {"warning"}
    return [(each.message, each.line) for each in found]


def test_a_partition_that_is_cut_is_warned_of_and_so_are_its_tests(tmp_path: Path) -> None:
    text = TEXT + TESTED + APART.replace("KIND", INFINIBAND)
    apart = "t[01-02] and t[03-04] are apart in the topology of Slurm: no job has nodes of two"
    assert warned(tmp_path, text) == [
        (apart, 16),
        (f"`mpi_allreduce` will not run on all these nodes: {apart}", 19),
    ]
    for without in ("topology: {plugin: flat}", "settings: {TopologyParam: TopoOptional}"):
        assert warned(tmp_path, text.replace("slurm:\n", f"slurm:\n  {without}\n")) == []


def test_workers_without_rdma_cut_no_partition(tmp_path: Path) -> None:
    assert warned(tmp_path, TEXT + TESTED + APART.replace("KIND", ETHERNET)) == []
