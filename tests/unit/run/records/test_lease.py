"""Holding the lease, over an engine that answers with the node program's own code in a folder of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hpcforge.engines.tasks import Command, Engine, Event, NodeProgram, Task, result
from hpcforge.node import lease as node
from hpcforge.node.events import EventReporter
from hpcforge.run.records import lease as leases
from hpcforge.run.records.lease import Lease, LeaseHeldError, LeaseHolder, ended, look, take, this_process, watched


class Head:
    """An engine with one node. `away` is why it does not answer, `python` whether it has one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = folder, deque[Event]()
        self.away: str | None = None
        self.python = True
        self.asked: list[str] = []

    def start(self, task: Task) -> None:
        if not isinstance(task, NodeProgram):
            self.events.append(Event(task.node, task.id, "line", {"line": "hello"}))
            self.events.append(Event(task.node, task.id, "result", result(ok=True)))
            return
        assert task.aside or task.request["do"] == "look"
        self.asked.append(task.request["do"])
        if self.away:
            self.events.append(Event(task.node, task.id, "result", result(error=self.away, reason="timeout")))
            return
        heard: list[dict[str, Any]] = []
        if self.python:
            node.lease(dict(json.loads(json.dumps(task.request))), EventReporter(heard.append), self.folder)
        else:
            heard.append({"event": "no_python"})
        self.events.extend(Event(task.node, task.id, each.pop("event"), each) for each in heard)
        self.events.append(Event(task.node, task.id, "result", result(ok=True)))

    def next(self, timeout_s: float | None = None) -> Event | None:
        if not self.events:
            time.sleep(min(timeout_s or 0.0, 0.05))
            return None
        return self.events.popleft()

    def run(self, task: Task) -> Event:
        self.start(task)
        while (event := self.events.popleft()).kind != "result":
            pass
        return event


@pytest.fixture
def head(tmp_path: Path) -> Head:
    return Head(tmp_path / "hpcforge")


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def another_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def held_by(head: Head, process: dict[str, Any] | None = None) -> None:
    """Somebody on another machine, or the given process of this one, takes the lease."""
    request = {"do": "take", "run_id": "bobs", "who": "bob@far", "process": process, "stale_s": 90, "number": 7}
    node.lease(request, EventReporter(lambda event: None), head.folder)


def silent_for(head: Head, seconds: float) -> None:
    path = head.folder / "lease.json"
    document = json.loads(path.read_text())
    document["beat"]["up_s"] -= seconds
    path.write_text(json.dumps(document))


def beat_until(lease: Lease, come: Callable[[], object]) -> None:
    """Wait for events, of which there are none, until heartbeats have brought this about."""
    until = time.monotonic() + 60
    while not come():
        assert time.monotonic() < until
        assert lease.next(0.05) is None


def test_it_is_taken_and_given_back(head: Head, said: list[str]) -> None:
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        assert lease.held
        other = look(head, "head")
        assert other is not None
        assert other.who == "ada@near"
    assert look(head, "head") is None
    assert said == []


def test_the_second_is_refused_and_told(head: Head, said: list[str]) -> None:
    held_by(head)
    with pytest.raises(
        LeaseHeldError, match=r"bob@far has been at work on this cluster since \d{4}-.*\(\d+ s\), run 7"
    ) as e:
        take(head, "head", "mine", "ada@near", 0, said.append)
    assert "--lock-timeout" in e.value.hint
    assert e.value.holder.run_id == "bobs"


def test_it_waits_saying_for_whom_and_goes_on_when_that_ends(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "_POLL_S", 0.01)
    held_by(head)
    asked = iter(range(100))

    def bob_ends_at_the_fifth_look() -> bool:
        if next(asked) == 4:
            node.lease({"do": "drop", "run_id": "bobs"}, EventReporter(lambda event: None), head.folder)
        return False

    lease = take(head, "head", "mine", "ada@near", 30, said.append, bob_ends_at_the_fifth_look)
    assert lease.held
    assert len(said) == 1
    assert "run 7: waiting up to " in said[0]


def test_waiting_ends(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "_POLL_S", 0.01)
    held_by(head)
    with pytest.raises(LeaseHeldError):
        take(head, "head", "mine", "ada@near", 0.1, said.append)
    with pytest.raises(KeyboardInterrupt):
        take(head, "head", "mine", "ada@near", 30, said.append, lambda: True)


def test_what_a_killed_apply_of_this_machine_held_is_free_at_once(
    head: Head, said: list[str], another_process: subprocess.Popen[bytes]
) -> None:
    process = {**this_process(), "pid": another_process.pid, "started": leases._started(another_process.pid)}
    held_by(head, process)
    with pytest.raises(LeaseHeldError):
        take(head, "head", "mine", "ada@near", 0, said.append)
    another_process.kill()
    another_process.wait()
    assert take(head, "head", "mine", "ada@near", 0, said.append).held
    assert "ended on this machine" in said[0]
    [line] = (head.folder / "history.jsonl").read_text().splitlines()
    assert json.loads(line)["cut_off"]


