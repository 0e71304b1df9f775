"""Restarts within a walk, with nodes that are a boot id and a word of systemd's."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hpcforge.cluster.model import Rollout
from hpcforge.engines.tasks import Command, Event, NodeProgram, Task, result
from hpcforge.node.verbs import checked
from hpcforge.plan.admission import DeclaredWorker
from hpcforge.plan.desired import Check, Opaque
from hpcforge.plan.plan import Change, OpaqueChange, OwnedResources, Plan, RoleNeed
from hpcforge.run.executor import execute
from hpcforge.run.result import RunResult
from tests.unit.run.test_executor import FACTS, RUN, plan, unit

CHECK = (Check("well", ("true",), None, 0),)
DRIVER = Change(packages=("driver",), units=unit("d"), checks=CHECK, reboot=("packages",), disruption="reboot")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.run.rollout._POLL_S", 0.0)
    monkeypatch.setattr("hpcforge.run.reboot._POLL_S", 0.0)


@dataclass
class Machine:
    """A node: after it was told to restart it answers some questions in this way, and then from its next boot."""

    boot: int = 1
    on_the_way: list[str] = field(default_factory=list)  # "same", "away", "starting"
    told: int = 0
    restarts: bool = True

    def look(self) -> list[tuple[str, dict[str, Any]]]:
        word = self.on_the_way.pop(0) if self.told and self.on_the_way else "up"
        if word == "away":
            return [("result", result(error="connection refused", reason="refused"))]
        if self.told and self.restarts and word != "same":
            self.boot, self.told = 2, 1
        answers = {"state": "starting\n" if word == "starting" else "running\n"}
        facts = {**FACTS, "boot_id": str(self.boot)}
        return [("observed", {"answers": answers}), ("done", {"facts": facts}), ("result", result(ok=True))]


@dataclass
class Site:
    """An engine over such nodes; what it was asked is in `log`, questions after a restart as one `...`."""

    machines: dict[str, Machine] = field(default_factory=dict)
    refuse: Callable[[NodeProgram], str | None] = lambda _task: None
    log: list[str] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    events: deque[Event] = field(default_factory=deque)
    answer_lost: dict[str, Any] | None = None  # instead of one to being told to restart

    def start(self, task: Task) -> None:
        if isinstance(task, NodeProgram):
            checked(json.loads(json.dumps(task.request)))  # as the node does
        self.events.extend(Event(task.node, task.id, kind, data) for kind, data in self._answer(task))

    def _answer(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
        machine = self.machines.setdefault(task.node, Machine())
        if isinstance(task, NodeProgram):
            self.requests.append(dict(task.request))
            if task.request["verb"] == "observe":
                return machine.look()
            if task.request["verb"] == "reboot":
                self.log.append(f"reboot {task.node}")
                assert task.request["boot_id"] == str(machine.boot)
                machine.told += 1
                if self.answer_lost:
                    return [("result", self.answer_lost)]
        else:
            self.log.append(task.id)
            return [("result", result(ok=True))]
        error = self.refuse(task)
        if task.request["verb"] != "reboot":
            self.log.append(task.id)
        return [
            ("done", {"facts": FACTS}),
            ("result", result(ok=error is None, rc=int(error is not None), error=error)),
        ]

    def next(self, timeout_s: float | None = None) -> Event | None:
        return self.events.popleft() if self.events else None

    def run(self, task: Task) -> Event:
        raise AssertionError(task)

    def walk(self, a_plan: Plan, listen: Callable[[Event], None] = lambda _event: None) -> RunResult:
        return execute(a_plan, {}, self, listen, lambda: False, RUN)


def seconds(said: str) -> str:
    """A sentence without how long it took here."""
    return re.sub(r"(within|after) \d+ s", r"\1 N s", said)


def statuses(ended: RunResult) -> dict[str, dict[str, str]]:
    return {node: {role: outcome.status for role, outcome in roles.items()} for node, roles in ended.outcomes.items()}


def test_checks_wait_until_the_node_is_back() -> None:
    site = Site({"w1": Machine(on_the_way=["same", "away", "away", "starting"])})
    told: list[tuple[str, str]] = []
    ended = site.walk(plan({"driver": {"w1": DRIVER}}), lambda e: told.append((e.kind, str(e.data.get("detail")))))
    assert site.log == ["prepare:w1", "reboot w1", "finish:driver:units:w1"]
    assert statuses(ended) == {"w1": {"driver": "done"}}
    said = [seconds(detail) for kind, detail in told if kind == "restarting"]
    assert said == ["it restarts; waiting up to 1200 s", "is back after N s"]


def test_it_is_remembered_on_the_node_before_anything_changes() -> None:
    site = Site()
    site.walk(plan({"base": {"w1": Change(packages=("b",))}, "driver": {"w1": DRIVER}}))
    [prepare] = [request for request in site.requests if request.get("phase") == "prepare"]
    assert {one["role"]: one["reboot"] for one in prepare["work"]} == {"base": False, "driver": True}
    [reboot] = [request for request in site.requests if request["verb"] == "reboot"]
    assert reboot["run"]["number"] == RUN.number
    assert "task" not in reboot


@pytest.mark.parametrize(
    "answer",
    [
        result(error="the connection was lost", reason="link"),
        result(error="ended by a signal on w1"),
        result(rc=143, error="exit status 143 on w1"),
    ],
)
def test_a_lost_answer_is_no_failure(answer: dict[str, Any]) -> None:
    site = Site(answer_lost=answer)
    assert statuses(site.walk(plan({"driver": {"w1": DRIVER}}))) == {"w1": {"driver": "done"}}
    assert site.log.count("reboot w1") == 1


def test_one_that_does_not_restart() -> None:
    site = Site({"w1": Machine(restarts=False)})
    user = Change(units=unit("u"), needs=(RoleNeed("driver", ("w1",)),))
    steps = {"driver": {"w1": DRIVER}, "user": {"w1": user}, "other": {"w1": Change(units=unit("o"))}}
    ended = site.walk(plan(steps, rollout=Rollout(reboot_wait_s=0.02)))
    [(role, why)] = ended.failed()["w1"]
    assert (role, seconds(why)) == ("driver", "did not restart within N s: it answers from the same boot as before")
    assert statuses(ended)["w1"] == {"driver": "failed", "user": "skipped", "other": "done"}


def test_one_that_does_not_come_back() -> None:
    site = Site({"w1": Machine(on_the_way=["away"] * 100_000)})
    ended = site.walk(plan({"driver": {"w1": DRIVER, "w2": DRIVER}}, rollout=Rollout(reboot_wait_s=0.02)))
    assert seconds(ended.lost["w1"]) == "is not back within N s after its restart: connection refused"
    assert statuses(ended) == {"w1": {"driver": "unreachable"}, "w2": {"driver": "done"}}


def test_another_machine_in_its_place_is_not_waited_for() -> None:
    class Other(Machine):
        def look(self) -> list[tuple[str, dict[str, Any]]]:
            if self.told:
                return [("result", result(error="it shows another host key", reason="host-key"))]
            return super().look()

    ended = Site({"w1": Other()}).walk(plan({"driver": {"w1": DRIVER}}))
    assert "another host key" in ended.lost["w1"]


def test_a_refused_restart_is_a_failure_of_the_role() -> None:
    site = Site(refuse=lambda task: "run 6 is older" if task.request["verb"] == "reboot" else None)
    ended = site.walk(plan({"driver": {"w1": DRIVER}}))
    assert ended.failed() == {"w1": [("driver", "it was not restarted: run 6 is older")]}
    assert "finish:driver:units:w1" not in site.log


def test_one_restart_does_for_all_packages_and_files() -> None:
    steps = {
        "kernel": {"w1": Change(packages=("k",), reboot=("packages",))},
        "base": {"w1": Change(units=unit("b"))},
        "driver": {"w1": DRIVER},
        "old": {"w1": Change(reboot=("due",), checks=CHECK)},
    }
    site = Site()
    assert set(statuses(site.walk(plan(steps)))["w1"].values()) == {"done"}
    assert [one for one in site.log if one.startswith("reboot")] == ["reboot w1"]
    assert site.log.index("reboot w1") < site.log.index("finish:kernel:units:w1")


def test_a_restart_is_done_for_those_that_are_left() -> None:
    steps = {
        "kernel": {"w1": Change(packages=("k",), reboot=("packages",))},
        "driver": {"w1": DRIVER},
    }

    @dataclass
    class NoKernel(Site):
        def _answer(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
            if task.id == "prepare:w1":
                return [("failed", {"role": "kernel", "name": "k", "error": "none"}), ("result", result(error="x"))]
            return super()._answer(task)

    ended = NoKernel().walk(plan(steps))
    assert statuses(ended) == {"w1": {"kernel": "failed", "driver": "done"}}


def test_a_node_with_jobs_is_emptied_before_anything_is_done_for_a_restart() -> None:
    class Slurm(Site):
        def _answer(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
            if isinstance(task, Command):
                self.log.append(" ".join(task.argv[:3]))
                left = sum(word.startswith("squeue") for word in self.log) < 3
                says = {"squeue": "12|w1\n" if left else "", "scontrol": "NodeName=w1 Arch=x State=MIXED\n"}
                return [("result", result(ok=True, stdout=says[task.argv[0]]))]
            return super()._answer(task)

    site = Slurm()
    worker = DeclaredWorker("w1", 1, 1, 1, 0, "", "nvidia")
    site.walk(plan({"driver": {"w1": DRIVER}}, groups={"w1": "w1"}, in_service=("w1",), declared=(worker,)))
    assert site.log[:2] == ["scontrol --oneliner show", "scontrol update NodeName=w1"]
    assert site.log[-3:] == ["prepare:w1", "reboot w1", "finish:driver:units:w1"]


def test_opaque_work_comes_before_the_restart_and_is_remembered_with_it() -> None:
    opaque = OpaqueChange(Opaque("pyinfra", "/r/deploy.py", {}, "d1"), "first run")
    change = Change(
        units=unit("d"), opaque=opaque, reboot=("opaque",), owns=OwnedResources(units=("d.service", "e.service"))
    )
    site = Site()
    ended = site.walk(plan({"driver": {"w1": change}}))
    assert site.log == [
        "finish:driver:units:w1",
        "opaque:driver:w1",
        "record:driver:w1",
        "reboot w1",
        "finish:driver:checks:w1",
    ]
    [record] = [request for request in site.requests if request["verb"] == "record"]
    assert record["reboot"]
    assert site.requests[-1]["work"][0]["units"] == [
        {"name": "d.service", "actions": []},
        {"name": "e.service", "actions": []},
    ]
    assert statuses(ended) == {"w1": {"driver": "done"}}


@pytest.mark.parametrize("hub", [{"controller": "head"}, {"controller": "w9", "via": "head"}])
def test_a_node_that_others_need_restarts_when_nothing_else_is_at_work(hub: dict[str, str]) -> None:
    """And nothing else begins until it is back."""
    steps = {
        "driver": {"head": DRIVER, **dict.fromkeys(("w1", "w2", "w3"), Change(packages=("p",), units=unit("x")))},
        "after": dict.fromkeys(("w1", "w2", "w3"), Change(units=unit("a"), opaque=None, shape="together")),
    }
    at_work: set[str] = set()
    meanwhile: list[str] = []

    @dataclass
    class Watched(Site):
        def start(self, task: Task) -> None:
            looks = isinstance(task, NodeProgram) and task.request["verb"] in ("observe", "reboot")
            if looks:
                meanwhile.extend(sorted(at_work))
            elif self.machines.get("head", Machine()).told == 1 and self.machines["head"].boot == 1:
                meanwhile.append(task.id)
            else:
                at_work.add(task.id)
            super().start(task)

        def next(self, timeout_s: float | None = None) -> Event | None:
            event = super().next(timeout_s)
            if event is not None and event.kind == "result":
                at_work.discard(event.task)
            return event

    site = Watched({"head": Machine(on_the_way=["away"] * 5)})
    ended = site.walk(plan(steps, **hub))
    assert {status for roles in statuses(ended).values() for status in roles.values()} == {"done"}
    assert meanwhile == []
    assert "reboot head" in site.log


def test_an_interrupt_lets_the_restart_end_and_starts_no_more() -> None:
    site = Site({"w1": Machine(on_the_way=["away", "away"])})
    stopped: list[bool] = []

    def listen(event: Event) -> None:
        stopped.extend([True] * (event.kind == "restarting"))

    ended = execute(plan({"driver": {"w1": DRIVER}}), {}, site, listen, lambda: bool(stopped), RUN)
    assert ended.interrupted
    assert statuses(ended) == {"w1": {"driver": "interrupted"}}
    assert site.log[-1] == "reboot w1"
