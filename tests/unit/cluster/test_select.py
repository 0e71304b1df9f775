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
        ("@rack:", "'@rack:' has no name of a rack after `@rack:`"),
        ("nobody[1-2]", "there are no nodes, partitions, racks, functions or groups `nobody[1-2]`"),
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
    with pytest.raises(SelectionError, match="leave no node"):
        select(cluster, ["worker"], ["worker"])


@pytest.fixture(scope="module")
def site() -> Cluster:
    """A site with numbers of several digits: gpu001, racks g01 to g08 and i01 to i03."""
    return load(Path("blueprints/dgx-h100-site.yaml"), judged=False).cluster


# How ClusterShell, pdsh and xCAT spell groups and ranges is in their manuals: @source:group, -g attr=value, noderange.
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@rack:", "as in `@rack:i01`; racks: i01, i02, g01"),
        ("all!@rack:", "as in `@rack:i01`; racks: i01, i02, g01"),
        ("@hardware:", "as in `@hardware:head-1u`; hardware: head-1u"),
        ("@", "partitions: train, debug; racks: i01"),
        ("rack:g01", "did you mean `@rack:g01`?"),
        ("rack=g01", "did you mean `@rack:g01`?"),
        ("@rack=g01", "did you mean `@rack:g01`?"),
        ("racks:g[1-2]", "did you mean `@rack:g[01-02]`?"),
        ("@racks:g01", "did you mean `@rack:g01`?"),
        ("gpu001,partition:train", "did you mean `@partition:train`?"),
        ("hardware:dgx-h100", "did you mean `@hardware:dgx-h100`?"),
        ("rack:zzz", "as in `@rack:i01`; racks: i01"),
        ("dgx-h100", "did you mean `@hardware:dgx-h100`?"),
        ("@rack:train", "did you mean `@partition:train`?"),
        ("@wheel:g01", "did you mean `@rack:g01`?"),
        ("@rack:g1", "did you mean `@rack:g01`?"),
        ("@gpu001", "did you mean `gpu001`?"),
        ("@rack:gpu001", "did you mean `gpu001`?"),
        ("@workers", "did you mean `@worker`?"),
        ("gpu1", "did you mean `gpu001`?"),
        ("gpu0001", "did you mean `gpu001`?"),
        ("gpu-7", "did you mean `gpu007`?"),
        ("gpu[1-3]", "did you mean `gpu[001-003]`?"),
        ("login2", "did you mean `login02`?"),
        ("zzz", "nodes: gpu[001-032],head01,login[01-02],stor01; partitions: train, debug"),
    ],
)
def test_the_hint_names_what_was_meant(site: Cluster, text: str, hint: str) -> None:
    with pytest.raises(SelectionError) as refused:
        select(site, [text], [])
    assert refused.value.hint.startswith(hint)
    if (meant := hint.partition("`")[2].partition("`")[0]) and hint.startswith("did you mean"):
        assert select(site, [meant], [])


def test_hardware_is_named_with_its_mark(site: Cluster) -> None:
    assert select(site, ["@hardware:dgx-h100"], []) == tuple(node.name for node in site.workers)
