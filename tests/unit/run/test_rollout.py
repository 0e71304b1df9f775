"""The order of nodes in service: canary, batches, an end after failures; drains and nodes that leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hpcforge.cluster.model import Rollout
from hpcforge.engines.tasks import Command, NodeProgram, Task, result
from hpcforge.plan.admission import DeclaredWorker
from hpcforge.plan.plan import Change, Leaving, OwnedResources, Plan, Removal, RoleNeed
from hpcforge.run.executor import execute
from hpcforge.run.result import RunResult
from hpcforge.slurm.jobs import WaitingJob
from tests.unit.run.test_executor import FACTS, RUN, Answer, Engine, all_well, plan, secret_file, unit

WORKERS = tuple(f"w{index}" for index in range(1, 7))
BAD = [("failed", {"role": "conf", "name": "c.service", "error": "it fell over"}), ("result", result(error="x"))]


def worker(name: str) -> DeclaredWorker:
    return DeclaredWorker(name, 1, 1, 1, 0, "", "fake")


def six(rollout: Rollout, change: Change | None = None, **more: Any) -> Plan:
    change = change or Change(units=unit("c"))
    changes = dict.fromkeys(WORKERS, change)
    usual = {
        "groups": dict.fromkeys(WORKERS, "w[1-6]"),
        "in_service": WORKERS,
        "declared": tuple(map(worker, WORKERS)),
        "rollout": rollout,
    }
    return plan({"conf": changes}, **{**usual, **more})


def failing(*nodes: str) -> Answer:
    return lambda task: BAD if task.node in nodes else all_well(task)


def go(a_plan: Plan, answer: Answer = all_well) -> tuple[RunResult, list[str]]:
    engine = Engine(answer)
    ended = execute(a_plan, {}, engine, lambda event: None, lambda: False, RUN)
    return ended, [task.id for task in engine.started]


def story(ended: RunResult) -> dict[str, str]:
    return {node: roles["conf"].status for node, roles in ended.outcomes.items()}


def test_a_failed_canary_leaves_the_others_untouched() -> None:
    ended, started = go(six(Rollout(canary=1)), failing("w1"))
    assert started == ["finish:conf:units:w1"]
    assert story(ended) == {"w1": "failed", **dict.fromkeys(WORKERS[1:], "skipped")}
    assert ended.outcomes["w4"]["conf"].detail == "its canary w1 failed"


def test_a_canary_that_is_well_lets_the_rest_go() -> None:
    ended, started = go(six(Rollout(canary=1)))
    assert started[0] == "finish:conf:units:w1"
    assert set(story(ended).values()) == {"done"}


def test_so_many_at_a_time() -> None:
    away: list[str] = []
    most = []

    def count(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [("started", {}), *all_well(task)]

    class Counting(Engine):
        def start(self, task: Task) -> None:
            away.append(task.node)
            most.append(len(away))
            super().start(task)

        def next(self, timeout_s: float | None = None) -> Any:
            event = super().next(timeout_s)
            if event is not None and event.kind == "result":
                away.remove(event.node)
            return event

    execute(six(Rollout(at_most=2)), {}, Counting(count), lambda event: None, lambda: False, RUN)
    assert max(most) == 2
    assert len(most) == len(WORKERS)


def test_an_end_after_so_many_failures() -> None:
    ended, started = go(six(Rollout(at_most=1, stop_after_failures=2)), failing("w1", "w3"))
    assert started == [f"finish:conf:units:w{index}" for index in (1, 2, 3)]
    assert ended.outcomes["w4"]["conf"].detail == "stopped after 2 failed: w1, w3"


def test_nodes_that_are_not_in_service_go_at_once() -> None:
    ended, started = go(six(Rollout(canary=1, at_most=1), in_service=WORKERS[:2]), failing("w1"))
    assert set(started) == {f"finish:conf:units:{name}" for name in WORKERS if name != "w2"}
    assert story(ended)["w2"] == "skipped"


def test_no_canary_goes_ahead_of_what_happens_together() -> None:
    change = Change(units=unit("munge"), shape="together", noted=False)
    ended, started = go(six(Rollout(canary=1, at_most=1), change))
    prepared = [one for one in started if one.startswith("prepare")]
    assert started[: len(prepared)] == prepared
    assert len(prepared) == len(WORKERS)
    assert set(story(ended).values()) == {"done"}


def test_together_without_the_controller_is_not_done_at_all() -> None:
    changes = dict.fromkeys(("head", "w1"), Change(units=unit("munge"), shape="together", noted=False))

    def no_space(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if task.id == "prepare:head":
            return [("failed", {"role": "conf", "name": "/etc/k", "error": "no space"}), ("result", result(error="x"))]
        return all_well(task)

    ended, started = go(plan({"conf": changes}), no_space)
    assert "finish:conf:units:w1" not in started
    assert story(ended) == {"head": "failed", "w1": "skipped"}


def test_a_node_that_others_need_is_not_held() -> None:
    changes: Mapping[str, Mapping[str, Change]] = {
        "server": {"w1": Change(units=unit("s")), "w2": Change(units=unit("s"))},
        "client": {"w1": Change(units=unit("c"), needs=(RoleNeed("server", ("w2",)),))},
    }
    a_plan = plan(
        changes,
        groups={"w1": "w[1-2]", "w2": "w[1-2]"},
        in_service=("w1", "w2"),
        declared=(worker("w1"), worker("w2")),
        rollout=Rollout(canary=1, at_most=1),
    )
    ended, _ = go(a_plan)
    assert ended.outcomes["w1"]["client"].status == "done"


class Slurm:
    """A controller whose job on w1 ends after it was asked about so many times. It keeps w1's state and reason."""

    def __init__(self, ends_after: int, state: str = "IDLE", reason: str = "", waiting: str = "") -> None:
        self.waiting = waiting
        self.left, self.said, self.state, self.reason, self.node = ends_after, [], state, reason, "w1"

    def __call__(self, task: Task) -> list[tuple[str, dict[str, Any]]]:
        if isinstance(task, Command):
            self.said.append(" ".join(task.argv))
            if task.argv[0] == "squeue":
                self.left -= 1
                return [("result", result(ok=True, stdout="12|w1\n" if self.left >= 0 else ""))]
            if task.argv[0] == "sh":
                return [("result", result(ok=True, stdout=self.waiting))]
            if "update" in task.argv:
                self.state, self.reason = "IDLE+DRAIN", task.argv[-1].removeprefix("Reason=")
            told = f"NodeName={self.node} Arch=x State={self.state} Reason={self.reason} [root@now]\n"
            return [("result", result(ok=True, stdout=told))]
        return all_well(task)


