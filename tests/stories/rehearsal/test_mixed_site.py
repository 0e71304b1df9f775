"""A site of eleven mixed nodes: `init` from its slurm.conf, then fabrics and MIG, to a second apply without changes.

CPU nodes, L40S with RoCE and A100 with MIG share a partition. All eleven are rehearsed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process import hpcforge
from tests.support.real_site import Rehearsal

pytestmark = [pytest.mark.lab, pytest.mark.templates]

SLURM_CONF = """\
ClusterName=linden
SlurmctldHost=head01(10.30.0.10)
NodeName=c[01-04] NodeAddr=10.30.0.[21-24] Sockets=2 CoresPerSocket=32 RealMemory=250000
NodeName=l[01-04] NodeAddr=10.30.0.[31-34] Sockets=2 CoresPerSocket=32 RealMemory=500000 Gres=gpu:l40s:4
NodeName=a[01-02] NodeAddr=10.30.0.[41-42] Sockets=2 CoresPerSocket=64 RealMemory=1000000 Gres=gpu:a100:8
PartitionName=batch Nodes=ALL Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes=l[01-04],a[01-02] MaxTime=2-00:00:00 State=UP
"""
# What the administrator adds, as the file has no place for it.
FABRICS = """\
fabrics:
  lan:  {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn4600, links: 2, bond: 802.3ad, nodes: all}
  roce: {kind: roce, rate_gbps: 200, topology: single-switch, switch: sn4600, links: 2, nodes: "l[01-04]"}

networks:
  mgmt: {fabric: lan, cidr: """
MIG = ", mig: {all: {3g.20gb: 2}}}"
WORKERS = "a[01-02],c[01-04],l[01-04]"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    rehearsal = Rehearsal(tmp_path_factory.mktemp("linden"), f"test-mixed-{os.getpid()}")
    yield rehearsal
    rehearsal.cli("rehearse", "down")


def site(here: Rehearsal) -> Path:
    return here.folder / "linden.yaml"


def test_it_is_described_from_its_slurm_conf(here: Rehearsal) -> None:
    (here.folder / "slurm.conf").write_text(SLURM_CONF)
    assert hpcforge("init", str(site(here)), "--from", str(here.folder / "slurm.conf")).returncode == 0
    text = site(here).read_text()
    for old, new in (
        ("networks:\n  mgmt: {cidr: ", FABRICS),
        ("hardware: gpu-8x-a100-40-2x64x1-976}", f"hardware: gpu-8x-a100-40-2x64x1-976{MIG}"),
    ):
        assert old in text
        text = text.replace(old, new)
    site(here).write_text(text)
    refused = hpcforge("validate", str(site(here)))
    assert refused.returncode == 3
    assert "`allreduce` needs whole GPUs: a[01-02] use MIG" in refused.stderr
    [hint] = {*re.findall(r"name other workers, for example (\S+)", refused.stderr)}
    for test in ("allreduce", "train_ddp"):
        text = text.replace(f"    {test}: {{nodes: all}}\n", f'    {test}: {{nodes: "{hint}"}}\n')
    site(here).write_text(text)
    valid = hpcforge("validate", str(site(here)))
    assert valid.returncode == 0
    assert "topology of Slurm" not in valid.stderr


def test_its_first_apply_passes_every_test(here: Rehearsal) -> None:
    here.cli("rehearse", "up", str(site(here)), "--nodes", "all")
    said = here.cli("apply", str(site(here)), "--yes")
    passed = re.findall(r"^(\w+)  passed  .*? (?:on|of) (\S+)", said, flags=re.MULTILINE)
    assert dict(passed) == {
        "allreduce": "c[01-04],l[01-04]",
        "memory_copy": WORKERS,
        "train_ddp": "c[01-04],l[01-04]",
    }


def test_a_second_apply_changes_nothing(here: Rehearsal) -> None:
    assert "Nothing to do on 11 nodes." in here.cli("apply", str(site(here)), "--yes")
    here.cli("plan", str(site(here)))


def test_jobs_of_a_user_span_all_kinds_of_nodes(here: Rehearsal) -> None:
    for partition, nodes in (("batch", 10), ("gpu", 6)):
        said = here.inside("head01", f"sudo -iu tests srun -p {partition} -N {nodes} hostname | sort -u | wc -l")
        assert said == f"{nodes}\n"
    job = "sudo -iu tests srun -p batch -N 3 -w a01,c04,l02 hostname | sort"
    assert here.inside("head01", job) == "a01\nc04\nl02\n"
    near = here.inside("head01", "sudo -iu tests srun -N 4 -x c[01-04] hostname | sort")
    assert near == "l01\nl02\nl03\nl04\n"  # below one switch, as the A100 are not


def test_a_job_gets_an_instance_of_a_gpu(here: Rehearsal) -> None:
    job = "sudo -iu tests srun -p gpu -w a02 --gres=gpu:1 sh -c 'echo $SLURM_JOB_GPUS $CUDA_VISIBLE_DEVICES'"
    assert here.inside("head01", job).strip()
