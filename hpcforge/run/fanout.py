"""Questions to nodes, all side by side, and their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcforge.blueprint.hostlist import fold
from hpcforge.engines.tasks import Engine, Event, NodeProgram, Task
from hpcforge.node.verbs import verb_of

_WAIT_S = 1.0


def _ignore(_nodes: Collection[str]) -> None:
    pass


def ask_all(
    engine: Engine, tasks: Sequence[Task], waits: Callable[[Collection[str]], None] = _ignore
) -> Iterator[Event]:
    """Start the tasks and yield their events, until each has its result.

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
    """A node's answer: the data of the expected event, or an error; and its warnings."""

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


# Progress messages with the nodes that have not answered, and the waiting time.


FIRST_S = 5.0  # shorter waits are normal
SLOW_S = 15.0  # on a busy machine all nodes take longer
LATER = 3  # times as long as half of the nodes took: longer than normal here
EACH_S = 30.0


class Waits:
    """Called again and again with the nodes that have not answered yet; names those that take longer than others.

    Those are named after 5 s, and 3 times as long as half of the nodes took; after 15 s in any case; then every 30 s.
    `always`: a node that is asked whatever is left out; None: the verb cannot leave any out, and no hint is given.
    """

    def __init__(
        self, say: Callable[[str], None], always: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._always, self._clock = say, always, clock
        self._start_s = clock()
        self._next_s = SLOW_S
        self._count, self._half_s = 0, 0.0  # nodes at the start; the time at which half of them had answered

    def __call__(self, nodes: Collection[str]) -> None:
        """Report the nodes that have not answered yet."""
        waited_s = self._clock() - self._start_s
        self._count = max(self._count, len(nodes))
        if not self._half_s and 2 * len(nodes) <= self._count:
            self._half_s = waited_s
            self._next_s = min(self._next_s, max(FIRST_S, LATER * waited_s))
        if not nodes or waited_s < self._next_s:
            return
        self._next_s = waited_s + EACH_S
        avoidable = sorted(set(nodes) - {self._always}) if self._always is not None else []
        hint = f"; --exclude {fold(avoidable)} leaves out what does not answer" if avoidable else ""
        self._say(f"{fold(sorted(set(nodes)))}: no answer for {waited_s:.0f} s, waiting{hint}")
