"""The common interface of the engines: it takes tasks, and returns events from one queue."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hpcforge.atomic import write_atomically
from hpcforge.engines.ansible import Playbooks
from hpcforge.engines.child_process import ChildProcess, take
from hpcforge.engines.commands import order
from hpcforge.engines.host_keys import known_hosts
from hpcforge.engines.tasks import (
    Ansible,
    Bootstrap,
    Command,
    Deploy,
    EngineError,
    Event,
    HostKey,
    NodeProgram,
    Target,
    Task,
    result,
)


class Engines:
    """Runs tasks on nodes. A context manager; may be used from one thread at a time.

    `work_dir` gets known_hosts and, while they run, Ansible's files; it must be private to the operator.
    `via` is the jump host to nodes, which may be a node itself; None: direct connections.
    `artifacts` is the folder with files for nodes on this host; deploy.py gets it as `host.data.artifacts`.
    Entering raises EngineError with the child process's last message if it cannot run here.
    """

    def __init__(self, targets: Iterable[Target], work_dir: Path, artifacts: Path, via: Target | None = None) -> None:
        self._via = via
        self._targets = {target.name: target for target in targets}
        self._work_dir = work_dir.absolute()
        self._artifacts = artifacts.absolute()
        self._events: queue.Queue[Event] = queue.Queue()
        self._unread: deque[Event] = deque()  # seen by `run`, not yet by `next`
        self._lock = threading.Lock()
        self._pending: dict[str, str] = {}  # task -> node, for the child's tasks
        self._ended = False  # the child has ended, and its tasks have failed
        self._process: ChildProcess | None = None
        self._playbooks = Playbooks(self._work_dir, self._events.put, self._artifacts, via)

    @property
    def _known_hosts(self) -> Path:
        return self._work_dir / "known_hosts"

    def __enter__(self) -> Self:
        self._work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._known_hosts.write_text(known_hosts(self._targets.values()))
        self._process = take()
        targets = [_target(target) for target in self._targets.values()]
        paths = {"known_hosts": str(self._known_hosts), "artifacts": str(self._artifacts)}
        try:
            self._write({"targets": targets, "via": self._via and _target(self._via), **paths})
        except OSError:
            raise EngineError(f"the engine's process ended ({self._process.last_words()})") from None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.popen,), daemon=True, name="hpcforge-engines"
        )
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def add(self, targets: Iterable[Target]) -> None:
        """Add nodes, or replace nodes of the same names; before any task of these was started."""
        more = {target.name: target for target in targets}
        self._targets |= more
        write_atomically(self._known_hosts, known_hosts(self._targets.values()))  # others may read it meanwhile
        self._write({"add": [_target(target) for target in more.values()]})

    def connect(self, nodes: Iterable[str]) -> None:
        """Open connections to nodes ahead of their first tasks, which wait for them, and fail as they do."""
        with contextlib.suppress(OSError):  # the child has ended: the first task fails
            for node in nodes:
                self._write({"do": "connect", "node": node})

    def start(self, task: Task) -> None:
        """Begin a task; tasks of one node run in the order they were started, nodes run side by side.

        Raises:
            EngineError: the node is unknown or the id is in use; what happens on nodes comes as events.
        """
        target = self._targets.get(task.node)
        if target is None or task.id in self._pending:
            raise EngineError(f"task {task.id!r} for {task.node!r}: no such node, or the id is in use")
        if isinstance(task, Ansible):
            self._playbooks.start(task, target)
            return
        with self._lock:
            self._pending[task.id] = task.node
        try:
            self._write(_order(task, target))
        except OSError:  # the child has ended
            self._fail(task.id)
        if self._ended:  # an ending child may still accept writes, but does not read them
            self._fail(task.id)

    def withdraw(self, task: str) -> bool:
        """Cancel a task that has not started: it reports nothing more. False if it has started or cannot be
        cancelled."""
        return self._playbooks.withdraw(task)

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event of any task; None when none came in time (None waits for ever)."""
        if self._unread:
            return self._unread.popleft()
        with contextlib.suppress(queue.Empty):
            return self._events.get(timeout=timeout_s)
        return None

    def run(self, task: Task) -> Event:
        """Start a task and wait for its result; all other events are kept for `next`."""
        self.start(task)
        while True:
            event = self._events.get()
            if event.task == task.id and event.kind == "result":
                return event
            self._unread.append(event)

    def close(self) -> None:
        """End all engines within 2 s. Running tasks on nodes end at their own limits."""
        deadline = time.monotonic() + 1.5
        self._playbooks.close(deadline)
        if self._process is not None:
            self._process.close(deadline)
            self._reader.join(0.5)

    def _write(self, message: dict[str, Any]) -> None:
        child = self._process.popen if self._process else None
        if child is None or child.stdin is None or child.stdin.closed:
            raise EngineError("the engines are not running: use them as a context manager")
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()

    def _read(self, child: subprocess.Popen[bytes]) -> None:
        """Read the child's events; at its end, fail its pending tasks. Runs in a thread."""
        assert child.stdout is not None
        for line in child.stdout:
            if not line.endswith(b"\n"):  # it was killed while it wrote
                break
            node, task, kind, data = json.loads(line)
            if kind == "result":
                with self._lock:
                    self._pending.pop(task, None)
            self._events.put(Event(node, task, kind, data))
        child.stdout.close()
        with self._lock:
            self._ended = True
            unfinished = list(self._pending)
        for task in unfinished:
            self._fail(task)

    def _fail(self, task: str) -> None:
        with self._lock:
            node = self._pending.pop(task, None)
        if node is not None:
            last_words = self._process.last_words() if self._process else ""
            self._events.put(Event(node, task, "result", result(error=f"the engine's process ended ({last_words})")))


def _target(target: Target) -> dict[str, Any]:
    return {**dataclasses.asdict(target), "key": target.key and str(target.key)}


def _order(task: NodeProgram | Bootstrap | Deploy | Command | HostKey, target: Target) -> dict[str, Any]:
    """Return a task as an order to the child process."""
    if isinstance(task, HostKey):
        return {"do": "host_key", **dataclasses.asdict(task)}
    if isinstance(task, Deploy):
        return {
            "do": "deploy",
            "id": task.id,
            "node": task.node,
            "source": str(task.source.absolute()),
            "inputs": dict(task.inputs),
            "timeout_s": task.timeout_s,
        }
    parallel, fresh = (
        isinstance(task, NodeProgram | Command) and task.aside,
        isinstance(task, NodeProgram) and task.fresh,
    )
    return {"do": "exec", "aside": parallel, "fresh": fresh, **dataclasses.asdict(order(task, target))}
