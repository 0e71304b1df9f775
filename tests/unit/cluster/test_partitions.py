"""What partitions and nodes have of a site's settings: names, values, and the lines of slurm.conf."""

from __future__ import annotations

from pathlib import Path

from hpcforge.cluster.load import load
from hpcforge.cluster.machines import groups, machine
from hpcforge.cluster.model import Cluster
from hpcforge.cluster.select import select

TEXT = """\
schema: 1
name: lake
domain: lake.example.org
access: {user: ops}
nodes:
  head: {functions: [head], hardware: node-a, addresses: 10.1.0.1}
  thin[1-2]:
    {functions: [worker], hardware: node-a, addresses: "10.1.0.[11-12]", features: [ib_hdr, "CPU_GEN:RME"]}
  fat1: {functions: [worker], hardware: node-a, addresses: 10.1.0.21, weight: 50}
hardware: {node-a: {sockets: 2, cores_per_socket: 8, threads_per_core: 2, memory_gib: 64}}
networks: {mgmt: {cidr: 10.1.0.0/24}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "12"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  partitions:
    Week.long: {nodes: "thin[1-2],fat1", default: true}
    Express:
      nodes: thin
      settings:
        PriorityTier: 20
users: {tests: {uid: 2001}}
"""


def lake(tmp_path: Path, text: str = TEXT) -> Cluster:
    path = tmp_path / "lake.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path).cluster


def test_partitions_and_nodes_have_a_sites_settings(tmp_path: Path) -> None:
    cluster = lake(tmp_path)
    assert [(each.name, each.settings) for each in cluster.slurm.partitions] == [
        ("Week.long", ()),
        ("Express", (("PriorityTier", "20"),)),
    ]
    assert [(node.features, node.weight) for node in cluster.workers[1:]] == [
        (("ib_hdr", "CPU_GEN:RME"), None),
        ((), 50),
    ]
    assert machine(cluster.by_name["fat1"])["weight"] == 50


def test_names_with_capitals_and_points_are_node_sets_and_groups(tmp_path: Path) -> None:
    cluster = lake(tmp_path)
    assert select(cluster, ["Week.long!thin1"], ["Express,head"]) == ("fat1",)
    assert groups(cluster)["partition_Week_long"] == ("thin1", "thin2", "fat1")
