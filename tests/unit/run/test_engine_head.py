"""Commands on the head while others run there, over engines whose answers come when the test says so."""

from __future__ import annotations

from collections import deque

import pytest

from hpcforge.engines.tasks import Command, Event, Task, result
from hpcforge.run.engine_head import EngineHead
from hpcforge.verify.heartbeat import Owner
from hpcforge.verify.jobs import StoppedError

OWNER = Owner("cafe", "ada@desk", {"where": "0" * 16, "pid": 1, "started": 2})


class Engine:
    """A command ends when it is let go."""

    def __init__(self) -> None:
        self.started: list[Command] = []
        self.events: deque[Event] = deque()

    def start(self, task: Task) -> None:
        assert isinstance(task, Command)
        self.started.append(task)

    def end(self, number: int) -> None:
        task = self.started[number]
        answer = result(ok=True, rc=0, stdout=" ".join(task.argv))
        self.events += [Event(task.node, task.id, "line", {"line": "x"}), Event(task.node, task.id, "result", answer)]

    def next(self, timeout_s: float | None = None) -> Event | None:
        return self.events.popleft() if self.events else None

    def run(self, task: Task) -> Event:
        raise AssertionError(task)


def test_what_is_told_waits_for_nothing_and_is_not_piled_up() -> None:
    engine = Engine()
    head = EngineHead(engine, "head", OWNER)
    seen = 0

    def meanwhile() -> None:
        nonlocal seen
        seen += 1
        head.tell(["beat"], timeout_s=1)
        if seen == 3:
            engine.end(1)  # the first beat
        if seen == 8:
            engine.end(0)

    assert head.run(["srun"], timeout_s=1, meanwhile=meanwhile).stdout == "srun"
    assert [(task.argv, task.aside) for task in engine.started] == [
        (("srun",), False),
        (("beat",), True),
        (("beat",), True),  # once the first has ended
    ]


def test_a_command_that_is_not_waited_for_any_more_is_not_taken_for_another() -> None:
    engine = Engine()
    head = EngineHead(engine, "head", OWNER)

    def stop() -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        head.run(["srun"], timeout_s=1, meanwhile=stop)
    engine_end = engine.end

    def both() -> None:
        if not engine.events and len(engine.started) == 2:
            engine_end(0)
            engine_end(1)

    assert head.run(["scancel"], timeout_s=1, aside=True, meanwhile=both).stdout == "scancel"


def test_an_engine_that_gives_no_result_is_not_waited_for_for_ever() -> None:
    ticks = iter(range(0, 1_000_000, 100))
    head = EngineHead(Engine(), "head", OWNER, clock=lambda: float(next(ticks)))
    ended = head.run(["scancel", "12"], timeout_s=30)
    assert (ended.rc, ended.stderr) == (None, "head gave no result within 330 s")
