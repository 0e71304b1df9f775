"""GPUs that jobs share by shards: what Slurm is told of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from hpcforge.cluster.load import load
from hpcforge.cluster.model import Cluster
from hpcforge.kinds.files import File
from hpcforge.plan.desired import Desired

BLUEPRINT = Path(__file__).parent / "blueprints" / "shards.yaml"
CLUSTER = load(BLUEPRINT).cluster
Compiled = Callable[[Cluster], Desired]


def lines(desired: Desired, name: str) -> list[str]:
    """What Slurm's controller has in a file of /etc/slurm."""
    files = [file for node in desired.nodes["head"] for file in node.of(File) if file.path == f"/etc/slurm/{name}"]
    (text,) = (desired.texts[str(file.digest)] for file in files)
    return text.splitlines()


def test_each_gpu_has_its_own(compiled: Compiled) -> None:
    said = [line for line in lines(compiled(CLUSTER), "gres.conf") if line.startswith("NodeName=")]
    assert said == [
        "NodeName=a[01-02] Name=gpu Type=h100-sxm File=/dev/nvidia[0-7]",
        *(f"NodeName=a[01-02] Name=shard Count=4 File=/dev/nvidia{index}" for index in range(8)),
        "NodeName=b01 Name=gpu Type=h100-sxm File=/dev/nvidia[0-3]",
        "NodeName=b01 Name=shard Count=8 File=/dev/nvidia0",
        "NodeName=b01 Name=shard Count=8 File=/dev/nvidia2",
        "NodeName=b01 Name=shard Count=2 File=/dev/nvidia3",
        "NodeName=c01 Name=gpu Type=h100-sxm File=/dev/nvidia[0-7]",
    ]


def test_nodes_have_the_sum_and_accounting_counts_them(compiled: Compiled) -> None:
    conf = lines(compiled(CLUSTER), "slurm.conf")
    assert {"GresTypes=gpu,shard", "AccountingStorageTRES=gres/gpu,gres/shard"} <= set(conf)
    told = {line.split()[0]: line.partition(" Gres=")[2].split()[0] for line in conf if line.startswith("NodeName=")}
    assert told == {
        "NodeName=a[01-02]": "gpu:h100-sxm:8,shard:32",
        "NodeName=b01": "gpu:h100-sxm:4,shard:18",
        "NodeName=c01": "gpu:h100-sxm:8",
    }
    (main,) = (line for line in conf if line.startswith("PartitionName="))
    assert 'TRESBillingWeights="GRES/gpu=16,GRES/shard=4"' in main
    assert [
        association.settings for association in CLUSTER.slurm.associations if association.name == "account vision"
    ] == ["grptres=gres/gpu=8,gres/shard=16"]


def test_without_any_slurm_hears_nothing_of_shards(compiled: Compiled) -> None:
    nodes = tuple(
        dataclasses.replace(node, gpus=node.gpus and dataclasses.replace(node.gpus, shards=()))
        for node in CLUSTER.nodes
    )
    desired = compiled(dataclasses.replace(CLUSTER, nodes=nodes))
    conf = lines(desired, "slurm.conf")
    assert {"GresTypes=gpu", "AccountingStorageTRES=gres/gpu"} <= set(conf)
    assert not [line for line in (*conf, *lines(desired, "gres.conf")) if "shard" in line and line[0] != "#"]
