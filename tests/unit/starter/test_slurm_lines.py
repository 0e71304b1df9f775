"""What a draft has of Slurm."""

from __future__ import annotations

from hpcforge.starter.draft import node_keys, partition_line, slurm_words
from hpcforge.starter.machines import ALL, SiteFile, SiteMachine, SitePartition

NODES = (SiteMachine("a1"), SiteMachine("a2"))


def test_a_partition_has_its_settings() -> None:
    partition = SitePartition("std.q", ("a1", "a2"), True, "1-00:00:00", {"OverSubscribe": "FORCE:4", "Hidden": "YES"})
    assert partition_line(partition) == (
        'std.q: {nodes: "a[1-2]", default: true, max_time: "1-00:00:00", '
        'settings: {OverSubscribe: "FORCE:4", Hidden: "YES"}}'
    )
    assert partition_line(SitePartition("all", ALL)) == "all: {nodes: all}   # guess: max_time"
    assert partition_line(SitePartition("b", ("a1",), True)).endswith("   # guess: default, max_time")


def checks(*partitions: SitePartition) -> object:
    return slurm_words(SiteFile(NODES, partitions=partitions))["tests"]


def lines(nodes: str) -> list[str]:
    return [f"{name}: {{nodes: {nodes}}}" for name in ("memory_copy", "allreduce", "train_ddp")]


def test_tests_run_in_each_partition_where_none_has_all_nodes() -> None:
    one, every = SitePartition("p", ("a1",)), SitePartition("q", ALL)
    assert slurm_words(None)["tests"] == lines("all")
    assert checks(one) == lines("each partition")
    assert checks(one, every) == lines("all")


def test_tests_run_only_where_the_time_limit_is_long_enough() -> None:
    """Those that fit nowhere are left out with the time that they need."""
    short = SitePartition("debug", ("a1", "a2"), max_time="0-00:10:00")
    assert checks(short, SitePartition("long", ALL, max_time="7-00:00:00")) == lines("all")
    site = SiteFile(NODES, partitions=(short, SitePartition("long", ("a1",), max_time="7-00:00:00")))
    words = slurm_words(site)
    assert words["tests"] == ["memory_copy: {nodes: each partition}", *lines("[a1]")[1:]]
    assert words["too_long"] == {}
    words = slurm_words(SiteFile(NODES, partitions=(short,)))
    assert words["tests"] == ["memory_copy: {nodes: each partition}"]
    assert words["too_long"] == {"allreduce": 11, "train_ddp": 11}
    nothing = slurm_words(SiteFile(NODES, partitions=(SitePartition("debug", ALL, max_time="0-00:05:00"),)))
    assert (nothing["tests"], list(nothing["too_long"])) == ([], ["memory_copy", "allreduce", "train_ddp"])


def test_settings_are_one_line() -> None:
    words = slurm_words(SiteFile(NODES, settings={"KillWait": "60", "PreemptMode": "OFF"}))
    assert words["settings"] == '{KillWait: 60, PreemptMode: "OFF"}'
    assert words["partitions"] == ['main: {nodes: all, default: true, max_time: "2-00:00:00"}']
    assert slurm_words(SiteFile(NODES))["settings"] == ""


def test_a_node_has_its_features_and_its_weight() -> None:
    assert node_keys(SiteMachine("a1", features=("ib", "on"), weight=0)) == ", features: [ib, on], weight: 0"
    assert node_keys(SiteMachine("a1")) == ""