DRAINING = Change(units=unit("c"), disruption="drain")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcforge.run.rollout._POLL_S", 0.0)


def one_worker(rollout: Rollout, **more: Any) -> Plan:
    return plan(
        {"conf": {"w1": DRAINING}},
        groups={"w1": "w1"},
        declared=(worker("w1"),),
        rollout=rollout,
        **{"in_service": ("w1",), **more},
    )


def test_jobs_are_waited_for_before_they_would_be_disturbed() -> None:
    slurm = Slurm(ends_after=2)
    ended, started = go(one_worker(Rollout(busy_wait_s=60)), slurm)
    assert slurm.said[:2] == [
        "scontrol --oneliner show node w1",
        "scontrol update NodeName=w1 State=DRAIN Reason=hpcforge: is being changed",
    ]
    assert started[-1] == "finish:conf:units:w1"
    assert story(ended) == {"w1": "done"}


def test_a_node_that_stays_busy_is_left_for_another_apply() -> None:
    ended, started = go(one_worker(Rollout(busy_wait_s=0)), Slurm(ends_after=99))
    assert not any(one.startswith("finish") for one in started)
    assert ended.deferred() == {"w1": "jobs still run there: 12"}


def test_a_node_drained_by_somebody_else_keeps_that_reason_and_its_jobs() -> None:
    """Whatever the plan says of it: somebody may have done so since."""
    since = one_worker(Rollout(busy_wait_s=60))
    before = one_worker(Rollout(busy_wait_s=60), in_service=(), jobs={"w1": ("12",)})
    leaves = plan(HEAD, leaving=(GONE,))
    for a_plan in (since, before, leaves):
        slurm = Slurm(1, "MIXED+DRAIN", "bad fan")
        ended, started = go(a_plan, slurm)
        assert [said.split()[0] for said in slurm.said][:3] == ["scontrol", "squeue", "squeue"]
        assert slurm.reason == "bad fan"
        assert started[-1].startswith("finish")
        assert ended.failed() == {}


def test_a_node_of_which_slurm_says_nothing_is_not_taken_for_empty() -> None:
    silent = Slurm(ends_after=0)
    silent.node = "w9"
    ended, started = go(one_worker(Rollout()), silent)
    assert ended.failed()["w1"] == [("conf", "Slurm does not report the node's state")]
    assert not any(one.startswith("finish") for one in started)


