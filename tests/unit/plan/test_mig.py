"""MIG layouts: what fits on a GPU and where, what Slurm is told, and what the driver says against what is declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcforge.cluster import load
from hpcforge.cluster.mig import MigInstance
from hpcforge.node.gpus import nvml
from hpcforge.plan.admission import declared, gpu_shortfalls, shortfalls
from tests.support.shipped import ROOT
from tests.support.stand_in_nvml import build

SLICES = load(ROOT / "tests/unit/roles/blueprints/mig.yaml").cluster


# What the driver says, by the library that stands in for NVML

DECLARED = {one.node: one for one in declared(SLICES)}
SEVEN = (MigInstance("1g.10gb", 0),) * 7


def facts(case: str, folder: Path) -> dict[str, Any]:
    on_bus = [f"0000:{0x1B + 0x10 * index:02x}:00.0" for index in range(8)]
    told = nvml.end(nvml.begin(str(build(case, folder)), 600.0), on_bus)
    return {"memory_kib": 1 << 31, "cpus": 224, "gpus": {"nvidia": 8}, "nvml": told}


def test_the_layout_that_is_declared_is_no_fault_and_one_that_was_lost_is(tmp_path: Path) -> None:
    worker = replace(DECLARED["c01"], driver=None, mig=(SEVEN, *[()] * 7))
    assert gpu_shortfalls(worker, facts("mig", tmp_path)) == ()
    (lost,) = gpu_shortfalls(worker, facts("mig_lost", tmp_path))
    assert lost.what == "MIG layout of GPU 0 (serial 1652323000000, PCI 0000:1b:00.0)"
    assert lost.observed == "on, without instances, so that no job can use it"
    assert lost.declared == "7 x 1g.10gb"
    assert "hpcforge apply" in lost.todo
    (off,) = gpu_shortfalls(worker, facts("healthy", tmp_path))
    assert off.observed == "off"


def test_another_layout_is_named_with_both(tmp_path: Path) -> None:
    other = (MigInstance("3g.40gb", 4), *SEVEN[:4])
    worker = replace(DECLARED["c01"], driver=None, mig=(other, (), SEVEN, *[()] * 5))
    told = facts("mig", tmp_path)
    first, third = gpu_shortfalls(worker, told)
    assert (first.declared, first.observed) == ("1 x 3g.40gb, 4 x 1g.10gb", "on, 7 x 1g.10gb")
    assert third.what.startswith("MIG layout of GPU 2 ") and third.observed == "off"
    accepting = replace(worker, accepts=("gpu-mig",))
    assert gpu_shortfalls(accepting, told) == ()


def test_an_apply_judges_the_layout_by_its_role_and_not_by_what_was_heard_before(tmp_path: Path) -> None:
    """A first apply makes the instances after the look at the node; drained for that, it would stay so."""
    worker = replace(DECLARED["c01"], driver=None, mig=(SEVEN, *[()] * 7))
    assert shortfalls(worker, facts("mig_lost", tmp_path), gpus_ready=True) == ()
    (found,) = shortfalls(replace(worker, mig=()), facts("mig", tmp_path), gpus_ready=True)
    assert found.what.startswith("MIG mode of GPU 0")