def test_who_has_ended_can_be_told_only_here() -> None:
    here = this_process()
    assert not ended(here)
    assert ended({**here, "started": 1})  # the number was given to another since
    assert ended({**here, "pid": 2**22 + 1})
    assert not ended({**here, "where": "another machine", "pid": 2**22 + 1})
    assert not ended(None)
    assert not ended({})


def test_work_keeps_it_alive(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        lease.number = 12
        beat_until(lease, lambda: head.asked.count("take") >= 3)
        other = look(head, "head")
        assert other is not None
        assert (other.run_id, other.number) == ("mine", 12)


def test_work_without_the_engines_keeps_it_alive_too(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        lease.start(Command("a", "head", ("true",)))
        until = time.monotonic() + 60
        while head.asked.count("take") < 4:
            assert time.monotonic() < until
            lease.stay_alive()
        seen = [lease.next(1.0) for _ in range(2)]
        assert [event.kind for event in seen if event] == ["line", "result"]  # nothing is lost meanwhile


def test_the_number_is_told_at_once(head: Head, said: list[str]) -> None:
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        lease.number = 12
        assert lease.next(0.01) is None
        other = look(head, "head")
        assert other is not None
        assert other.number == 12


def test_the_head_learns_which_nodes_a_run_restarts_installs_or_removes(head: Head, said: list[str]) -> None:
    heard: list[Event] = []

    def named() -> list[str]:
        assert lease.next(0.01) is None
        names: list[str] = json.loads((head.folder / "lease.json").read_text())["nodes"]
        return names

    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        assert named() == []
        listen = watched(lease, ["w01", "w02"], ["w03"], heard.append)
        assert named() == ["w01", "w02", "w03"]
        listen(Event("w04", "", "restarting", {"detail": ""}))
        listen(Event("w05", "", "stage", {}))
        assert named() == ["w01", "w02", "w03", "w04"]
        listen(Event("w01", "", "ended", {"status": "done"}))  # it leaves: the head has yet to forget it
        listen(Event("w02", "", "ended", {"status": "deferred"}))  # it stays
        listen(Event("w03", "", "ended", {"status": "failed"}))
        listen(Event("w04", "", "ended", {"status": "other"}))  # it did not come back
        assert named() == ["w01"]
    assert len(heard) == 6
    assert watched(head, ["w01"], [], heard.append) == heard.append


@pytest.mark.parametrize(("number", "lines"), [(12, 1), (None, 0)])
def test_a_run_that_is_torn_off_is_in_the_history_if_it_had_begun(
    head: Head, said: list[str], number: int | None, lines: int
) -> None:
    with pytest.raises(KeyboardInterrupt), take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        if number:
            lease.number = number
        raise KeyboardInterrupt
    assert look(head, "head") is None
    history = head.folder / "history.jsonl"
    told = [json.loads(line) for line in history.read_text().splitlines()] if history.exists() else []
    assert len(told) == lines
    assert all((line["number"], line["cut_off"]) == (12, True) for line in told)


def test_events_of_others_pass_through_in_order(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.0)  # a heartbeat before every event
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        lease.start(Command("a", "head", ("true",)))
        assert lease.run(Command("b", "head", ("true",))).task == "b"
        seen = [lease.next(1.0) for _ in range(3)]
        assert [(event.task, event.kind) for event in seen if event] == [("a", "line"), ("a", "result"), ("b", "line")]
        assert lease.next(0.0) is None


def test_one_that_was_silent_too_long_is_told_that_it_lost(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        silent_for(head, 100)
        held_by(head)
        beat_until(lease, lambda: lease.lost)
        assert lease.lost is not None
        assert "bob@far" in lease.lost
        assert "silent too long" in lease.lost
        assert said == [lease.lost]
    other = look(head, "head")
    assert other is not None
    assert other.run_id == "bobs"  # not given back: it is not ours


@pytest.mark.parametrize("state", ["away", "no python"])
def test_without_an_answer_work_goes_on_and_that_is_said_once(
    head: Head, said: list[str], monkeypatch: Any, state: str
) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    head.away, head.python = ("no route to head" if state == "away" else None), False
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        beat_until(lease, lambda: head.asked.count("take") >= 3)
        assert not lease.held
        assert len(said) == 1
        assert "nodes' own locks" in said[0]
        head.away, head.python = None, True
        beat_until(lease, lambda: lease.held)
    assert look(head, "head") is None


def test_a_holder_that_could_not_be_seen_at_first_stops_us_later(head: Head, said: list[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    held_by(head)
    head.away = "no route"
    with take(head, "head", "mine", "ada@near", 0, said.append) as lease:
        head.away = None
        beat_until(lease, lambda: lease.lost)
        assert lease.lost is not None
        assert "was not visible before" in lease.lost


def test_what_a_head_says_is_data(head: Head, said: list[str]) -> None:
    answer = {"held": {"run_id": 5, "who": "eve\x1b[2J", "number": "x", "process": [], "age_s": None}}
    assert leases._holder(answer) == LeaseHolder("5", "eve?[2J", None, None, 0.0, 0.0)
    assert not ended(LeaseHolder("5", "eve", None, None, 0.0, 0.0).process)


def test_engine_protocol(head: Head) -> None:
    engine: Engine = Lease(head, "head", "mine", "ada@near", print)
    assert engine.run(Command("a", "head", ("true",))).data["ok"]
