"""What a node's driver says of its GPUs, from its answer to what plan, apply and status print and Slurm is told."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines.tasks import NodeProgram, Task
from hpcforge.node import answer_types
from hpcforge.plan.admission import declared, gpu_shortfalls
from hpcforge.plan.gpus import remarks
from hpcforge.report.status import gpus_table
from hpcforge.schemas import MisfitError
from hpcforge.typed_json import fits
from tests.support.three_nodes import CLUSTER, DONE, FACTS, NVML, ODD, Line, Printed, observed
from tests.unit.run.test_border import VALUES, changed, paths, put

WORKER = next(one for one in declared(CLUSTER) if one.node == ODD)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def saying(**gpu: Any) -> Callable[[Task], list[Any] | None]:
    """That one node has a driver, whose GPU says this; while it is worked on no driver is asked."""
    nvml = {**NVML, "gpus": [{**NVML["gpus"][0], **gpu}]}

    def odd(task: Task) -> list[Line] | None:
        if task.node != ODD or not isinstance(task, NodeProgram) or task.request["verb"] != "observe":
            return None
        facts = {**FACTS, "nvml": nvml}
        return [{**observed("client"), "facts": facts, "armed": [], "at_work": None}, {**DONE, "facts": facts}]

    return odd


def printed(**gpu: Any) -> tuple[str, str, Printed]:
    """What an apply and then a status print."""
    run = Printed(saying(**gpu))
    run.apply()
    applied = "\n".join(run.text)
    run.status()
    run.check()
    return applied, run.text[-3], run


def test_a_gpu_that_is_well_is_shown_and_nothing_else(tmp_path: Path) -> None:
    applied, shown, _ = printed(clock_reasons=1, ecc_uncorrected=0, troubles={})
    assert "falls short: GPU" not in applied
    assert "1 NVIDIA H100 80GB HBM3  81559 MiB  550.163.01  96.00  on   18 of 18  5.0 x16  31 C" in shown


def test_a_narrow_link_is_said_by_plan_apply_and_status() -> None:
    applied, shown, run = printed(pcie_width=8)
    said = "PCIe width of GPU 0 (serial 1652323000000, PCI 0000:1b:00.0) x8, declared x16"
    assert f"{ODD} falls short: {said}; it will be drained." in applied
    assert "  to fix it: reseat the card and its riser; if it stays so, one of them or the slot is faulty" in applied
    override = f'{ODD}: {{accept: [gpu-pcie-width], reason: "known, and left so"}}'
    assert f"  to accept it, add to overrides:  {override}" in applied
    assert f"  ~ drain {ODD}: hpcforge: {said}" in applied
    assert said in shown
    document = json.loads(run.text[-1])
    assert document["nodes"][ODD]["gpus"]["gpus"][0]["pcie_width"] == 8


@pytest.mark.parametrize(
    ("gpu", "short", "todo", "kind"),
    [
        (
            {"nvlinks": {"active": 0, "total": 0}},
            "NVLinks of {} 0 (its driver shows no link at all), declared 18",
            "in a virtual machine that has one GPU without its NVSwitches, accept it; elsewhere load the module "
            "without NVreg_NvLinkDisable=1, and check `nvidia-smi nvlink --status` and the passthrough of the switches",
            "gpu-nvlinks",
        ),
        (
            {"power_limit_w": 500, "power_limit_default_w": 700},
            "power limit of {} 500 W, declared 700 W",
            "nvidia-smi --power-limit=700, and remove what lowers it when the node starts",
            "gpu-power-limit",
        ),
    ],
)
def test_a_fault_that_a_real_card_showed_is_printed_with_both_ways_out(
    gpu: dict[str, Any], short: str, todo: str, kind: str
) -> None:
    applied, shown, _ = printed(**gpu)
    said = short.format("GPU 0 (serial 1652323000000, PCI 0000:1b:00.0)")
    assert f"{ODD} falls short: {said}; it will be drained.\n  to fix it: {todo}\n" in applied
    assert f'  to accept it, add to overrides:  {ODD}: {{accept: [{kind}], reason: "known, and left so"}}' in applied
    assert f"  ~ drain {ODD}: hpcforge: {said}" in applied
    assert said in shown


def test_what_passes_by_itself_is_told_by_status_alone() -> None:
    applied, shown, _ = printed(clock_reasons=8)
    assert "slowed down" not in applied
    assert "GPU 0 (serial 1652323000000, PCI 0000:1b:00.0): slowed down by hardware (345 MHz)" in shown


def odd_answers() -> Iterator[Any]:
    """All that one change to each part of what is told makes of it, as far as the border lets it in."""
    for path in paths(NVML):
        for value in VALUES:
            nvml = changed(copy.deepcopy(NVML), path, lambda parent, key, value=value: put(parent, key, value))
            try:
                fits(answer_types.Nvml)(nvml)
            except MisfitError:
                continue
            yield nvml


def test_nothing_odd_that_passes_the_border_does_harm() -> None:
    answers = list(odd_answers())
    assert len(answers) > 50
    for nvml in answers:
        short = gpu_shortfalls(WORKER, {**FACTS, "nvml": nvml})
        lines = [one.observed + one.what + one.override + one.todo for one in short]
        for line in [*lines, *remarks(nvml), *gpus_table({ODD: nvml}).split("\n")]:
            assert line.isprintable()
