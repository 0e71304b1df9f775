"""The tests that measure nodes, on nodes: all pass on healthy ones, and each planted fault is named with its node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_site import Rehearsal, configured

pytestmark = pytest.mark.lab

SITE = Path(__file__).parent / "gauges.yaml"
Verdicts = dict[str, dict[str, Any]]

# What torchrun sets for a rank, from what Slurm sets for a task.
BY_SRUN = """\
export OMP_NUM_THREADS=1 PYTHONPATH=/opt/hpcforge/smoke_tests PYTHONWARNINGS=ignore
cd / && sudo -u tests --preserve-env=OMP_NUM_THREADS,PYTHONPATH,PYTHONWARNINGS srun --exclusive -N4 -n4 sh -c '
  export RANK=$SLURM_PROCID LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 WORLD_SIZE=$SLURM_NTASKS
  export MASTER_ADDR={address} MASTER_PORT=29123
  exec /opt/hpcforge/pytorch/bin/python /opt/hpcforge/smoke_tests/train_ddp.py --json'
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    with configured(tmp_path_factory.mktemp("gauges"), "gauges", SITE, "head,w[01-04]") as here:
        yield here


def verify(site: Rehearsal, *arguments: str, codes: tuple[int, ...] = (0,)) -> Verdicts:
    done = site.tried("verify", str(SITE), "--json", *arguments)
    verdicts = {verdict["test"]: verdict for verdict in json.loads(done.stdout)["verdicts"]}
    told = {name: (verdict["status"], verdict["detail"]) for name, verdict in verdicts.items()}
    assert done.returncode in codes, told
    print(told)
    return verdicts


@contextmanager
def planted(site: Rehearsal, node: str, fault: str, undo: str) -> Iterator[None]:
    site.inside(node, fault)
    try:
        yield
    finally:
        site.inside(node, undo)


@pytest.fixture(scope="module")
def healthy(site: Rehearsal) -> Verdicts:
    """Nodes share the cores of this machine: a rate that other work there lowered is measured again, twice at most."""
    verdicts = verify(site, "--level", "standard", codes=(0, 7))
    for _ in range(2):
        missed = [name for name, verdict in verdicts.items() if verdict["status"] == "missed"]
        again = [word for name in missed for word in ("--test", name)]
        verdicts |= verify(site, *again, codes=(0, 7)) if again else {}
    return verdicts


def test_healthy_nodes_pass_every_test(healthy: Verdicts) -> None:
    for name, verdict in healthy.items():
        print(f"{name}: {verdict['seconds']} s, {verdict['headline']}")
        assert verdict["status"] == "passed", verdict
    kernels = {line["kernel"] for line in healthy["node_health"]["measurements"]}
    assert len(kernels) == 1
    rates = {line["host"] for line in healthy["gemm"]["measurements"] if "tflop_per_s" in line}
    assert rates == {"w01", "w02", "w03", "w04"}
    (burnt,) = (line for line in healthy["burn_in"]["measurements"] if "slices" in line)
    assert (burnt["slices"], burnt["turns"], burnt["resumed_after_slice"]) == (8, 1, 0)


def test_srun_and_torchrun_give_the_same_numbers(site: Rehearsal, healthy: Verdicts) -> None:
    address = site.inside("w01", "hostname -I").split()[0]
    said = site.inside("head", BY_SRUN.format(address=address))
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    (by_hand,) = (event for event in events if event["event"] == "measurement")
    (launched,) = healthy["train_ddp"]["measurements"]
    numbers = ("loss_first", "loss_last", "error_max", "global_batch")
    assert {name: by_hand[name] for name in numbers} == {name: launched[name] for name in numbers}


def test_a_node_with_another_mtu_is_named(site: Rehearsal, healthy: Verdicts) -> None:
    assert healthy
    with planted(site, "w02", "sudo ip link set host0 mtu 1400", "sudo ip link set host0 mtu 1500"):
        verdict = verify(site, "--test", "node_health", codes=(7,))["node_health"]
    assert (verdict["status"], verdict["node"]) == ("missed", "w02")
    assert "mtu differs: w02 has cluster 1400" in verdict["detail"]


def test_a_mount_that_is_read_only_is_named(site: Rehearsal, healthy: Verdicts) -> None:
    assert healthy
    writable = "sudo mount -o remount,bind,rw,nosuid,nodev /scratch"
    with planted(site, "w03", "sudo mount -o remount,bind,ro /scratch", writable):  # a missing one drains the node
        verdict = verify(site, "--test", "node_health", codes=(7,))["node_health"]
    assert (verdict["status"], verdict["node"]) == ("wrong", "w03")
    assert verdict["detail"].startswith("mount /scratch: expected mounted, got read only")
