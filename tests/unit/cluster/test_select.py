from pathlib import Path

import pytest

from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.cluster.select import SelectionError, select


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return load(Path("blueprints/air-cooled-16.yaml"), judged=False).cluster


def test_nothing_said_means_all(cluster: Cluster) -> None:
    assert select(cluster, [], []) == tuple(node.name for node in cluster.nodes)


def test_hostlists_functions_and_racks(cluster: Cluster) -> None:
    worker = cluster.workers[0]
    assert worker.rack is not None
    assert select(cluster, ["worker"], []) == tuple(node.name for node in cluster.workers)
    assert select(cluster, [worker.rack], []) == tuple(n.name for n in cluster.nodes if n.rack == worker.rack)
    assert worker.name not in select(cluster, [], [worker.name])
    [head] = cluster.with_function("head")
    assert select(cluster, [f"{worker.name},{head.name}"], ["worker"]) == (head.name,)
    assert select(cluster, [f"worker!{worker.name}"], []) == tuple(n.name for n in cluster.workers[1:])
    [partition, *_] = cluster.slurm.partitions
    assert set(select(cluster, [partition.name], [])) == set(partition.nodes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@rack:nowhere", "there is no node, partition, rack, function or group `@rack:nowhere`"),
        ("@rack:", "uses `@`"),
        ("gpu[1-1000000000]", "names"),
        ("$(reboot)", "'$(reboot)'"),
        ("nobody", "there is no node, partition, rack, function or group `nobody`"),
    ],
)
def test_what_is_refused(cluster: Cluster, text: str, said: str) -> None:
    with pytest.raises(SelectionError) as refused:
        select(cluster, [text], [])
    assert said in str(refused.value)


def test_nothing_left(cluster: Cluster) -> None:
    with pytest.raises(SelectionError, match="no node is left"):
        select(cluster, ["worker"], ["worker"])
