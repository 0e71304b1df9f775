"""One question to one node, and its one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcforge.engines.tasks import Engine, Program
from hpcforge.node.requests import verb_of

_WAIT_S = 1.0


@dataclass(frozen=True)
class Answer:
    """What a node said: the data of the event that was asked for, or why there is none; and its warnings."""

    data: Mapping[str, Any] | None
    error: str = ""
    warnings: tuple[str, ...] = field(default=())


def exchange(engine: Engine, task: Program) -> Answer:
    """Ask, and wait for the event that answers such a request.

    Nothing else may be under way: what other tasks say is dropped.
    """
    engine.start(task)
    kind = verb_of(task.request).answer
    data: Mapping[str, Any] | None = None
    warnings: list[str] = []
    python = True
    while True:
        event = engine.next(_WAIT_S)
        if event is None or event.task != task.id:
            continue
        if event.kind == kind:
            data = event.data
        elif event.kind == "warning":
            warnings.append(str(event.data.get("detail")))
        elif event.kind == "no_python":
            python = False
        elif event.kind == "result":
            why = str(event.data.get("error") or ("no answer" if python else "it has no Python yet"))
            return Answer(data, "" if data is not None else why, tuple(warnings))
