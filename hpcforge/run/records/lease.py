"""The lease on the head: while one run holds it, the next reports the holder and the time.

A `Lease` wraps the engines and adds a heartbeat: waiting for an event through it keeps the lease alive. Engines may be
used from one thread only, so there is no thread that could beat while the others work.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from hpcforge.engines.tasks import Engine, EngineError, Event, NodeProgram, Task
from hpcforge.errors import ExpectedError
from hpcforge.node.requests import HoldLeaseRequest, ProcessRequest, ReadLeaseRequest
from hpcforge.run.fanout import exchange

STALE_S = 90.0  # of silence, after which another run may take the lease
BEAT_S = 30.0
_POLL_S = 2.0  # how often a waiting apply asks again
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class LeaseHolder:
    """The holder of the lease; spans in seconds by the head's clock."""

    run_id: str
    who: str  # user@host
    number: int | None  # of the run, once it has one
    process: Mapping[str, Any] | None  # from `this_process` on its machine
    age_s: float
    silent_s: float

    def sentence(self) -> str:
        """`ada@login1 has been at work on this cluster since 2026-11-20 16:40:12 (12 min), run 7`."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - self.age_s))
        age = f"{self.age_s:.0f} s" if self.age_s < 120 else f"{self.age_s / 60:.0f} min"
        run = f", run {self.number}" if self.number else ""
        return f"{self.who} has been at work on this cluster since {since} ({age}){run}"


class LeaseHeldError(ExpectedError):
    """Another apply holds the lease: `holder`; `hint` says what to do."""

    kind = "busy"

    def __init__(self, holder: LeaseHolder) -> None:
        left_s = max(1.0, STALE_S - holder.silent_s)
        super().__init__(
            holder.sentence(),
            f"--lock-timeout SECONDS waits for it; the lease of a dead run expires after {STALE_S:.0f} s of silence, "
            f"at the earliest in {left_s:.0f} s",
        )
        self.holder = holder


def take(
    engine: Engine,
    head: str,
    run_id: str,
    operator: str,
    wait_s: float,
    say: Callable[[str], None],
    stop: Callable[[], bool] = lambda: False,
) -> Lease:
    """Take the lease on the head; wait up to `wait_s` seconds for its holder.

    A silent head is a warning and not an error: the nodes' own locks also separate two runs.

    Raises:
        LeaseHeldError: another run still holds it.
        KeyboardInterrupt: `stop()` turned true while waiting.
    """
    lease = Lease(engine, head, run_id, operator, say)
    until, announced, dead = time.monotonic() + wait_s, "", ""
    holder = lease.ask()
    while holder is not None:
        if holder.run_id != dead and ended(holder.process):
            dead = holder.run_id
            say(f"{holder.sentence()}; that process has ended on this machine without giving back the lease")
            holder = lease.ask(over=holder.run_id)
            continue
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise LeaseHeldError(holder)
        if holder.run_id != announced:
            say(f"{holder.sentence()}: waiting up to {left_s:.0f} s for it to end")
            announced = holder.run_id
        if stop():
            raise KeyboardInterrupt
        time.sleep(min(_POLL_S, left_s))
        holder = lease.ask()
    return lease


class Lease:
    """The engines of a run that holds the lease, or that could not ask for it: then `held` is False.

    A context manager that releases it; an exception is written to the history. `lost` is set when another run has taken
    over because this one was silent for too long: finish running work, start no more.
    """

    def __init__(self, engine: Engine, head: str, run_id: str, operator: str, say: Callable[[str], None]) -> None:
        self.held = False
        self.lost: str | None = None
        self._number: int | None = None
        self._nodes: frozenset[str] = frozenset()
        self._sent: frozenset[str] = frozenset()  # with the heartbeat that is under way
        self._engine, self._head, self._say = engine, head, say
        self._run_id, self._operator, self._process = run_id, operator, this_process()
        self._queue: deque[Event] = deque()  # seen by `run` or `ask`, not yet by `next`
        self._count = 0
        self._beat: str | None = None  # the task that is under way
        self._answer: Event | None = None  # the head's answer in it
        self._due = 0.0
        self._asking = False  # `ask` waits for the answer
        self._unanswered = False  # the head does not answer, and the operator has been warned

    @property
    def number(self) -> int | None:
        """The run's number, which others see; None until it has one."""
        return self._number

    @number.setter
    def number(self, number: int) -> None:
        self._number, self._due = number, 0.0  # the next heartbeat sends it, so that a dead run has a number

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that the run restarts, installs, removes or switches: the head holds back their alerts."""
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: frozenset[str]) -> None:
        if nodes != self._nodes:
            self._nodes, self._due = nodes, 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release(cut_off=kind is not None and self.number is not None)

    def start(self, task: Task) -> None:
        """Begin a task."""
        self._engine.start(task)

    def withdraw(self, task: str) -> bool:
        """Cancel a task that has not started; False if it has."""
        return self._engine.withdraw(task)

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event of any other task; None when none came in time (None waits for ever)."""
        if self._queue:
            return self._queue.popleft()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._beat_if_due()
            event = self._wait_once(BEAT_S if until is None else max(0.0, until - time.monotonic()))
            if event is not None or (until is not None and time.monotonic() >= until):
                return event

    def run(self, task: Task) -> Event:
        """Start a task and wait for its result; all other events are kept for `next`."""
        self.start(task)
        while True:
            self._beat_if_due()
            event = self._wait_once(BEAT_S)
            if event is not None and event.task == task.id and event.kind == "result":
                return event
            if event is not None:
                self._queue.append(event)

    def ask(self, over: str | None = None) -> LeaseHolder | None:
        """Ask for the lease, also in place of the dead run `over`. Return its holder, if there is another."""
        self._asking = True
        self._begin(over)
        while self._beat is not None:
            event = self._wait_once(BEAT_S)
            if event is not None:
                self._queue.append(event)
        self._asking = False
        return _holder(self._answer.data if self._answer else None)

    def stay_alive(self) -> None:
        """Send a heartbeat, if it is time: call this every few seconds in work that sends nothing to the engines."""
        event = self._wait_once(0.0)
        if event is not None:
            self._queue.append(event)
        self._beat_if_due()

    def _beat_if_due(self) -> None:
        if self._beat is None and self.lost is None and time.monotonic() >= self._due:
            self._begin(None)

    def release(self, *, cut_off: bool = False) -> None:
        """Release it, so that no run waits for its expiry. `cut_off`: the run was interrupted."""
        if self.held and self.lost is None:
            self.held = False
            with contextlib.suppress(EngineError):
                self._engine.run(self._program("drop", cut_off=cut_off))

    def _begin(self, over: str | None) -> None:
        task = self._program("take", over)
        self._sent = self._nodes
        self._beat, self._answer = task.id, None
        self._engine.start(task)

    def _program(self, do: Literal["take", "drop"], over: str | None = None, cut_off: bool = False) -> NodeProgram:
        self._count += 1
        request: HoldLeaseRequest = {
            "verb": "lease",
            "do": do,
            "stale_s": STALE_S,
            "over": over,
            "number": self.number,
            "cut_off": cut_off,
            "run_id": self._run_id,
            "who": self._operator,
            "process": self._process,
            "nodes": sorted(self._nodes),
        }
        task = f"lease:{self._run_id}:{self._count}"
        return NodeProgram(task, self._head, request, _TIMEOUT_S, aside=True)

    def _wait_once(self, timeout_s: float) -> Event | None:
        """Wait once, not beyond the next heartbeat; handle the events of heartbeats here."""
        rest_s = BEAT_S if self._beat or self.lost else max(0.0, self._due - time.monotonic())
        event = self._engine.next(min(timeout_s, rest_s))
        if event is None or event.task != self._beat:
            return event
        if event.kind == "warning":
            self._say(f"{self._head}: {event.data.get('detail')}")
        elif event.kind == "result":
            self._conclude(event.data)
        elif event.kind in ("lease", "no_python"):
            self._answer = event
        return None

    def _conclude(self, data: Mapping[str, Any]) -> None:
        self._beat = None
        self._due = time.monotonic() + BEAT_S if self._sent == self._nodes else 0.0
        if self._answer is None or self._answer.kind == "no_python":
            reason = "it has no Python yet" if self._answer else data.get("error") or "no answer"
            if not self._unanswered:
                self._say(f"no lease on {self._head} ({reason}): the nodes' own locks still separate two runs")
            self._unanswered = True
            return
        self._unanswered = False
        holder, before = _holder(self._answer.data), self.held
        self.held = holder is None
        if holder is not None and not self._asking:
            reason = "took over because this run was silent too long" if before else "was not visible before"
            self.lost = f"{holder.sentence()}, and {reason}"
            self._say(self.lost)