def test_a_busy_canary_hands_its_part_on() -> None:
    drained = Change(units=unit("c"), disruption="drain")
    a_plan = six(Rollout(canary=1, busy_wait_s=0), drained, jobs={"w2": ("13",)})

    def busy(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if isinstance(task, Command):
            jobs = "12|w1\n" if "--nodelist=w1" in task.argv else ""
            states = f"NodeName={task.argv[-1]} Arch=x State=MIXED\n" if "show" in task.argv else ""
            return [("result", result(ok=True, stdout=jobs + states))]
        return BAD if task.node == "w3" else all_well(task)

    ended, _ = go(a_plan, busy)
    assert story(ended) == {"w1": "deferred", "w3": "failed", **dict.fromkeys(("w2", "w4", "w5", "w6"), "skipped")}
    assert ended.outcomes["w2"]["conf"].detail == "its canary w3 failed"


def test_what_only_restarts_needs_no_empty_node() -> None:
    slurm = Slurm(ends_after=99)
    go(six(Rollout(), Change(units=unit("c"), disruption="restart")), slurm)
    assert slurm.said == []


GONE = Leaving("w1", "10.0.0.2", True, None, (Removal("conf", OwnedResources(resources={"files": ("/etc/c",)})),))
HEAD = {"conf": {"head": Change(units=unit("s"))}}


def test_a_leaving_node_is_emptied_and_cleaned_before_the_controller_forgets_it() -> None:
    ended, started = go(plan(HEAD, leaving=(GONE,)), Slurm(ends_after=1))
    assert started[-2:] == ["remove:w1", "finish:conf:units:head"]
    assert ended.outcomes["w1"]["conf (removed)"].status == "done"


def test_a_leaving_node_that_is_busy_keeps_its_place() -> None:
    busy = plan(HEAD, leaving=(GONE,), rollout=Rollout(busy_wait_s=0))
    ended, started = go(busy, Slurm(ends_after=99))
    assert "remove:w1" not in started
    assert ended.deferred() == {
        "w1": "jobs still run there: 12",
        "head": "w1 has not left: jobs still run there: 12",
    }


def test_a_node_that_a_waiting_job_asks_for_stays_and_is_not_even_drained() -> None:
    asked_for = {"w1": (WaitingJob("17", "ada", 1, ("main",), ("w1",)),)}
    for gone in (GONE, replace(GONE, unreachable="no route")):
        slurm = Slurm(ends_after=0)
        ended, started = go(plan(HEAD, leaving=(gone,), asked_for=asked_for), slurm)
        assert (started, slurm.said, ended.abandoned) == ([], [], {})
        why = ended.deferred()["w1"]
        assert "job 17 of ada asks for w1 by name and has not begun" in why
        assert "scontrol update JobId=17 ReqNodeList=" in why
        assert ended.deferred()["head"] == f"w1 has not left: {why}"


@pytest.mark.parametrize(("waiting", "leaves"), [("17|ada|1|main|w[1-2]\n", False), ("17|ada|4|main|w2\n", True)])
def test_it_is_looked_again_whether_a_job_asks_for_it_when_it_is_empty(waiting: str, leaves: bool) -> None:
    ended, started = go(plan(HEAD, leaving=(GONE,)), Slurm(ends_after=1, waiting=waiting))
    assert ("remove:w1" in started) is leaves
    assert bool(ended.deferred()) is not leaves


def test_an_unreachable_node_leaves_without_being_cleaned_up() -> None:
    gone = Leaving("w1", "10.0.0.2", True, "no route", ())
    ended, started = go(plan(HEAD, leaving=(gone,)))
    assert started == ["finish:conf:units:head"]
    assert ended.abandoned == {"w1": "no route"}


def test_an_unreachable_node_with_jobs_is_not_forgotten() -> None:
    gone = Leaving("w1", "10.0.0.2", True, "no route", ())
    ended, started = go(plan(HEAD, leaving=(gone,), jobs={"w1": ("12",)}))
    assert started == []
    assert ended.abandoned == {}
    assert ended.deferred()["w1"] == "unreachable, and Slurm reports jobs there: 12"


def test_an_unreachable_node_of_which_slurm_does_not_tell_is_not_forgotten() -> None:
    gone = Leaving("w1", "10.0.0.2", True, "no route", (), may_have_jobs=True)
    ended, started = go(plan(HEAD, leaving=(gone,)))
    assert started == []
    assert ended.abandoned == {}
    assert ended.deferred()["w1"] == "unreachable, and Slurm does not report which jobs run"


def test_a_guarded_change_is_confirmed_over_a_new_connection_and_only_then_done() -> None:
    change = Change(resources=(secret_file(),), units=unit("sshd"), guard=True)
    engine = Engine(all_well)
    ended = execute(plan({"sshd": {"w1": change}}), {"munge_key": b"x"}, engine, lambda event: None, lambda: False, RUN)
    assert [task.id for task in engine.started] == ["guarded:sshd:w1", "finish:sshd:units:w1", "confirm:sshd:w1"]
    confirm = engine.started[-1]
    assert isinstance(confirm, NodeProgram)
    assert confirm.aside
    guard = engine.started[0].request["work"][0]["guard"]["id"]  # type: ignore[union-attr]
    assert confirm.request["guard"] == guard
    assert ended.outcomes["w1"]["sshd"].status == "done"


@pytest.mark.parametrize(("wait_s", "limit_s"), [(300.0, 300.0), (15.0, 30.0)])
def test_a_slow_node_has_as_long_to_be_confirmed_as_it_waits_for_that(wait_s: float, limit_s: float) -> None:
    change = Change(resources=(secret_file(),), guard=True)
    engine = Engine(all_well)
    guarded = plan({"sshd": {"w1": change}}, rollout=Rollout(confirm_wait_s=wait_s))
    execute(guarded, {"munge_key": b"x"}, engine, lambda event: None, lambda: False, RUN)
    confirm = engine.started[-1]
    assert isinstance(confirm, NodeProgram)
    assert confirm.id.startswith("confirm")
    assert confirm.timeout_s == limit_s


def test_a_node_that_locks_us_out_at_work_is_tried_until_it_has_taken_that_back() -> None:
    change = Change(resources=(secret_file(),), units=unit("nft"), guard=True)
    removals = {"w1": (less_of("users", guard=True), less_of("old"))}
    changed = plan({"nft": {"w1": change}}, removals=removals, rollout=Rollout(confirm_wait_s=300.0))
    engine = Engine(all_well)
    execute(changed, {"munge_key": b"x"}, engine, lambda event: None, lambda: False, RUN)
    tried_s = {task.id: task.reattach_s for task in engine.started if isinstance(task, NodeProgram)}
    assert min(tried_s["finish:nft:units:w1"], tried_s["remove:users:w1"]) > 300
    assert tried_s["remove:w1"] < 300


def test_a_change_that_locks_us_out_is_a_failure_of_its_role() -> None:
    def locked(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if task.id.startswith("confirm"):
            return [("result", result(error="no answer", reason="timeout"))]
        return [("done", {"facts": FACTS}), ("result", result(ok=True))]

    change = Change(resources=(secret_file(),), units=unit("nft"), guard=True)
    ended = execute(plan({"nft": {"w1": change}}), {"munge_key": b"x"}, Engine(locked), print, lambda: False, RUN)
    assert ended.lost == {}
    assert ended.failed()["w1"][0][1].startswith("no new connection after the change")


def less_of(role: str, **more: Any) -> Removal:
    return Removal(role, OwnedResources(resources={"files": (f"/etc/{role}",)}), True, **more)


def test_less_of_a_guarded_role_goes_last_and_is_confirmed() -> None:
    """A key that moves to another file is there before the old one goes."""
    change = Change(resources=(secret_file(),), guard=True)
    removals = {"w1": (less_of("users", guard=True), less_of("old"))}
    engine = Engine(all_well)
    moved = plan({"users": {"w1": change}}, removals=removals)
    ended = execute(moved, {"munge_key": b"x"}, engine, lambda event: None, lambda: False, RUN)
    assert [task.id for task in engine.started] == [
        "remove:w1",
        "guarded:users:w1",
        "finish:users:units:w1",
        "confirm:users:w1",
        "remove:users:w1",
        "confirm:users:removed:w1",
    ]
    removal, confirm = engine.started[-2:]
    assert confirm.request["guard"] == removal.request["work"][0]["guard"]["id"]  # type: ignore[union-attr]
    assert {role: outcome.status for role, outcome in ended.outcomes["w1"].items()} == dict.fromkeys(
        ("old (removed)", "users", "users (removed)"), "done"
    )


def test_nothing_of_a_guarded_role_goes_where_its_change_failed() -> None:
    def locked(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if task.id.startswith("guarded"):
            return [("failed", {"role": "users", "name": "x", "error": "no"}), ("result", result(error="no"))]
        return all_well(task)

    moved = plan(
        {"users": {"w1": Change(resources=(secret_file(),), guard=True)}},
        removals={"w1": (less_of("users", guard=True),)},
    )
    engine = Engine(locked)
    ended = execute(moved, {"munge_key": b"x"}, engine, lambda event: None, lambda: False, RUN)
    assert [task.id for task in engine.started] == ["guarded:users:w1"]
    assert {role: outcome.status for role, outcome in ended.outcomes["w1"].items()} == {
        "users": "failed",
        "users (removed)": "skipped",
    }


def test_a_drain_that_slurm_refuses_names_the_command_and_what_it_printed() -> None:
    def unknown(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if isinstance(task, Command):
            return [("result", result(rc=1, stdout="Node w1 not found\n", error="exit status 1 on head"))]
        return all_well(task)

    ended, _ = go(six(Rollout(), DRAINING), unknown)
    failure = "`scontrol --oneliner show node w1`: exit status 1 on head: Node w1 not found"
    assert failure in ended.outcomes["w1"]["conf"].detail
