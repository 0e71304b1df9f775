"""Shards of GPUs: how many each GPU of a node has."""

from __future__ import annotations

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster.shards import shard_findings, shards
from tests.unit.blueprint.drafts import ACCOUNTED, draft, errors, places

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("asked", "count", "each"),
    [
        ({"all": 4}, 2, (4, 4)),
        ({"0,2": 8, "3": 2}, 4, (8, 0, 8, 2)),
        ({"0,2": 8, "3": 2}, 2, (8, 0)),  # an override: two are away
        ({"2-3": 8}, 2, ()),
        ({}, 2, ()),
    ],
)
def test_gpus_have_the_shards_that_are_said_of_them(asked: dict[str, int], count: int, each: tuple[int, ...]) -> None:
    assert shards(asked, count) == each


WORKERS = "hardware: rehearsal-node, gpus: {model: fake, count: 2}"
PARTITION = "main: {nodes: all, default: true"
DGX = "hardware: dgx-h100"


def wrong(group: str, partition: str = "", *changes: tuple[str, str]) -> list[tuple[str, str]]:
    blueprint = draft(ACCOUNTED, (WORKERS, group), (PARTITION, f"{PARTITION}{partition}"), *changes)
    return places(shard_findings(blueprint, CATALOG))


@pytest.mark.parametrize(
    ("group", "keys"),
    [
        (f'{DGX}, shards: {{"all": 4}}', []),
        (f'{DGX}, shards: {{"0-3": 4, "4,7": 2}}', []),
        (f'{DGX}, shards: {{"8": 4}}', ["shards.8"]),
        (f'{DGX}, shards: {{"0-3": 4, "3": 2}}', ["shards.3"]),
        ('hardware: generic-2u, shards: {"all": 4}', ["shards"]),
        (f'{DGX}, shards: {{"all": 4}}, mig: {{"0": {{1g.10gb: 1}}}}', ["shards"]),
    ],
)
def test_shards_are_of_gpus_that_a_node_has(group: str, keys: list[str]) -> None:
    assert wrong(group) == errors(*(f"nodes.w[01-04].{key}" for key in keys))


def test_only_workers_have_shards() -> None:
    head = ("functions: [head], hardware: generic-1u", 'functions: [head], hardware: dgx-h100, shards: {"all": 4}')
    assert wrong(DGX, "", head) == errors("nodes.head.shards")


@pytest.mark.parametrize(
    ("billing", "severities"),
    [
        ("{gpu: 16, shard: 4}", []),
        ("{gpu: 16}", ["warning"]),  # jobs on shards pay nothing
        ("{shard: 4}", ["warning"]),
        ("{cpu: 1}", []),
        ("{gpu: 16, shard: 0}", []),
    ],
)
def test_a_partition_with_shared_gpus_bills_both(billing: str, severities: list[str]) -> None:
    findings = wrong(f'{DGX}, shards: {{"all": 4}}', f", billing: {billing}")
    assert findings == [("slurm.partitions.main.billing", severity) for severity in severities]


def test_where_there_are_none_nothing_counts_them() -> None:
    assert wrong(DGX, ", billing: {gpu: 16}") == []
    accounts = ("  reserve:", "  accounts: {a: {grp_tres: {shard: 8}}}\n  reserve:")
    assert wrong(DGX, "", accounts) == errors("slurm.accounts.a.grp_tres.shard")
