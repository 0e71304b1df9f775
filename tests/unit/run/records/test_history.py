"""The history of runs: written by the node program's own code, read back, and never silently less than there is."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines.tasks import Event, NodeProgram, Task, result
from hpcforge.node import head_records
from hpcforge.node.events import EventReporter
from hpcforge.plan.roster import Enrolled, LastRun, Roster
from hpcforge.plan.test_selection import SmokeRun
from hpcforge.run.records.history import (
    Copy,
    History,
    NodePast,
    Past,
    expected_s,
    last_changed,
    parse_history,
    past,
    read_log,
    write_log,
)
from hpcforge.run.result import ApplyResult, Reached, RoleOutcome, Run, RunResult, Verified
from hpcforge.verify.verdicts import Verdict

RUN = Run(7, "ab12", "ada@near", "small", "0.1.0", "c0ffee")
ROSTER = Roster(
    "small", LastRun(7, "ab12", "ada@near", 1.8e9, "0.1.0"), {"w1": Enrolled("10.0.0.2", (), "w1", ("worker",), 7)}
)


class Head:
    """An engine whose one node keeps records in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events, self.away = folder, deque[Event](), ""

    def start(self, task: Task) -> None:
        assert isinstance(task, NodeProgram)
        if not self.away:
            heard: list[dict[str, Any]] = []
            head_records.log(dict(json.loads(json.dumps(task.request))), EventReporter(heard.append), self.folder)
            self.events.extend(Event(task.node, task.id, each.pop("event"), each) for each in heard)
        self.events.append(Event(task.node, task.id, "result", result(ok=not self.away, error=self.away or None)))

    def next(self, timeout_s: float | None = None) -> Event | None:
        return self.events.popleft()

    def run(self, task: Task) -> Event:
        raise AssertionError(task)


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path / "node" / "hpcforge")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "hpcforge" / "small"


def ended(number: int = 7, run_id: str = "ab12", who: str = "ada@near") -> Past:
    return Past(run_id, who, number, 1.8e9 + number, 12.5, exit=0, hpcforge="0.1.0")


def test_a_run_as_history_tells_it() -> None:
    came_to = RunResult(
        outcomes={
            "head": {"base": RoleOutcome("done"), "dns": RoleOutcome("failed", "x" * 1000)},
            "w1": {"base": RoleOutcome("done"), "slurm": RoleOutcome("skipped", "dns on head failed")},
            "w2": {},
            "w3": {"base": RoleOutcome("unreachable", "no route")},
        },
        lost={"w3": "no route", "w4": "timeout"},
        changed={"head": 3},
    )
    verdicts = [Verdict("allreduce", "passed", ("w1",)), Verdict("train_ddp", "wrong", ("w1",))]
    tested = SmokeRun(("allreduce", "train_ddp"), ("w1",), ("w1",), "changed")
    tests = Verified(tuple(Reached(tested, verdict) for verdict in verdicts))
    one = past(
        RUN,
        ApplyResult(came_to, tests=tests),
        args=["site.yaml", "--yes"],
        dirty=True,
        started_s=1.8e9,
        exit_code=5,
        left=["w9"],
    )
    assert one.nodes == {
        "head": NodePast(3, ("base",), {"dns": "x" * 300}),
        "w1": NodePast(0, ("base",)),
        "w3": NodePast(unreachable="no route"),
        "w4": NodePast(unreachable="timeout"),
    }
    assert (one.number, one.who, one.commit, one.dirty, one.exit) == (7, "ada@near", "c0ffee", True, 5)
    assert (one.args, one.left) == (("site.yaml", "--yes"), ("w9",))
    assert one.verdicts == {"allreduce": "passed", "train_ddp": "wrong"}


