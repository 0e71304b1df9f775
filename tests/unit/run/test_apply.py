"""Admission after a run, with a controller that keeps states in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hpcforge.engines.tasks import Command, Event, Task, result
from hpcforge.plan.admission import DeclaredWorker
from hpcforge.run.apply import admit
from hpcforge.run.result import RoleOutcome, RunResult
from tests.unit.run.test_executor import Engine, plan


class Controller(Engine):
    """Knows each node's state and reason, and does as it is told by `scontrol update`."""

    def __init__(self, states: dict[str, tuple[str, str]]) -> None:
        super().__init__(self.said)
        self.states, self.told = states, list[str]()

    def said(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
        assert isinstance(task, Command)
        if "update" in task.argv:
            self.told.append(" ".join(task.argv[2:]))
        lines = [f"NodeName={n} State={state} Reason={why} [root@now]\n" for n, (state, why) in self.states.items()]
        return [("result", result(ok=True, stdout="".join(lines)))]

    def run(self, task: Task) -> Event:
        self.start(task)
        return self.events.popleft()


def worker(name: str) -> DeclaredWorker:
    return DeclaredWorker(name, 1024, 900, 2, 0, "", "fake")


def test_a_node_that_is_out_of_service_is_known_though_it_was_not_judged() -> None:
    """Only some nodes are worked on, and a job on all of a partition has to do without the others that are drained."""
    states = {"w01": ("IDLE", ""), "w02": ("IDLE+DRAIN", "disk"), "w03": ("DOWN", "away"), "w04": ("UNKNOWN", "")}
    facts = {"w01": {"memory_kib": 2**20, "cpus": 2}}
    found = admit(Controller(states), plan({}, declared=(worker("w01"),)), facts, 0.0, RunResult({}))
    assert found.not_scheduled == {"w02": "idle+drain: disk", "w03": "down: away"}
    assert found.ordered == ()


def test_nodes_with_the_same_mistake_are_one_command() -> None:
    names = [f"w{index:02}" for index in range(1, 7)]
    mark = "hpcforge: CPUs 1, declared 2"
    controller = Controller({**dict.fromkeys(names[:5], ("IDLE", "")), "w06": ("IDLE+DRAIN", mark)})
    poor, well = {"memory_kib": 2**20, "cpus": 1}, {"memory_kib": 2**20, "cpus": 2}
    facts = dict.fromkeys(names, poor) | {"w04": well, "w05": {"memory_kib": 2**19, "cpus": 2}, "w06": well}
    found = admit(controller, plan({}, declared=tuple(map(worker, names))), facts, 0.0, RunResult({}))
    assert controller.told == [
        f"NodeName=w[01-03] State=DRAIN Reason={mark}",
        "NodeName=w05 State=DRAIN Reason=hpcforge: memory 0.5 GiB, declared 1 GiB (0.878906 GiB after the reserve)",
        "NodeName=w06 State=RESUME",
    ]
    assert [shortfall.node for shortfall in found.shortfalls] == ["w01", "w02", "w03", "w05"]
    assert found.error is None


def test_only_workers_whose_roles_are_done_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that was not started, since something before it failed, never registers."""
    controller = Controller({"w01": ("UNKNOWN", ""), "w02": ("IDLE", ""), "w03": ("DOWN", "away")})
    well = {"memory_kib": 2**20, "cpus": 2}
    facts = dict.fromkeys(controller.states, well)
    of_three, waits = plan({}, declared=tuple(map(worker, facts))), list[float]()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        controller.states |= {"w01": ("IDLE", ""), "w03": ("IDLE", "")}

    monkeypatch.setattr("hpcforge.run.apply.time.sleep", pause)
    ended = RunResult(
        {"w01": {"storage": RoleOutcome("failed"), "slurmd": RoleOutcome("skipped")}}, lost={"w03": "away"}
    )
    found = admit(controller, of_three, facts, 60.0, ended)
    assert (found.not_scheduled, waits) == ({"w01": "unknown", "w03": "down: away"}, [])
    found = admit(controller, of_three, facts, 60.0, RunResult({"w01": {"slurmd": RoleOutcome("done")}}))
    assert (found.not_scheduled, len(waits)) == ({}, 1)


def test_who_failed_or_was_lost_is_not_resumed_and_who_was_not_come_to_is() -> None:
    mark = "hpcforge: CPUs 1, declared 2"
    controller = Controller(dict.fromkeys(("w01", "w02", "w03", "w04"), ("IDLE+DRAIN", mark)))
    well = {"memory_kib": 2**20, "cpus": 2}
    facts = dict.fromkeys(controller.states, well)
    ended = RunResult({"w01": {"a": RoleOutcome("failed")}, "w02": {"a": RoleOutcome("skipped")}}, lost={"w04": "away"})
    admit(controller, plan({}, declared=tuple(map(worker, facts))), facts, 0.0, ended)
    assert controller.told == ["NodeName=w[02-03] State=RESUME"]


def test_who_is_not_finished() -> None:
    done, failed, skipped, later = (RoleOutcome(one) for one in ("done", "failed", "skipped", "deferred"))
    outcomes = {"w01": {"a": done}, "w02": {"a": failed}, "w03": {"a": done, "b": skipped}, "w04": {"a": later}}
    assert RunResult(outcomes, lost={"w05": "away"}).unfinished() == {"w02", "w03", "w05"}


def test_a_worker_with_a_known_cause_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall keeps w03 away: it is asked for the cause once, after 15 s, and the wait for it ends."""
    controller = Controller({"w01": ("IDLE", ""), "w02": ("UNKNOWN", ""), "w03": ("UNKNOWN", "")})
    well = {"memory_kib": 2**20, "cpus": 2}
    facts = dict.fromkeys(controller.states, well)
    time_s, asked = [0.0], list[list[str]]()

    def pause(seconds: float) -> None:
        time_s[0] += seconds
        if time_s[0] > 20:
            controller.states["w02"] = ("IDLE", "")

    def lost(names: Sequence[str]) -> set[str]:
        asked.append([*names])
        return {"w03"}

    monkeypatch.setattr("hpcforge.run.apply.time.sleep", pause)
    monkeypatch.setattr("hpcforge.run.apply.time.monotonic", lambda: time_s[0])
    admitted = admit(controller, plan({}, declared=tuple(map(worker, facts))), facts, 90.0, RunResult({}), lost)
    assert (asked, admitted.not_scheduled) == ([["w02", "w03"]], {"w03": "unknown"})
    assert 20 < time_s[0] < 22
