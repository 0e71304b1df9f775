"""Questions to nodes, all side by side, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcforge.engines.tasks import Engine, Event, NodeProgram, Task
from hpcforge.node.verbs import verb_of

_WAIT_S = 1.0


def _ignore(_nodes: Collection[str]) -> None:
    pass


def ask_all(
    engine: Engine, tasks: Sequence[Task], waits: Callable[[Collection[str]], None] = _ignore
) -> Iterator[Event]:
    """Start the tasks and yield what they say as it comes, until each has its result.

    No other task may be running: its events are dropped. At least once a second `waits` gets the nodes without a
    result.
    """
    waiting = {task.id: task.node for task in tasks}
    for task in tasks:
        engine.start(task)
    while waiting:
        waits(waiting.values())
        event = engine.next(_WAIT_S)
        if event is not None and event.task in waiting:
            if event.kind == "result":
                del waiting[event.task]
            yield event


@dataclass(frozen=True)
class Answer:
    """What a node said: the data of the event that was asked for, or why there is none; and its warnings."""

    data: Mapping[str, Any] | None
    error: str = ""
    warnings: tuple[str, ...] = field(default=())


def exchange(engine: Engine, task: NodeProgram) -> Answer:
    """Ask one node, and wait for the event that answers such a request; as `ask_all`."""
    kind = verb_of(task.request).answer
    data: Mapping[str, Any] | None = None
    error, warnings, python = "", list[str](), True
    for event in ask_all(engine, [task]):
        if event.kind == kind:
            data = event.data
        elif event.kind == "warning":
            warnings.append(str(event.data.get("detail")))
        elif event.kind == "no_python":
            python = False
        elif event.kind == "result":
            error = str(event.data.get("error") or ("no answer" if python else "it has no Python yet"))
    return Answer(data, "" if data is not None else error, tuple(warnings))
