"""The walk over a plan, with an engine that answers from a table instead of nodes."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hpcforge.cluster.model import Rollout
from hpcforge.engines.tasks import Event, NodeProgram, Task, result
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.files import File
from hpcforge.node.verbs import checked
from hpcforge.plan.admission import DeclaredWorker
from hpcforge.plan.clocks import ClockOff
from hpcforge.plan.desired import Listen, Opaque, RoleNeed
from hpcforge.plan.plan import Change, OpaqueChange, Plan, ResourceChange, Step, UnitChange
from hpcforge.run.executor import StartState, execute
from hpcforge.run.result import RoleOutcome, Run, RunResult
from hpcforge.run.stages import Arrival, Arrive, stages
from tests.support.plans import plan_with

FACTS = {"memory_kib": 1, "cpus": 1}
RUN = Run(7, "cafe", "ada@desk", "c", "0.1")
Answer = Callable[[Task], list[tuple[str, dict[str, Any]]]]


class Engine:
    """Answers tasks in the order they were started."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.started, self.events = answer, [], deque[Event]()

    def start(self, task: Task) -> None:
        if isinstance(task, NodeProgram):
            checked(json.loads(json.dumps(task.request)))  # as the node does
        self.started.append(task)
        self.events.extend(Event(task.node, task.id, kind, data) for kind, data in self.answer(task))

    def next(self, timeout_s: float | None = None) -> Event | None:
        return self.events.popleft() if self.events else None

    def run(self, task: Task) -> Event:
        raise AssertionError(task)


def all_well(task: Task) -> list[tuple[str, dict[str, Any]]]:
    return [("done", {"facts": FACTS}), ("result", result(ok=True))]


def unit(name: str) -> tuple[UnitChange, ...]:
    return (UnitChange(f"{name}.service", ("start",), "inactive"),)


def secret_file() -> ResourceChange:
    return ResourceChange(File("/k", "0400", "root", "root", "d", "munge_key", False), {"exists": False})


def plan(steps: Mapping[str, Mapping[str, Change]], **more: Any) -> Plan:
    nodes = tuple(dict.fromkeys(node for changes in steps.values() for node in changes))
    parts = {"steps": tuple(Step(role, changes) for role, changes in steps.items()), "scheduler": "slurm_controller"}
    return plan_with(**({"cluster": "c", "nodes": nodes} | parts | more))


def run(
    a_plan: Plan, answer: Answer = all_well, stop: Callable[[], bool] = lambda: False
) -> tuple[RunResult, list[str]]:
    engine = Engine(answer)
    ended = execute(a_plan, {"munge_key": b"\x00secret"}, engine, lambda event: None, stop, RUN)
    return ended, [task.id for task in engine.started]


def statuses(ended: RunResult) -> dict[str, dict[str, str]]:
    return {node: {role: outcome.status for role, outcome in roles.items()} for node, roles in ended.outcomes.items()}


SERVER_THEN_CLIENT = {
    "server": {"head": Change(packages=("s",), units=unit("s"))},
    "client": {
        "w1": Change(packages=("c",), units=unit("c"), needs=(RoleNeed("server", ("head",)),)),
        "w2": Change(packages=("c",), units=unit("c"), needs=(RoleNeed("server", ("head",)),)),
    },
}


def test_only_the_last_phase_waits_for_other_nodes() -> None:
    ended, started = run(plan(SERVER_THEN_CLIENT))
    assert started[:3] == ["prepare:head", "prepare:w1", "prepare:w2"]
    assert started.index("finish:server:units:head") < started.index("finish:client:units:w1")
    assert statuses(ended) == {"head": {"server": "done"}, "w1": {"client": "done"}, "w2": {"client": "done"}}


def test_a_failed_role_stops_only_what_needs_it() -> None:
    def head_fails(task: Task) -> list[tuple[str, dict[str, Any]]]:
        if task.id.startswith("finish:server"):
            return [("failed", {"role": "server", "name": "s.service", "error": "no"}), ("result", result(error="x"))]
        return all_well(task)

    steps = {"base": {"w1": Change(units=unit("b"))}, **SERVER_THEN_CLIENT}
    ended, _ = run(plan(steps), head_fails)
    assert ended.failed() == {"head": [("server", "s.service: no")]}
    assert statuses(ended)["w1"] == {"base": "done", "client": "skipped"}
    assert ended.outcomes["w1"]["client"].detail == "server on head failed"