def test_it_comes_back_from_the_head_and_a_copy_stays_here(head: Head, state: Path) -> None:
    one = past(
        RUN,
        ApplyResult(RunResult({"w1": {"base": RoleOutcome("done")}}, changed={"w1": 2})),
        args=[],
        dirty=False,
        started_s=1.0,
        exit_code=0,
    )
    assert write_log(head, "head", one, ROSTER, "small") == []
    history, roster, problem = read_log(head, "head", "small", 10)
    assert (history.runs, history.older, history.unreadable, roster, problem) == ((one,), 0, 0, ROSTER, None)
    assert last_changed(history) == {"w1": one}
    head.away = "no route to head"
    history, roster, problem = read_log(head, "head", "small", 10)
    assert (history.runs, roster, problem) == ((one,), ROSTER, "no route to head")
    assert (state.stat().st_mode & 0o777, (state / "history.jsonl").stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_run_that_was_overtaken_leaves_the_roster_and_is_told(head: Head) -> None:
    write_log(head, "head", ended(7), ROSTER, "small")
    older = dataclasses.replace(ROSTER, run=LastRun(6, "old", "bob@far", 1.8e9, "0.1.0"), nodes={})
    [said] = write_log(head, "head", ended(6, "old", "bob@far"), older, "small")
    assert said == "the node list is from run 7, which is newer: not changed"
    history, roster, _ = read_log(head, "head", "small", 10)
    assert (roster, [run.number for run in history.runs]) == (ROSTER, [7, 6])


def test_the_copy_catches_up_with_what_others_did(head: Head) -> None:
    write_log(head, "head", ended(1, "a"), ROSTER, "small")
    line = {"schema": 1, "id": "b", "who": "bob@far", "number": 2, "started_s": 2.0}
    head_records.log({"do": "write", "line": line}, EventReporter(lambda event: None), head.folder)
    write_log(head, "head", ended(3, "c"), ROSTER, "small")
    history, _ = Copy.of("small").read("small", 10)
    assert [run.number for run in history.runs] == [1, 2, 3]


def test_only_the_last_and_how_many_more(head: Head) -> None:
    for number in range(1, 6):
        write_log(head, "head", ended(number, f"id{number}"), None, "small")
    history, _, _ = read_log(head, "head", "small", 2)
    assert ([run.number for run in history.runs], history.older) == ([4, 5], 3)
    head.away = "away"
    history, _, _ = read_log(head, "head", "small", 2)
    assert ([run.number for run in history.runs], history.older) == ([4, 5], 3)


def test_without_the_head_the_line_is_kept_here_and_that_is_said(head: Head, state: Path) -> None:
    head.away = "no route to head"
    [problem] = write_log(head, "head", ended(), ROSTER, "small")
    assert problem == f"this run is not in the history on head (no route to head), only in {state}"
    assert Copy.of("small").read("small", 5)[0].runs == (ended(),)


def test_without_room_here_that_is_said_and_the_head_has_it(head: Head, state: Path) -> None:
    state.parent.mkdir(parents=True)
    state.write_text("a file where the folder should be")
    [problem] = write_log(head, "head", ended(), ROSTER, "small")
    assert problem.startswith(f"no copy of the history on this host: {state}")
    assert read_log(head, "head", "small", 5)[0].runs == (ended(),)


def test_the_copy_stands_in_for_a_damaged_roster(head: Head) -> None:
    damaged = Roster(problem="damaged")
    assert Copy.of("small").in_place_of(damaged, "small") == (damaged, "nodes that left the blueprint are not noticed")
    write_log(head, "head", ended(), ROSTER, "small")
    roster, said = Copy.of("small").in_place_of(damaged, "small")
    assert roster == ROSTER
    assert said.startswith("this host's copy is used, of run 7")
    newer = Roster(problem="written by a newer hpcforge", newer=True)
    assert Copy.of("small").in_place_of(newer, "small")[0] == newer


@pytest.mark.parametrize(
    "line",
    [
        *("{", "[]", "null", "5", '"x"', "\ufffd", "[" * 100_000),
        '{"id": 1}',
        '{"id": "x", "who": "y", "number": "seven"}',
        '{"cut_off": true, "id": "x"}',
        '{"id": "x", "who": "y", "number": 1, "started_s": 1.0, "nodes": {"@all": {}}}',
        '{"id": "x", "who": "y", "number": 1, "started_s": 1.0, "left": ["w[1-1000000000]"]}',
        '{"id": "x", "who": "y", "number": 1, "started_s": "now"}',
    ],
)
def test_lines_that_cannot_be_read_are_counted(line: str) -> None:
    good = '{"schema": 1, "id": "x", "who": "y", "number": 1, "started_s": 1.0, "of_a_later_version": 5}'
    history = parse_history([good, line])
    assert ([run.id for run in history.runs], history.unreadable) == (["x"], 1)


def test_a_run_that_died_is_told_until_it_speaks_for_itself() -> None:
    cut_off = '{"schema": 1, "id": "x", "who": "y", "number": null, "since_s": 5.0, "noticed_s": 9.0, "cut_off": true}'
    own = '{"schema": 1, "id": "x", "who": "y", "number": 4, "started_s": 5.0, "exit": 0}'
    [run] = parse_history([cut_off]).runs
    assert (run.cut_off, run.number, run.started_s, run.exit) == (True, None, 5.0, None)
    for lines in ([cut_off, own], [own, cut_off]):
        [run] = parse_history(lines).runs
        assert (run.cut_off, run.exit) == (False, 0)


def ran(wall_s: float, exit_code: int, roles: tuple[str, ...], *nodes: str) -> Past:
    return Past(
        f"r{wall_s}", "ada", 1, 1.8e9, wall_s, exit=exit_code, nodes={name: NodePast(3, roles) for name in nodes}
    )


def test_the_time_of_a_run_is_guessed_from_those_that_did_the_same() -> None:
    both = ("time", "base")
    runs = History((
        ran(900.0, 0, both, "w1"),
        *(ran(60.0 + place, 0, both, "w1", "w2") for place in range(5)),
        ran(1.0, 5, both, "w1", "w2"),  # failed
        ran(2.0, 0, ("users", "dns", "munge"), "w1", "w2"),
        ran(3.0, 0, both, *(f"w{place}" for place in range(9))),
    ))  # fmt: skip
    assert expected_s(runs, both, 2) == 62.0
    assert expected_s(runs, ["time"], 2) == 62.0
    assert expected_s(runs, ["nfs", "slurm"], 2) is None
    assert expected_s(runs, both, 30) is None
    assert expected_s(History(), both, 2) is None


def test_runs_that_end_at_once_all_stay_in_the_copy(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "small")

    def ends(name: str) -> None:
        for number in range(20):
            copy.add([f'{{"id": "{name}{number}"}}'], None)
            copy.trust("small", f"{name}{number}", Enrolled("10.0.0.2", (), name, ("worker",), 7))

    threads = [threading.Thread(target=ends, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len((copy.folder / "history.jsonl").read_text().splitlines()) == 60
    assert len(copy.read("small", 0)[1].nodes) == 60
