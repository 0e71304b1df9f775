"""The rollout policy (canary first, N nodes at a time, a stop after failures), drains, returns to service."""

from __future__ import annotations

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcforge.engines.tasks import Command, Engine, Event, command_failure
from hpcforge.plan.admission import MARK
from hpcforge.plan.rollout_order import Order
from hpcforge.slurm.commands import show_node, update_nodes
from hpcforge.slurm.jobs import (
    SLURM_JOBS_COMMAND,
    SLURM_WAITING_COMMAND,
    asked_for,
    asks_for,
    parse_jobs,
    parse_waiting,
)
from hpcforge.slurm.nodes import SETTLE_S, drained, parse_slurm_nodes, registering

_TIMEOUT_S = 30.0
_POLL_S = 2.0

Wait = Literal["waiting", "free", "busy", "failed"]
_Question = Literal["look", "tell", "jobs", "asked for"]


@dataclass
class _NodeCommands(ABC):
    """Commands about one node, run on the controller one after the other."""

    engine: Engine
    controller: str
    node: str
    _task: str | None = field(default=None, kw_only=True)  # the command under way
    _count: int = field(default=0, kw_only=True)
    _next_s: float = field(default=0.0, kw_only=True)

    @property
    def asking(self) -> bool:
        """True until the controller has answered."""
        return self._task is not None

    def take(self, event: Event) -> bool:
        """Account for an event; return True if it belongs to the running command."""
        if event.task != self._task:
            return False
        if event.kind == "result":
            self._task = None
            self._judge(event.data)
        return True

    @abstractmethod
    def _judge(self, data: Mapping[str, Any]) -> None:
        """Continue after an answer."""

    def _run(self, purpose: str, command: Sequence[str]) -> None:
        self._count += 1
        self._task = f"{purpose}:{self.node}:{self._count}"
        self.engine.start(Command(self._task, self.controller, tuple(command), "", "root", _TIMEOUT_S))


# A finished worker returns to service while others wait for their turn, however long their jobs take.


@dataclass
class Resume(_NodeCommands):
    """The return of one worker to service, by commands on the controller.

    `over`: no further command follows. `resumed`: Slurm has just resumed it. The worker stays as it is if another user
    has drained it, if Slurm still waits for its daemon, or gives no answer: the end of the run judges all workers, and
    reports problems.
    """

    over: bool = False
    resumed: bool = False
    _resuming: bool = False  # the command under way is the one that resumes
    _given_up: bool = False
    _until_s: float = field(default_factory=lambda: time.monotonic() + SETTLE_S)

    def go_on(self) -> None:
        """Ask Slurm for its state, if it is time."""
        if not self.over and self._task is None and time.monotonic() >= self._next_s:
            self._run("back", show_node(self.node))

    def give_up(self) -> None:
        """Send Slurm no further command: the run must end, or has lost its lease."""
        self._given_up = True
        self.over = self.over or self._task is None

    def _judge(self, data: Mapping[str, Any]) -> None:
        if self._resuming or self._given_up or not data["ok"]:
            self.over, self.resumed = True, self._resuming and bool(data["ok"])
            return
        state, reason = parse_slurm_nodes(str(data["stdout"])).get(self.node, ("UNKNOWN", ""))
        if registering(state) and time.monotonic() < self._until_s:
            self._next_s = time.monotonic() + _POLL_S
        elif registering(state) or not drained(state) or not reason.startswith(MARK):
            self.over = True
        else:
            self._resuming = True
            self._run("back", update_nodes(self.node, "RESUME"))


# A drain before a change that disturbs jobs: no new jobs start, running jobs end by themselves, none is killed.


