"""GPUs of a node: device files, and what Slurm hands out of them."""

from __future__ import annotations

import pytest

from hpcforge.cluster.mig import MigInstance
from hpcforge.cluster.model.gpus import Gpus, StandInGpus


@pytest.mark.parametrize(
    ("gpus", "devices", "text"),
    [
        (Gpus("h100", 2), ("/dev/nvidia0", "/dev/nvidia1"), "/dev/nvidia[0-1]"),
        (Gpus("h100", 1), ("/dev/nvidia0",), "/dev/nvidia0"),
        (Gpus("mi300x", 2, vendor="amd"), ("/dev/dri/renderD128", "/dev/dri/renderD129"), "/dev/dri/renderD[128-129]"),
        (Gpus("fake", 2), ("/dev/fakegpu0", "/dev/fakegpu1"), "/dev/fakegpu[0-1]"),
        (StandInGpus("h100", 1), ("/dev/fakegpu0",), "/dev/fakegpu0"),
    ],
)
def test_device_files_are_those_of_the_driver(gpus: Gpus, devices: tuple[str, ...], text: str) -> None:
    assert (gpus.devices, gpus.device_range) == (devices, text)


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        (Gpus("h100", 8), "gpu:h100:8"),
        (Gpus("h100", 2, shards=(4, 0)), "gpu:h100:2,shard:4"),
        (Gpus("h100", 2, mig=((MigInstance("3g.40gb", 4), MigInstance("1g.10gb+me", 0)), ())),
         "gpu:h100_3g.40gb:1,gpu:h100_1g.10gb.me:1,gpu:h100:1"),
    ],
)  # fmt: skip
def test_slurm_hands_out_gpus_instances_and_shards(gpus: Gpus, text: str) -> None:
    assert gpus.slurm_gres == text


def test_links_are_made_for_instances_alone() -> None:
    assert Gpus("h100", 2).links == ()
    links = Gpus("h100", 2, mig=((MigInstance("7g.80gb", 0),), ())).links
    assert [link.rpartition("/")[2] for link in links] == ["gpu0", "gpu0.0.gi", "gpu0.0.ci", "gpu1"]


def test_only_gpus_with_shards_are_shared() -> None:
    assert Gpus("h100", 3, shards=(0, 8, 2)).shared == (("/dev/nvidia1", 8), ("/dev/nvidia2", 2))


@pytest.mark.parametrize(
    ("gpus", "ranks"), [(Gpus("h100", 8), 8), (StandInGpus("h100", 8), 2), (StandInGpus("h100", 1), 1)]
)
def test_ranks_on_stand_ins_need_a_cpu_each(gpus: Gpus, ranks: int) -> None:
    assert gpus.most_ranks(2) == ranks
