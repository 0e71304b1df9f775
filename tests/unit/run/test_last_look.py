"""A driver that told of faults before all was done on its node is asked again: by a library that stands in for NVML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hpcforge.cluster.model import GpuModel
from hpcforge.engines.tasks import NodeProgram, Task, result
from hpcforge.node.gpus import nvml
from hpcforge.plan.admission import DeclaredWorker
from hpcforge.plan.observation import Observation
from hpcforge.plan.plan import Change, Plan
from hpcforge.run.apply import admit, latest_facts
from hpcforge.run.executor import StartState, execute
from hpcforge.run.result import Admission
from tests.support.stand_in_nvml import ANSWERS, build
from tests.unit.run.test_apply import Controller
from tests.unit.run.test_executor import RUN, Engine, plan, unit

GPUS = ANSWERS["gpus"]
WORKER = DeclaredWorker("w1", 4, 4, 2, GPUS, "h100-sxm", "nvidia", gpu_known=GpuModel(nvlinks=18))
ON_BUS = [f"0000:{0x1B + 0x10 * index:02x}:00.0" for index in range(GPUS)]
INSTALLED: Mapping[str, Change] = {
    "nvidia_modules": Change(packages=("nvidia",), reboot=("packages",), disruption="reboot"),
    "nvidia_fabric_manager": Change(packages=("fabric",), units=unit("nvidia-fabricmanager")),
}


class Machine:
    """A worker. Its driver comes with a restart, and says what a case does, and another once Fabric Manager runs."""

    def __init__(self, folder: Path, before: str, after: str) -> None:
        self.told = {case: nvml.end(nvml.begin(str(build(case, folder)), 600.0), ON_BUS) for case in {before, after}}
        self.before, self.after = before, after
        self.boot, self.fabric, self.log = 1, False, list[str]()

    def facts(self) -> dict[str, Any]:
        return {"memory_kib": 4096, "cpus": 2, "gpus": {"nvidia": GPUS}, "boot_id": str(self.boot)}

    def looked_at(self) -> dict[str, Any]:
        said = self.told[self.after if self.fabric else self.before] if self.boot > 1 else None
        return {**self.facts(), "nvml": said}

    def __call__(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
        assert isinstance(task, NodeProgram)
        verb = task.request["verb"]
        self.log.append(task.id.partition(":")[0] if verb == "converge" else verb)
        if verb == "observe":
            return [("done", {"facts": self.looked_at()}), ("result", result(ok=True))]
        self.boot += verb == "reboot"
        self.fabric = self.fabric or task.id.startswith("finish:nvidia_fabric_manager")
        return [("done", {"facts": self.facts()}), ("result", result(ok=True))]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.run.reboot._POLL_S", 0.0)


def applied(machine: Machine, changes: Mapping[str, Change] = INSTALLED) -> tuple[Controller, Admission]:
    """What Slurm was told of the worker when all was done there."""
    a_plan: Plan = plan({role: {"w1": change} for role, change in changes.items()}, declared=(WORKER,))
    before = {"w1": Observation("w1", facts=machine.looked_at())}
    looked = {name: seen.facts for name, seen in before.items()}
    ended = execute(a_plan, {}, Engine(machine), lambda _: None, lambda: False, RUN, StartState(looked))
    assert {outcome.status for outcome in ended.outcomes["w1"].values()} == {"done"}
    controller = Controller({"w1": ("IDLE", "")})
    return controller, admit(controller, a_plan, latest_facts(before, ended), 0.0, ended)


def test_links_that_fabric_manager_brought_up_drain_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "links", "healthy")
    controller, admission = applied(machine)
    assert controller.told == []
    assert admission.shortfalls == ()
    assert machine.log.count("reboot") == 1
    assert machine.log[-2:] == ["finish", "observe"]


def test_a_fault_that_a_role_mends_without_a_restart_drains_nobody(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "links", "healthy")
    machine.boot = 2
    controller, admission = applied(machine, {"nvidia_fabric_manager": INSTALLED["nvidia_fabric_manager"]})
    assert (controller.told, admission.shortfalls) == ([], ())


def test_links_that_stay_down_drain_and_are_asked_about_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "links", "links")
    controller, admission = applied(machine)
    (short,) = admission.shortfalls
    assert (short.what.partition(" of ")[0], short.observed, short.declared) == ("NVLinks", "17", "18")
    assert len(controller.told) == 1
    assert machine.log[-2:] == ["finish", "observe"]


def test_a_driver_that_told_of_no_fault_is_not_asked_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "healthy", "healthy")
    controller, _ = applied(machine)
    assert controller.told == []
    assert machine.log[-1] == "finish"
