"""A worker that is done goes back into service while others wait for their turn, however long their jobs take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcforge.engines.tasks import Command, Engine, Event
from hpcforge.plan.admission import MARK
from hpcforge.slurm.commands import show_node, update_nodes
from hpcforge.slurm.nodes import SETTLE_S, drained, parse_slurm_nodes, registering

_TIMEOUT_S = 30.0
_POLL_S = 2.0


@dataclass
class Resume:
    """One worker, brought back by commands on the controller.

    `over`: no more is done. `resumed`: just now Slurm was told to use it. Where that was not to be, because somebody
    else has drained it, Slurm still waits for its daemon, or gives no answer, it stays as it is: all workers are judged
    at the end of a run, and what is wrong is said then.
    """

    engine: Engine
    controller: str
    node: str
    over: bool = False
    resumed: bool = False
    _asked: str | None = None  # the command under way
    _telling: bool = False  # it is the one that resumes
    _given_up: bool = False
    _count: int = 0
    _next_s: float = 0.0
    _until_s: float = field(default_factory=lambda: time.monotonic() + SETTLE_S)

    @property
    def asking(self) -> bool:
        """True until the controller has answered."""
        return self._asked is not None

    def go_on(self) -> None:
        """Look how Slurm has it, if it is time to."""
        if not self.over and self._asked is None and time.monotonic() >= self._next_s:
            self._ask(show_node(self.node))

    def give_up(self) -> None:
        """Tell Slurm nothing more: the run is to end, or another has taken its place."""
        self._given_up = True
        self.over = self.over or self._asked is None

    def take(self, event: Event) -> bool:
        """Account for an event; True if it was the answer to this one's own command."""
        if event.task != self._asked:
            return False
        if event.kind == "result":
            self._asked = None
            self._judge(event.data)
        return True

    def _judge(self, data: Mapping[str, Any]) -> None:
        if self._telling or self._given_up or not data["ok"]:
            self.over, self.resumed = True, self._telling and bool(data["ok"])
            return
        state, reason = parse_slurm_nodes(str(data["stdout"])).get(self.node, ("UNKNOWN", ""))
        if registering(state) and time.monotonic() < self._until_s:
            self._next_s = time.monotonic() + _POLL_S
        elif registering(state) or not drained(state) or not reason.startswith(MARK):
            self.over = True
        else:
            self._telling = True
            self._ask(update_nodes(self.node, "RESUME"))

    def _ask(self, command: Sequence[str]) -> None:
        self._count += 1
        self._asked = f"back:{self.node}:{self._count}"
        self.engine.start(Command(self._asked, self.controller, tuple(command), "", "root", _TIMEOUT_S))