def look(engine: Engine, head: str) -> LeaseHolder | None:
    """Return the holder on the head; None too without an answer. No other task may be running."""
    request: ReadLeaseRequest = {"verb": "lease", "do": "look", "stale_s": STALE_S}
    answer = exchange(engine, NodeProgram(f"lease:look:{time.monotonic_ns()}", head, request, _TIMEOUT_S))
    return _holder(answer.data)


def watched(
    engine: Engine, leaving: Collection[str], arriving: Collection[str], listen: Callable[[Event], None]
) -> Callable[[Event], None]:
    """Return a listener that keeps the lease's list of nodes that leave, are installed or restart, until they end.

    A node that has left stays in it until the run ends: the head's monitoring forgets it later than Slurm does.
    """
    if not isinstance(engine, Lease):
        return listen
    lease = engine
    lease.nodes = frozenset((*leaving, *arriving))

    def event(event: Event) -> None:
        if event.kind == "restarting":
            lease.nodes |= {event.node}
        elif event.kind == "ended" and (event.node not in leaving or event.data["status"] in ("failed", "deferred")):
            lease.nodes -= {event.node}
        listen(event)

    return event


def this_process() -> ProcessRequest:
    """Return the identity of this process, unique among all that are visible here, now or after it has ended."""
    return {"where": _boot_digest(), "pid": os.getpid(), "started": _started(os.getpid())}


def ended(process: Mapping[str, Any] | None) -> bool:
    """Return True if its process ran on this machine and has ended; False if that is unknown."""
    if process is None or not isinstance(process.get("pid"), int) or process.get("where") != _boot_digest():
        return False
    return _started(process["pid"]) != process.get("started")


def _boot_digest() -> str:
    """Return the boot of this kernel and the pid namespace: only within them does a number mean the same process."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii")
    return hashlib.sha256(f"{boot}{Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:16]


def _started(pid: int) -> int | None:
    """Return the start of a process, in clock ticks since boot (field 22 of proc_pid_stat(5)); None without one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _holder(answer: Mapping[str, Any] | None) -> LeaseHolder | None:
    record = answer.get("held") if answer is not None else None
    if not isinstance(record, Mapping):
        return None
    operator = "".join(character if character.isprintable() else "?" for character in str(record.get("who")))
    number, process = record.get("number"), record.get("process")
    return LeaseHolder(
        run_id=str(record.get("run_id")),
        who=operator,
        number=number if isinstance(number, int) else None,
        process=process if isinstance(process, Mapping) else None,
        age_s=_seconds(record.get("age_s")),
        silent_s=_seconds(record.get("silent_s")),
    )


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
