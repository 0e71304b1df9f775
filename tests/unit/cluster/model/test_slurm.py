"""Slurm of a cluster: partitions, and what their topology keeps apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcforge.cluster.model.slurm import Partition, Slurm, SlurmAssociation
from hpcforge.design.fabric.topology_conf import Block, SlurmSwitch, Topology

HALVES = (SlurmSwitch("a", nodes=("w1", "w2")), SlurmSwitch("b", nodes=("w3", "w4")))  # which nothing joins
TREES = Topology("tree", None, False, HALVES, (), ())
BLOCKS = Topology("block", None, False, (), (Block("x", ("w1", "w2")), Block("y", ("w3", "w4"))), (2,))
ALL = ("w1", "w2", "w3", "w4")
MAIN = Partition("main", ALL, True, "INFINITE")


def slurm(*partitions: Partition, **more: object) -> Slurm:
    return replace(Slurm("head", (), partitions), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partition", "settings", "parts"),
    [
        (MAIN, (), 2),
        (replace(MAIN, topology="flat"), (), 1),
        (MAIN, (("TopologyParam", "TopoOptional"),), 1),  # it counts for jobs that ask for it
    ],
)
def test_a_tree_without_a_top_keeps_its_parts_apart(
    partition: Partition, settings: tuple[tuple[str, str], ...], parts: int
) -> None:
    cluster = slurm(partition, topologies=(TREES,), settings=settings)
    assert len(cluster.parts(ALL, partition)) == parts
    assert (cluster.cut(ALL) is None) == (parts == 1)


def test_nodes_are_cut_where_no_partition_that_has_them_joins_them() -> None:
    cluster = slurm(MAIN, replace(MAIN, name="flat", topology="flat"), topologies=(TREES,))
    assert cluster.cut(ALL) is None
    assert slurm(MAIN, topologies=(TREES,)).cut(("w1", "w2")) is None
    assert slurm(MAIN, topologies=(TREES,)).cut(("w1", "w9")) is None  # of no partition


def test_a_block_has_its_nodes() -> None:
    cluster = slurm(MAIN, topologies=(TREES, BLOCKS))
    assert [sorted(cluster.block(name)) for name in ("w3", "w9")] == [["w3", "w4"], []]


@pytest.mark.parametrize(
    ("partition", "names"),
    [
        (MAIN, ()),
        (replace(MAIN, qos="high"), ("high",)),
        (replace(MAIN, settings=(("AllowQos", "low,High,normal"),)), ("high", "low")),
        (replace(MAIN, settings=(("DenyQOS", "low"),)), ("low",)),
    ],
)
def test_slurmctld_needs_the_qos_that_partitions_name(partition: Partition, names: tuple[str, ...]) -> None:
    made = tuple(SlurmAssociation(name, "") for name in ("qos high", "qos low", "account low"))
    assert slurm(partition, associations=made).partition_qos == names


def test_a_partition_that_keeps_jobs_out_is_selective() -> None:
    chosen = {
        "AllowAccounts": "physics", "RootOnly": "yes", "minnodes": "4", "AllowGroups": "ALL", "ReqResv": "NO",
        "MaxNodes": "UNLIMITED", "PriorityTier": "20",
    }  # fmt: skip
    of_each = {name: Partition("main", (), False, "INFINITE", settings=((name, chosen[name]),)) for name in chosen}
    assert [name for name, partition in of_each.items() if partition.selective] == [
        "AllowAccounts", "RootOnly", "minnodes",
    ]  # fmt: skip
