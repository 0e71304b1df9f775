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
  lan:  {kind: ethernet, rate_gbps: 25, topology: leaf-pair, switch: sn2410, links: 2, bond: 802.3ad, nodes: all}
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
    def ran(options: str) -> list[str]:
        return here.inside("head01", f"cd / && sudo -u tests srun {options} hostname 2>/dev/null").split()

    assert len({*ran("-p batch -N 10")}) == 10
    assert len({*ran("-p gpu -N 6")}) == 6
    assert sorted(ran("-p batch -N 3 -w a01,c04,l02")) == ["a01", "c04", "l02"]
    assert sorted(ran("-p gpu -N 4 --switches=1")) == ["l01", "l02", "l03", "l04"]  # A100 are below another one


def test_a_job_gets_an_instance_of_a_gpu(here: Rehearsal) -> None:
    job = "srun -p gpu -N 1 --gres=gpu:a100-40_3g.20gb:2 printenv SLURMD_NODENAME CUDA_VISIBLE_DEVICES"
    node, gpus = here.inside("head01", f"cd / && sudo -u tests {job} 2>/dev/null").split()
    assert (node[0], gpus) == ("a", "0,1")


def test_a_topology_that_is_cut_by_hand_is_named_and_repaired(here: Rehearsal) -> None:
    ready = "until scontrol ping | grep -q 'is UP'; do sleep 0.2; done"
    cut = "sudo sed -i /and-others/d /etc/slurm/topology.conf && sudo systemctl restart slurmctld"
    here.inside("head01", f'{cut} && timeout 60 sh -c "{ready}"')
    said = here.cli("verify", str(site(here)), "--test", "memory_copy", code=7)
    assert f"memory_copy  not run  {WORKERS}: Slurm refused the job: " in said
    assert f"next: scontrol show topology; scontrol show node {WORKERS}" in said
    said = here.cli("apply", str(site(here)), "--yes")
    assert "+SwitchName=roce-and-others Switches=roce-elsewhere,roce-leaf-001\n" in said
    assert f"memory_copy  passed  each of {WORKERS}" in said
