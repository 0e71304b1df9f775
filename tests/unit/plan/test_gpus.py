"""GPUs as their driver tells of them, against what is declared: told by a library that stands in for NVML."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcforge.catalog import load_catalog
from hpcforge.cluster import load
from hpcforge.node.gpus import nvml
from hpcforge.plan.admission import DeclaredWorker, Shortfall, declared, drains, gpu_shortfalls, shortfalls
from hpcforge.plan.gpus import remarks
from tests.support.stand_in_nvml import ANSWERS, build, hung

BLUEPRINTS = Path(__file__).parents[3] / "blueprints"
SITE = load(BLUEPRINTS / "dgx-h100-site.yaml").cluster
WORKER = replace(next(one for one in declared(SITE) if one.gpus), driver=ANSWERS["driver"])
ENOUGH = {"memory_kib": WORKER.memory_mib << 10, "cpus": WORKER.cpus, "gpus": {"nvidia": 8}, "nvml": None}
ON_BUS = [f"0000:{0x1B + 0x10 * index:02x}:00.0" for index in range(8)]
IDENTIFIED = {index: f"GPU {index} (serial 165232300000{index}, PCI {ON_BUS[index]})" for index in range(8)}


def told(case: str, folder: Path) -> dict[str, Any]:
    """Facts of a node whose library is that of a case."""
    return {**ENOUGH, "nvml": nvml.end(nvml.begin(str(build(case, folder)), 600.0), ON_BUS)}


def short(case: str, folder: Path, worker: DeclaredWorker = WORKER) -> tuple[Shortfall, ...]:
    return shortfalls(worker, told(case, folder), gpus_ready=True)


def test_the_site_declares_eight_gpus_of_which_the_catalog_knows() -> None:
    known = WORKER.gpu_known
    assert (WORKER.gpus, WORKER.gpu_model, WORKER.gpu_kind) == (8, "h100-sxm", "nvidia")
    assert (known.memory_gb, known.nvlinks, known.pcie_lanes, known.pcie_generation) == (80, 18, 16, 5)
    assert known.driver_names == ("NVIDIA H100 80GB HBM3",)


@pytest.mark.parametrize("case", ["healthy", "slow_idle", "slow_busy", "garbage", "no_fabric", "before_fabric"])
def test_what_is_well_idle_or_not_known_keeps_no_jobs_away(case: str, tmp_path: Path) -> None:
    assert short(case, tmp_path) == ()


FAULTS = {
    "seven": ("GPUs", "7 (GPU 5: the GPU has fallen off the bus (NVML error 15); "
                      "PCI 0000:6b:00.0 is on the bus and does not answer)", "8"),
    "pending": (f"memory rows of {IDENTIFIED[3]}", "a remapping is pending, 1 remapped before", "none pending"),
    "failed": (f"memory rows of {IDENTIFIED[3]}", "a remapping failed, 9 remapped before", "memory without faults"),
    "narrow": (f"PCIe width of {IDENTIFIED[6]}", "x8", "x16"),
    "slot": (f"PCIe width of {IDENTIFIED[6]}", "x8 (its slot has no more than x8)", "x16"),
    "old_slot": (f"PCIe generation of {IDENTIFIED[6]}", "4 at most in its slot", "5"),
    "links": (f"NVLinks of {IDENTIFIED[2]}", "17", "18"),
    "waiting": (f"NVLink fabric of {IDENTIFIED[5]}", "registration in progress", "registered"),
    "not_begun": (f"NVLink fabric of {IDENTIFIED[5]}", "registration not started", "registered"),
    "short": (f"NVLink fabric of {IDENTIFIED[5]}", "registration failed (NVML error 23)", "registered"),
    "unhealthy": (f"NVLink fabric of {IDENTIFIED[5]}", "unhealthy route, incorrect configuration", "healthy"),
    "no_ecc": ("ECC of GPUs 0, 1, 2", "off", "on"),
    "little": (f"memory of {IDENTIFIED[4]}", "42.9 GB", "80 GB"),
    "other": (f"model of {IDENTIFIED[7]}", "NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3"),
    "power": (f"power limit of {IDENTIFIED[4]}", "500 W", "700 W"),
    "mig": (f"MIG mode of {IDENTIFIED[0]}", "on, 7 x 1g.10gb", "whole GPUs"),
    "mig_lost": (f"MIG mode of {IDENTIFIED[0]}", "on, without instances, so that no job can use it", "whole GPUs"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_what_gpus_lack_is_named_with_number_and_gpu(case: str, tmp_path: Path) -> None:
    (found,) = short(case, tmp_path)
    assert (found.node, found.what, found.observed, found.declared) == (WORKER.node, *FAULTS[case])
    assert case == "seven" or found.todo
    (order,) = drains((found,), {WORKER.node: ("IDLE", "")})
    assert (order.action, order.reason.startswith(f"hpcforge: {FAULTS[case][0]}")) == ("drain", True)


def test_a_driver_that_cannot_be_used_keeps_jobs_away_though_all_gpus_are_on_the_bus(tmp_path: Path) -> None:
    (found,) = short("mismatch", tmp_path)
    assert found.what == "GPU driver"
    assert "restart the node, or stop all users of GPUs and reload the module" in found.observed


def test_a_driver_of_another_version_is_named_with_both_numbers(tmp_path: Path) -> None:
    (found,) = short("healthy", tmp_path, replace(WORKER, driver="535.261.03"))
    assert (found.node, found.what) == (WORKER.node, "GPU driver")
    assert (found.observed, found.declared) == (ANSWERS["driver"], "535.261.03")
    accepting = replace(WORKER, driver="535.261.03", accepts=("gpu-driver-version",))
    (tmp_path / "again").mkdir()
    facts = told("healthy", tmp_path / "again")
    assert shortfalls(accepting, facts, gpus_ready=True) == ()
    assert shortfalls(replace(WORKER, driver=None), facts, gpus_ready=True) == ()
    assert short("mismatch", tmp_path, accepting)  # which is another fault: it cannot be used


def test_the_driver_that_is_declared_is_the_one_that_is_brought_or_installed() -> None:
    assert SITE.driver == "535.261.03" and SITE.nvidia is None
    installs = load(BLUEPRINTS / "roce-pair-16.yaml").cluster
    assert installs.driver == "535.261.03" and installs.nvidia is not None
    assert {one.driver for one in declared(installs)} == {"535.261.03"}


def test_a_node_whose_driver_is_to_be_replaced_works_on_until_its_turn(tmp_path: Path) -> None:
    """A rollout that stops after its canary leaves the others as they were: the blueprint is ahead of them, no more."""
    installs = load(BLUEPRINTS / "roce-pair-16.yaml").cluster
    assert {one.gets_driver for one in declared(installs) if one.gpus} == {True}
    assert {one.gets_driver for one in declared(SITE)} == {False}  # where nodes bring it, nobody else would look
    waiting, facts = replace(WORKER, driver="535.261.03", gets_driver=True), told("healthy", tmp_path)
    assert shortfalls(waiting, facts, gpus_ready=True) == ()
    assert [gpu_shortfall.what for gpu_shortfall in gpu_shortfalls(waiting, facts)] == [
        "GPU driver"
    ]  # `status` tells it all the same
    (tmp_path / "again").mkdir()
    assert short("mismatch", tmp_path / "again", waiting)  # half of it is there: it cannot be used


def test_gpus_that_hang_keep_jobs_away(tmp_path: Path) -> None:
    facts = {**ENOUGH, "nvml": hung(build("hangs", tmp_path), ON_BUS)}
    (found,) = shortfalls(WORKER, facts, gpus_ready=True)
    assert found.observed.startswith("unusable (GPU 4 gave no answer within 600 s")
    assert [order.action for order in drains((found,), {WORKER.node: ("IDLE", "")})] == ["drain"]


def test_a_library_that_crashes_keeps_jobs_away(tmp_path: Path) -> None:
    (found,) = short("crashes", tmp_path)
    assert found.observed.startswith("unusable (NVML broke off at GPU 2")
    assert [order.action for order in drains((found,), {WORKER.node: ("IDLE", "")})] == ["drain"]


def test_without_a_library_gpus_are_counted_on_the_bus_as_before() -> None:
    assert shortfalls(WORKER, ENOUGH, gpus_ready=True) == ()
    (found,) = shortfalls(WORKER, {**ENOUGH, "gpus": {"nvidia": 7}}, gpus_ready=True)
    assert (found.what, found.observed, found.declared) == ("GPUs", "7", "8")


def test_a_rehearsals_gpus_are_not_the_drivers(tmp_path: Path) -> None:
    worker = replace(WORKER, gpu_kind="fake")
    facts = {**told("seven", tmp_path), "gpus": {"fake": 8, "nvidia": 1}}
    assert shortfalls(worker, facts, gpus_ready=True) == ()


def test_the_overrides_that_are_offered_accept_what_they_are_for(tmp_path: Path) -> None:
    """One after the other, as an operator meets them: each keeps what was accepted before."""
    worker, facts = WORKER, {case: told(case, tmp_path) for case in FAULTS if case != "seven"}
    for fact in facts.values():
        for found in shortfalls(worker, fact, gpus_ready=True):
            worker = replace(worker, accepts=tuple(yaml.safe_load(found.override)[worker.node]["accept"]))
            override = found.override
    assert [shortfalls(worker, fact, gpus_ready=True) for fact in facts.values()] == [()] * len(facts)
    text = (BLUEPRINTS / "dgx-h100-site.yaml").read_text().replace("../", f"{BLUEPRINTS.parent}/")
    (tmp_path / "b.yaml").write_text(text.replace("\noverrides:\n", f"\noverrides:\n  {override}\n"))
    assert load(tmp_path / "b.yaml").cluster.by_name[worker.node].accepts == worker.accepts


def test_what_was_accepted_stays_so_beside_another_fault(tmp_path: Path) -> None:
    (found,) = short("narrow", tmp_path, replace(WORKER, accepts=("gpu-ecc",)))
    assert found.override == f'{WORKER.node}: {{accept: [gpu-ecc, gpu-pcie-width], reason: "known, and left so"}}'


def test_slurm_is_told_before_a_job_can_ask_for_the_eighth(tmp_path: Path) -> None:
    (order,) = drains(short("seven", tmp_path), {WORKER.node: ("IDLE", "")})
    assert (order.action, order.reason.partition(" (")[0]) == ("drain", "hpcforge: GPUs 7")
    (back,) = drains(short("healthy", tmp_path), {WORKER.node: ("IDLE+DRAIN", order.reason)})
    assert back.action == "resume"


def test_what_passes_by_itself_is_only_remarked(tmp_path: Path) -> None:
    busy = list(remarks(told("slow_busy", tmp_path)["nvml"]))
    assert busy == [f"{IDENTIFIED[6]}: PCIe generation 1 of 5 while it works"]
    assert list(remarks(told("slow_idle", tmp_path)["nvml"])) == []
    (first, *others) = remarks(told("garbage", tmp_path)["nvml"])
    assert first.startswith("GPU 0: not known: model, serial, ")
    assert len(others) == 7


def test_of_every_model_that_the_catalog_sells_with_servers_the_driver_name_is_known() -> None:
    catalog = load_catalog()
    sold = {server.gpus.model for server in catalog.servers.values() if server.gpus}
    nvidia = {model for model in sold if catalog.gpus[model].vendor == "nvidia"}
    assert {model for model in nvidia if not catalog.gpus[model].driver_names} <= {"v100-sxm3", "a100-80-station"}