def test_a_lost_node_does_not_hold_the_others() -> None:
    def w1_dies(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [("result", result(error="link lost", reason="link"))] if task.node == "w1" else all_well(task)

    ended, _ = run(plan(SERVER_THEN_CLIENT), w1_dies)
    assert ended.lost == {"w1": "link lost"}
    assert statuses(ended)["w1"] == {"client": "unreachable"}
    assert statuses(ended)["w2"] == {"client": "done"}


def test_what_needs_an_unreachable_node_is_skipped_and_says_so() -> None:
    steps = {"client": SERVER_THEN_CLIENT["client"]}
    ended, started = run(plan(steps, unreachable={"head": "no route"}))
    assert statuses(ended)["w1"] == {"client": "skipped"}
    assert ended.outcomes["w1"]["client"].detail == "server on head: no route"
    assert started == []


def test_a_need_that_has_nothing_to_change_is_met() -> None:
    ended, _ = run(plan({"client": SERVER_THEN_CLIENT["client"]}))
    assert statuses(ended)["w2"] == {"client": "done"}


def test_opaque_work_lies_between_units_and_checks_and_is_recorded() -> None:
    change = Change(units=unit("d"), opaque=OpaqueChange(Opaque("pyinfra", "/r/deploy.py", {}, "d1"), "first run"))
    ended, started = run(plan({"depot": {"head": change}}))
    assert started == ["finish:depot:units:head", "opaque:depot:head", "record:depot:head"]
    assert statuses(ended) == {"head": {"depot": "done"}}


def test_opaque_work_that_was_done_before_is_due_again_from_its_beginning() -> None:
    change = Change(
        units=unit("d"), opaque=OpaqueChange(Opaque("pyinfra", "/r/deploy.py", {}, "d1"), "forced", repeats=True)
    )
    _, started = run(plan({"depot": {"head": change}}))
    assert started == ["begun:depot:head", "finish:depot:units:head", "opaque:depot:head", "record:depot:head"]


def test_failed_opaque_work_is_not_recorded() -> None:
    def fails(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [("result", result(error="pip said no"))] if task.id.startswith("opaque") else all_well(task)

    change = Change(opaque=OpaqueChange(Opaque("pyinfra", "/r/deploy.py", {}, "d1"), "first run"))
    ended, started = run(plan({"depot": {"head": change}}), fails)
    assert started == ["opaque:depot:head"]
    assert ended.failed() == {"head": [("depot", "pip said no")]}


def test_first_contact_comes_first_and_its_failure_ends_the_node() -> None:
    def no_sudo(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [("result", result(error="sudo: a password is required"))]

    change = {"w1": Change(packages=("p",))}
    ended, started = run(plan({"base": change, "time": change}, first_contact=("w1",)), no_sudo)
    assert started == ["bootstrap:w1"]
    assert ended.failed() == {"w1": [("base", "sudo: a password is required")]}
    assert ended.outcomes["w1"]["time"] == RoleOutcome("skipped", "base failed")


def test_a_node_without_python_is_sent_what_it_is_searched_for() -> None:
    change = Change(packages=("p",), programs=("srun",), listens=(Listen(6818, "tcp", ""),))
    first, later = plan({"base": {"w1": change}}, first_contact=("w1",)), plan({"base": {"w1": change}})
    request = stages(first, "w1", {}, RUN)[1].task.request
    assert request["inspect"] is True
    assert request["work"][0]["programs"] == ["srun"]
    assert request["work"][0]["listens"] == [{"port": 6818, "protocol": "tcp", "address": ""}]
    assert "listens" not in stages(later, "w1", {}, RUN)[0].task.request["work"][0]


def test_stop_lets_running_stages_finish_and_starts_no_more() -> None:
    ended, started = run(plan(SERVER_THEN_CLIENT), stop=lambda: True)
    assert started == ["prepare:head", "prepare:w1", "prepare:w2"]
    assert ended.interrupted
    assert statuses(ended)["w1"] == {"client": "interrupted"}


def test_stop_takes_back_an_ansible_role_that_waits_for_its_play() -> None:
    class Gathers(Engine):
        def withdraw(self, task: str) -> bool:
            return task == "opaque:motd:w2"

    def answer(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [] if task.id == "opaque:motd:w2" else all_well(task)

    role = Change(opaque=OpaqueChange(Opaque("ansible", "/r/motd", {}, "d1"), "first run"))
    engine = Gathers(answer)
    motd = plan({"motd": {"w1": role, "w2": role}})
    ended = execute(motd, {}, engine, lambda event: None, lambda: len(engine.started) > 1, RUN)
    assert [task.id for task in engine.started] == ["opaque:motd:w1", "opaque:motd:w2"]
    assert statuses(ended) == {"w1": {"motd": "interrupted"}, "w2": {"motd": "interrupted"}}
    assert ended.interrupted


def test_restarts_are_announced_before_files_change_and_secrets_travel_only_in_content() -> None:
    change = Change(
        resources=(ResourceChange(Directory("/d"), {"exists": False}), secret_file()),
        units=(UnitChange("munge.service", ("restart",), "x"),),
    )
    engine = Engine(all_well)
    execute(
        plan({"munge": {"w1": change}}), {"munge_key": b"\x00secret"}, engine, lambda event: None, lambda: False, RUN
    )
    prepare = engine.started[0]
    assert isinstance(prepare, NodeProgram)
    assert prepare.request["restarts"] == ["munge.service"]
    assert prepare.request["work"][0]["files"][0]["content_base64"] == "AHNlY3JldA=="
    assert "secret" not in prepare.id


def test_stages_that_wait_for_each_other_end_in_an_error() -> None:
    steps = {
        "a": {"n1": Change(units=unit("a"), needs=(RoleNeed("b", ("n2",)),))},
        "b": {"n2": Change(units=unit("b"), needs=(RoleNeed("a", ("n1",)),))},
    }
    with pytest.raises(RuntimeError, match="wait for each other"):
        run(plan(steps))


def test_a_node_where_another_run_is_at_work_is_told_apart() -> None:
    def held(task: Task) -> list[tuple[str, dict[str, Any]]]:
        error = "another hpcforge run is at work on this node: run 8 of eve@desk"
        return [
            ("failed", {"role": None, "kind": "busy", "name": "converge", "error": error}),
            ("result", result(error=error)),
        ]

    ended, _ = run(plan({"base": {"w1": Change(units=unit("b"))}}), held)
    assert "eve@desk" in ended.busy["w1"]
    assert "eve@desk" in ended.failed()["w1"][0][1]


def test_whoever_listens_hears_of_stages_and_of_the_end_of_each_node() -> None:
    heard: list[tuple[str, str, str]] = []

    def listen(event: Event) -> None:
        if event.kind in ("stage", "ended"):
            heard.append((event.node, event.task, str(event.data.get("name") or event.data.get("status"))))

    def fails(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [("result", result(error="no"))] if task.id == "prepare:w2" else all_well(task)

    steps = {"base": {"w1": Change(packages=("p",), units=unit("b")), "w2": Change(packages=("p",))}}
    execute(plan(steps), {}, Engine(fails), listen, lambda: False, RUN)
    assert [one for one in heard if one[0] == "w1"] == [
        ("w1", "prepare:w1", "packages and files"),
        ("w1", "finish:base:units:w1", "units and checks"),
        ("w1", "", "done"),
    ]
    assert heard.count(("w2", "", "failed")) == 1


def test_two_thousand_nodes_take_no_squares() -> None:
    """Half of them go one after the other behind a canary; what they all do together gathers them all."""
    nodes = [f"w{index:04}" for index in range(2000)]
    munge = Change(units=unit("munge"), shape="together", noted=False)
    needs = (RoleNeed("munge", ("w0000",)),)
    steps = {
        "munge": dict.fromkeys(nodes[:1000], munge),
        "client": {node: Change(packages=("c",), units=unit("c"), needs=needs) for node in nodes},
    }
    more = {"in_service": nodes[1000:], "groups": dict.fromkeys(nodes, "w[0000-1999]")}
    workers = tuple(DeclaredWorker(node, 1, 1, 1, 0, "", "fake") for node in nodes)
    start = time.process_time()
    ended, _ = run(plan(steps, **more, declared=workers, rollout=Rollout(canary=1, at_most=50)))
    assert {outcome.status for roles in ended.outcomes.values() for outcome in roles.values()} == {"done"}
    assert time.process_time() - start < 30  # about 0.5 s of one core; looking at all nodes after each event: minutes


def test_a_node_whose_clock_is_off_is_not_touched_and_what_needs_it_waits() -> None:
    """As where the node that serves wheels is refused."""
    needs = Change(needs=(RoleNeed("server", ("head",)),), units=unit("client"))
    off = ClockOff("head", -90.0, "this host", far=True, sets_it=False)
    engine = Engine(all_well)
    told: list[Event] = []
    found = execute(plan({"client": {"w1": needs}}, clocks=(off,)), {}, engine, told.append, lambda: False, RUN)
    assert engine.started == []
    assert found.failed() == {
        "head": [
            ("clock", "its clock is 90 s behind that of this host: hpcforge changes nothing there until it is fixed")
        ]
    }
    assert found.outcomes["w1"]["client"].status == "skipped"
    assert "its clock is 90 s behind" in found.outcomes["w1"]["client"].detail
    assert [(event.node, event.data["status"]) for event in told if event.kind == "settled"] == [
        ("head", "failed"),
        ("w1", "skipped"),
    ]


def arrives(after: int, arrival: Arrival) -> Arrive:
    """A node whose installation is seen to have ended at a later look."""
    looks = iter([None] * after)
    return lambda: next(looks, arrival)


def test_a_node_that_is_being_installed_holds_no_other_and_begins_when_it_is_there() -> None:
    together = Change(packages=("m",), units=unit("m"), shape="together")
    needs = (RoleNeed("server", ("head",)),)
    client = Change(packages=("c",), units=unit("c"), needs=needs)
    steps = {"key": {"head": together, "w1": together, "w2": together}, "server": {"head": Change(units=unit("s"))}}
    a_plan = plan({**steps, "client": {"w1": client, "w2": client}})
    engine = Engine(all_well)
    own = Arrival(stages(plan({"key": {"w2": together}, "client": {"w2": client}}), "w2", {}, RUN))
    ended = execute(
        a_plan, {}, engine, lambda _: None, lambda: False, RUN, StartState(arriving={"w2": arrives(9, own)})
    )
    started = [task.node for task in engine.started]
    assert "w2" not in started[: started.index("w2")] and set(started[started.index("w2") :]) == {"w2"}
    assert {status for roles in statuses(ended).values() for status in roles.values()} == {"done"}
    assert set(statuses(ended)["w2"]) == {"key", "client"}


def test_a_node_that_gets_no_operating_system_is_lost_and_what_needs_it_is_skipped() -> None:
    steps = {"server": {"w2": Change(units=unit("s"))}, "client": SERVER_THEN_CLIENT["client"]}
    steps["client"] = {"w1": Change(units=unit("c"), needs=(RoleNeed("server", ("w2",)),))}
    engine = Engine(all_well)
    lost = arrives(3, Arrival(why="not installed: no disk"))
    ended = execute(plan(steps), {}, engine, lambda _: None, lambda: False, RUN, StartState(arriving={"w2": lost}))
    assert engine.started == []
    assert ended.lost == {"w2": "not installed: no disk"}
    assert statuses(ended) == {"w2": {"server": "unreachable"}, "w1": {"client": "skipped"}}


def test_a_role_that_an_installed_node_does_not_need_after_all_is_done() -> None:
    steps = {"server": {"w2": Change(units=unit("s"))}, "other": {"w2": Change(units=unit("o"))}}
    own = Arrival(stages(plan({"other": steps["other"]}), "w2", {}, RUN))
    ended = execute(
        plan(steps), {}, Engine(all_well), lambda _: None, lambda: False, RUN, StartState(arriving={"w2": lambda: own})
    )
    assert statuses(ended) == {"w2": {"server": "done", "other": "done"}}


def test_a_stop_leaves_a_node_that_is_being_installed() -> None:
    steps = {"server": {"w2": Change(units=unit("s"))}}
    ended = execute(
        plan(steps), {}, Engine(all_well), lambda _: None, lambda: True, RUN, StartState(arriving={"w2": lambda: None})
    )
    assert statuses(ended) == {"w2": {"server": "interrupted"}} and ended.interrupted