@dataclass
class Drain(_NodeCommands):
    """The drain of one node, by commands on the controller.

    `state` "busy": time is up and jobs still run; or it `leaves`, and by now a waiting job asks for it by name.
    """

    why: str
    limit_s: float
    leaves: bool = False
    state: Wait = "waiting"
    detail: str = ""
    jobs: tuple[str, ...] = ()
    _command: str = ""  # the running command, for messages
    _question: _Question = "look"  # its purpose
    _until_s: float = 0.0

    def begin(self) -> None:
        """Check whether another user has drained the node; the plan may be hours old."""
        self._until_s = time.monotonic() + self.limit_s
        self._ask("look", *show_node(self.node))

    def go_on(self) -> None:
        """Count its jobs again, if it is time."""
        if self.state == "waiting" and self._task is None and time.monotonic() >= self._next_s:
            self._ask("jobs", *SLURM_JOBS_COMMAND, f"--nodelist={self.node}")

    def _judge(self, data: Mapping[str, Any]) -> None:
        if not data["ok"]:
            self.state, self.detail = "failed", command_failure(self._command, data)
        elif self._question == "asked for":
            asking = asks_for(self.node, parse_waiting(str(data["stdout"])))
            self.state, self.detail = ("busy", asked_for(self.node, asking)) if asking else ("free", "")
        elif self._question == "look":
            self._drain(str(data["stdout"]))
        elif self._question == "jobs":
            self._count_jobs(str(data["stdout"]))

    def _drain(self, output: str) -> None:
        """Drain the node; keep the reason of an earlier drain."""
        listed = parse_slurm_nodes(output).get(self.node)
        if listed is None:
            self.state, self.detail = "failed", "Slurm does not report the node's state"
        elif not drained(listed[0]):
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
        self._question = question
        self._command = "squeue" if question in ("jobs", "asked for") else shlex.join(argv)
        self._run("drain", argv)


TurnEnd = Literal["done", "failed", "deferred", "other"]


@dataclass(frozen=True)
class Begin:
    """The permission of a node: begin now, wait, or `never` begin, with the reason."""

    now: bool
    never: str = ""


class Rollout:
    """The turns of nodes. It gets every start and end, and answers in constant time."""

    def __init__(self, order: Order) -> None:
        self._plan, self._order = order.plan, order
        self._away: set[str] = set()
        self._ended: dict[str, TurnEnd] = {}
        self._failed: list[str] = []
        self._first: dict[str, tuple[str, ...]] = {}  # group -> its canaries, until one of its nodes is deferred

    def begin(self, node: str) -> None:
        """Record that the node has begun, or is being emptied. May be called again."""
        if node in self._order.limited and node not in self._ended:
            self._away.add(node)

    def end(self, node: str, how: TurnEnd) -> None:
        """Record that the node has finished."""
        self._away.discard(node)
        self._ended[node] = how
        if how == "failed":
            self._failed.append(node)
        if how == "deferred":
            self._first.pop(self._group(node), None)

    def may_begin(self, node: str) -> Begin:
        """Return the permission of a node that has not begun."""
        if node not in self._order.held:
            return Begin(True)
        rollout = self._plan.policy.rollout
        if rollout.stop_after_failures is not None and len(self._failed) >= rollout.stop_after_failures:
            return Begin(False, f"stopped after {len(self._failed)} failed: {', '.join(self._failed)}")
        first = self._canaries(self._group(node))
        for canary in first if node not in first else ():
            if canary not in self._ended:
                return Begin(False)
            if self._ended[canary] != "done":
                ending = "failed" if self._ended[canary] == "failed" else "was not done"
                return Begin(False, f"its canary {canary} {ending}")
        full = rollout.at_most is not None and len(self._away) >= rollout.at_most
        return Begin(not (full and node in self._order.limited))

    def _group(self, node: str) -> str:
        return self._plan.policy.groups.get(node, node)

    def _canaries(self, group: str) -> tuple[str, ...]:
        if group not in self._first:
            deferred = {node for node, how in self._ended.items() if how == "deferred"}
            self._first[group] = self._order.canaries(group, deferred)
        return self._first[group]
