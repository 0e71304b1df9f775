"""Before a node's jobs would be disturbed: no new ones for it, and the running ones are waited for, never killed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hpcforge.engines.tasks import Command, Engine, Event, command_failure
from hpcforge.plan.admission import MARK
from hpcforge.slurm.commands import show_node, update_nodes
from hpcforge.slurm.jobs import (
    SLURM_JOBS_COMMAND,
    SLURM_WAITING_COMMAND,
    asked_for,
    asks_for,
    parse_jobs,
    parse_waiting,
)
from hpcforge.slurm.nodes import drained, parse_slurm_nodes

_TIMEOUT_S = 30.0
_POLL_S = 2.0

Wait = Literal["waiting", "free", "busy", "failed"]
_Question = Literal["look", "tell", "jobs", "asked for"]


@dataclass
class Drain:
    """One node being emptied, by commands on the controller.

    `state` "busy": time is up and jobs still run; or it `leaves`, and by now a waiting job asks for it by name.
    """

    engine: Engine
    controller: str
    node: str
    why: str
    limit_s: float
    leaves: bool = False
    state: Wait = "waiting"
    detail: str = ""
    jobs: tuple[str, ...] = ()
    _asked: str | None = None  # the command under way
    _command: str = ""  # for people
    _question: _Question = "look"  # what it asks
    _count: int = 0
    _next_s: float = 0.0
    _until_s: float = 0.0

    @property
    def asking(self) -> bool:
        """True until the controller has answered."""
        return self._asked is not None

    def begin(self) -> None:
        """Check whether another user has drained the node; the plan may be hours old."""
        self._until_s = time.monotonic() + self.limit_s
        self._ask("look", *show_node(self.node))

    def go_on(self) -> None:
        """Look again, if it is time to."""
        if self.state == "waiting" and self._asked is None and time.monotonic() >= self._next_s:
            self._ask("jobs", *SLURM_JOBS_COMMAND, f"--nodelist={self.node}")

    def take(self, event: Event) -> bool:
        """Account for an event; True if it was the answer to this drain's own command."""
        if event.task != self._asked:
            return False
        if event.kind == "result":
            self._asked = None
            self._judge(event.data)
        return True

    def _judge(self, data: Mapping[str, Any]) -> None:
        if not data["ok"]:
            self.state, self.detail = "failed", command_failure(self._command, data)
        elif self._question == "asked for":
            asking = asks_for(self.node, parse_waiting(str(data["stdout"])))
            self.state, self.detail = ("busy", asked_for(self.node, asking)) if asking else ("free", "")
        elif self._question == "look":
            self._tell(str(data["stdout"]))
        elif self._question == "jobs":
            self._count_jobs(str(data["stdout"]))

    def _tell(self, output: str) -> None:
        """Have Slurm start nothing more there, unless it starts nothing there already: that reason stays."""
        seen = parse_slurm_nodes(output).get(self.node)
        if seen is None:
            self.state, self.detail = "failed", "Slurm does not report the node's state"
        elif not drained(seen[0]):
            self._ask("tell", *update_nodes(self.node, "DRAIN", f"{MARK}{self.why}"))

    def _count_jobs(self, output: str) -> None:
        self.jobs = parse_jobs(output).get(self.node, ())
        if not self.jobs and self.leaves:
            self._ask("asked for", *SLURM_WAITING_COMMAND)
        elif not self.jobs:
            self.state = "free"
        elif time.monotonic() >= self._until_s:
            self.state, self.detail = "busy", f"jobs still run there: {', '.join(self.jobs)}"
        self._next_s = time.monotonic() + _POLL_S

    def _ask(self, question: _Question, *argv: str) -> None:
        self._count += 1
        self._question, self._asked = question, f"drain:{self.node}:{self._count}"
        self._command = "squeue" if question in ("jobs", "asked for") else shlex.join(argv)
        self.engine.start(Command(self._asked, self.controller, argv, "", "root", _TIMEOUT_S))
