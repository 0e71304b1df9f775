"""The head as smoke tests need it, over hpcforge's own connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpcforge.engines.tasks import Command, Engine
from hpcforge.run.records.lease import this_process
from hpcforge.run.result import Run
from hpcforge.verify.head import Completed
from hpcforge.verify.heartbeat import Owner

_SLICE_S = 0.2  # the interval of `meanwhile`
_LATE_S = 300.0  # beyond the time limit of a command, for a new connection


def _never() -> bool:
    return False


@dataclass
class EngineHead:
    """Commands on a node, for a run. No other task may be running: its events are dropped."""

    engine: Engine
    node: str
    owner: Owner
    stop: Callable[[], bool] = _never
    clock: Callable[[], float] = time.monotonic
    _begun: set[str] = field(default_factory=set)
    _ended: dict[str, Completed] = field(default_factory=dict)
    _background: str | None = None  # the running command that no caller waits for

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        user: str | None = None,
        timeout_s: float,
        aside: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Completed:
        """Run one command, as root without a user."""
        task = self._begin(argv, stdin, user, timeout_s, aside)
        due_s = self.clock() + timeout_s + _LATE_S
        while task not in self._ended:
            if self.clock() > due_s:
                self._begun.discard(task)
                return Completed(None, "", f"{self.node} gave no result within {timeout_s + _LATE_S:.0f} s")
            self._listen(_SLICE_S)
            if meanwhile is not None and task not in self._ended:
                meanwhile()
        return self._ended.pop(task)

    def tell(self, argv: Sequence[str], *, timeout_s: float) -> None:
        """Begin a command, aside, unless the last one has not ended yet."""
        if self._background is None or self._ended.pop(self._background, None) is not None:
            self._background = self._begin(argv, "", None, timeout_s, aside=True)

    def pause(self, seconds: float, meanwhile: Callable[[], None]) -> None:
        """Wait, and take events."""
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self._listen(min(_SLICE_S, left_s))
            meanwhile()

    def _begin(self, argv: Sequence[str], stdin: str, user: str | None, timeout_s: float, aside: bool) -> str:
        task = f"verify:{time.monotonic_ns()}"
        self._begun.add(task)
        self.engine.start(Command(task, self.node, tuple(argv), stdin, user or "root", timeout_s, aside))
        return task

    def _listen(self, timeout_s: float) -> None:
        event = self.engine.next(timeout_s)
        if event is not None and event.kind == "result" and event.task in self._begun:
            data = event.data
            self._begun.discard(event.task)
            self._ended[event.task] = Completed(data["rc"], data["stdout"], data["stderr"] or data["error"] or "")


def owner(run: Run) -> Owner:
    """Return this run as the owner of its jobs."""
    return Owner(run.id, run.who, this_process())
