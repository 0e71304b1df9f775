"""A worker that is done goes back into service before the others have had their turn."""

from __future__ import annotations

from typing import Any

import pytest

from hpcforge.cluster.model import Rollout
from hpcforge.engines.tasks import Command, Event, Task, result
from hpcforge.plan.admission import DeclaredWorker, Shortfall
from hpcforge.plan.plan import Change, Leaving, Plan
from hpcforge.run.executor import StartState, execute
from tests.unit.run.test_executor import RUN, Engine, plan, unit

WORKERS = ("w1", "w2", "w3")
WELL = {"memory_kib": 4096, "cpus": 2, "gpus": {}}


class Cluster:
    """Workers, and a controller that keeps their states; nobody has jobs. `log` is what was done where, in order."""

    def __init__(self, facts: dict[str, Any] | None = None, fails: str = "") -> None:
        self.facts, self.fails, self.log = facts or {}, fails, list[str]()
        self.states = dict.fromkeys(WORKERS, ("IDLE", ""))
        self.registers_after = 0  # so many looks at a drained node

    def __call__(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
        if isinstance(task, Command):
            return [("result", result(ok=True, stdout=self._slurm(task.argv)))]
        self.log.append(f"{'look' if task.id.startswith('look:') else 'work'} {task.node}")
        if task.node == self.fails:
            return [("failed", {"role": "conf", "name": "c", "error": "no"}), ("result", result(error="no"))]
        return [("done", {"facts": {**WELL, **self.facts.get(task.node, {})}}), ("result", result(ok=True))]

    def _slurm(self, argv: tuple[str, ...]) -> str:
        if argv[0] != "scontrol":  # jobs that run, and those that wait
            return ""
        if argv[1] == "update":
            node, state = argv[2].partition("=")[2], argv[3].partition("=")[2]
            self.log.append(f"{state.lower()} {node}")
            reason = argv[4].partition("=")[2] if state == "DRAIN" else ""
            self.states[node] = ("IDLE+DRAIN", reason) if state == "DRAIN" else ("IDLE", "")
            return ""
        state, reason = self.states[argv[-1]]
        if state != "IDLE" and self.registers_after:
            self.registers_after -= 1
            state += "+NOT_RESPONDING"
        return f"NodeName={argv[-1]} Arch=x State={state} Reason={reason} [root@now]\n"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.run.rollout._POLL_S", 0.0)


def three(**more: Any) -> Plan:
    usual = {
        "groups": dict.fromkeys(WORKERS, "w[1-3]"),
        "in_service": WORKERS,
        "declared": tuple(DeclaredWorker(name, 4, 4, 2, 0, "", "fake") for name in WORKERS),
        "rollout": Rollout(at_most=1),
    }
    changes = dict.fromkeys(WORKERS, Change(units=unit("c"), disruption="drain"))
    return plan({"conf": changes}, **{**usual, **more})


def go(cluster: Cluster, a_plan: Plan, looked: dict[str, Any] | None = None, ends: str = "") -> list[str]:
    """What was done where; the nodes that were said to be back are in it, too. `ends`: what the run is ended after."""

    def listen(event: Event) -> None:
        if event.kind == "returned":
            cluster.log.append(f"back {event.node}")

    execute(a_plan, {}, Engine(cluster), listen, lambda: ends in cluster.log, RUN, StartState(looked or {}))
    return cluster.log


def of(node: str, *more: str) -> list[str]:
    return [f"{what} {node}" for what in ("drain", "work", *more)]


def test_no_more_workers_are_out_of_service_than_may_be_changed_at_a_time() -> None:
    log = go(Cluster(), three())
    assert log == [*of("w1", "resume", "back"), *of("w2", "resume", "back"), *of("w3")]  # the last with the run's end


def test_its_daemon_is_waited_for() -> None:
    cluster = Cluster()
    cluster.registers_after = 3
    assert go(cluster, three())[:4] == of("w1", "resume", "back")
    assert cluster.registers_after == 0


def test_a_daemon_that_does_not_register_is_left_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.run.rollout.SETTLE_S", 0.0)
    cluster = Cluster()
    cluster.registers_after = 99
    assert go(cluster, three()) == [*of("w1"), *of("w2"), *of("w3")]


def test_who_falls_short_failed_or_was_drained_by_others_stays_out() -> None:
    assert go(Cluster(facts={"w1": {"cpus": 1}}), three())[:3] == [*of("w1"), "drain w2"]
    assert go(Cluster(fails="w1"), three())[:3] == [*of("w1"), "drain w2"]
    known = (Shortfall("w1", "memory", "4 GiB", "2 GiB", ""),)  # of which only a look at the node tells
    assert go(Cluster(), three(shortfalls=known))[:3] == [*of("w1"), "drain w2"]
    cluster = Cluster()
    cluster.states["w1"] = ("IDLE+DRAIN", "bad fan")
    assert go(cluster, three())[:2] == ["work w1", "drain w2"]


def test_what_its_driver_said_at_the_look_counts() -> None:
    wrong = {"driver": None, "gpus": [], "error": "no driver is loaded", "on_bus": ["0000:01:00.0"]}
    with_gpu = tuple(DeclaredWorker(name, 4, 4, 2, 1, "h100", "nvidia") for name in WORKERS)
    facts = {name: {"gpus": {"nvidia": 1}} for name in WORKERS}
    assert go(Cluster(facts), three(declared=with_gpu))[:3] == of("w1", "resume")
    assert go(Cluster(facts), three(declared=with_gpu), {"w1": {"nvml": wrong}})[:4] == [*of("w1", "look"), "drain w2"]


def test_one_that_leaves_the_cluster_does_not_come_back() -> None:
    cluster = Cluster()
    cluster.states["w9"] = ("IDLE", "")
    log = go(cluster, three(leaving=(Leaving("w9", "10.0.0.9", True, None),)))
    assert log.count("drain w9") == 1
    assert not {"resume w9", "back w9"} & set(log)


def test_nobody_is_brought_back_once_the_run_is_to_end() -> None:
    assert go(Cluster(), three(), ends="work w1") == of("w1")
    cluster = Cluster()
    cluster.registers_after = 99  # it is asked about again and again
    assert go(cluster, three(), ends="work w1") == of("w1")


def test_one_with_jobs_holds_no_other_out_of_service() -> None:
    """All begin at once; two are done at once, and the third has jobs for some time."""

    class Busy(Cluster):
        looks = 0

        def _slurm(self, argv: tuple[str, ...]) -> str:
            if argv[0] == "squeue" and argv[-1] == "--nodelist=w3":
                self.looks += 1
                return "12|w3\n" if self.looks < 9 else ""
            return super()._slurm(argv)

    log = go(Busy(), three(rollout=Rollout()))
    assert max(log.index("back w1"), log.index("back w2")) < log.index("work w3")
