"""The engine's child process: JSON lines in, JSON lines out, all ssh connections in between.

The first line of input has the targets; each further line has one task. The process never prompts: it has no terminal,
and roles and libraries cannot see its file descriptors. It ends when its input ends, so it
does not outlive hpcforge.
"""

from __future__ import annotations

from gevent import events, monkey

# gevent would run plugins of any installed distribution here, and reads the records of all of them 25 times for that.
events.notify_and_call_entry_points = events.notify
monkey.patch_all()

import sys  # noqa: E402

sys.modules["invoke"] = None  # type: ignore[assignment]  # optional in paramiko, for `Match exec`: 0.1 s of imports

import dataclasses  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import gevent.os  # noqa: E402
from gevent.lock import BoundedSemaphore  # noqa: E402
from gevent.queue import Queue  # noqa: E402

from hpcforge import process  # noqa: E402
from hpcforge.engines.commands import explain, node_program, read  # noqa: E402
from hpcforge.engines.connections import Connection, Route  # noqa: E402
from hpcforge.engines.host_keys import UnreachableError  # noqa: E402
from hpcforge.engines.node_output import CUT, AnswerReader, Tail, cut_off, parse_event  # noqa: E402
from hpcforge.engines.ssh import MAX_OUTPUT_BYTES, CommandEnd, execute  # noqa: E402
from hpcforge.engines.tasks import HANDSHAKE_S, EngineError, Target, result  # noqa: E402
from hpcforge.node.bundle import packed  # noqa: E402
from hpcforge.node.requests import AttachRequest, Request, StopRequest  # noqa: E402

Json = dict[str, Any]

_LISTENS_AGAIN_S = 5.0
_AGAIN_S = 2.0  # between attempts to reach a node again
_STOP_S = 60.0  # time for a node to end its present resource after a stop
_FINAL = {"host-key", "no-host-key"}  # the node answers with another host key: waiting does not help


@dataclass(frozen=True)
class ChildContext:
    """The common data of all nodes, and the pipe to hpcforge."""

    known_hosts: Path
    artifacts: Path
    route: Route
    events_fd: int
    writing: BoundedSemaphore

    def emit(self, node: str, task: str, kind: str, data: Json) -> None:
        """Send an event to hpcforge."""
        line = memoryview(json.dumps([node, task, kind, data]).encode() + b"\n")
        with self.writing:
            while line:
                line = line[gevent.os.nb_write(self.events_fd, line) :]


def main() -> None:
    """Run until standard input ends."""
    process.forbid_core_dumps()  # secrets for nodes pass through
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # one connection for each node: the usual 1024 are too few
    tasks_fd, events_fd = _private_copy(0, os.O_RDONLY), _private_copy(1, os.O_WRONLY)
    lines = _lines(tasks_fd)
    packed("observe")  # the first request; meanwhile hpcforge reads the blueprint
    first = json.loads(next(lines, "null"))
    if first is None:  # started early, and then not needed
        return
    targets = {entry["name"]: _target(entry) for entry in first["targets"]}
    route = Route(_target(first["via"]) if first["via"] else None, targets)
    site = ChildContext(Path(first["known_hosts"]), Path(first["artifacts"]), route, events_fd, BoundedSemaphore())
    queues: dict[tuple[str, bool], Queue[Json]] = {}
    for line in lines:
        task = json.loads(line)
        if "add" in task:
            targets |= {entry["name"]: _target(entry) for entry in task["add"]}
            continue
        node, parallel = task["node"], bool(task.get("aside"))
        if (node, parallel) not in queues:
            queues[node, parallel] = Queue()
            gevent.spawn(_serve, site, targets[node], queues[node, parallel])
        queues[node, parallel].put(task)
    os._exit(0)  # connections and greenlets are no longer needed


def _private_copy(fd: int, flags: int) -> int:
    """Return a private, non-blocking copy of a descriptor, and replace the original by a harmless one."""
    private = os.dup(fd)
    os.dup2(os.open(os.devnull, flags) if flags == os.O_RDONLY else 2, fd)
    gevent.os.make_nonblocking(private)
    return private


def _lines(fd: int) -> Iterator[bytes]:
    pieces: list[bytes] = []
    while chunk := gevent.os.nb_read(fd, 2**20):
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            yield b"".join([*pieces, part])
            pieces = []
        pieces.append(rest)


def _target(data: Json) -> Target:
    key = Path(data["key"]) if data["key"] else None
    return Target(**{**data, "key": key, "host_keys": tuple(data["host_keys"])})


def _serve(site: ChildContext, target: Target, tasks: Queue[Json]) -> None:
    """Run a node's tasks in order over one connection, made for the first task and again after a loss."""
    link = Connection(site.route, target)
    for task in tasks:
        if task["do"] == "connect":
            link.open_ahead()
            continue
        if task.get("fresh"):
            link.close()
        try:
            answer = _do(site, link, task)
        except UnreachableError as error:
            answer = result(error=str(error), reason=error.reason)
        except EngineError as error:
            answer = result(error=str(error))
        except Exception as error:
            traceback.print_exc()  # into the log
            answer = result(error=f"hpcforge's own fault on {target.name}: {type(error).__name__}: {error}")
        site.emit(target.name, task["id"], "result", answer)


def _do(site: ChildContext, link: Connection, task: Json) -> Json:
    def emit(kind: str, data: Json) -> None:
        site.emit(link.target.name, task["id"], kind, data)

    if task["do"] == "exec":
        return _exec(link, task, emit)
    if task["do"] == "host_key":
        return result(ok=True, rc=0, stdout=site.route.host_key(link.target))
    from hpcforge.engines.pyinfra import deploy  # noqa: PLC0415  pyinfra: only if a plan needs it

    data = {**task["inputs"], "artifacts": str(site.artifacts)}
    source, timeout_s = Path(task["source"]), task["timeout_s"]
    return deploy(link, source, data=data, known_hosts=site.known_hosts, timeout_s=timeout_s, emit=emit)


def _reach(link: Connection, patience_s: float) -> None:
    """Connect; an sshd that reloads its configuration refuses connections for a moment."""
    until = time.monotonic() + patience_s
    while True:
        try:
            link.client()
        except UnreachableError as error:
            if error.reason not in ("refused", "no-route") or time.monotonic() >= until:
                raise
            gevent.sleep(0.2)
        else:
            return


def _exec(link: Connection, task: Json, emit: Any) -> Json:
    target, text = link.target, task["output"] == "lines"
    out, hearing = Tail(MAX_OUTPUT_BYTES if text else 64 * 1024), AnswerReader(answered=text)
    _reach(link, _LISTENS_AGAIN_S if task.get("fresh") else 0.0)  # before the time of the request is read
    asked_s = time.time()

    def on_line(line: str) -> None:
        if text:
            out.add(line)
            hearing.against = cut_off(line) if line.endswith(CUT) else hearing.against
            emit("line", {"line": line})
            return
        event = hearing.take(line)
        if event is None:
            out.add(line)
            return
        kind, data = event
        emit(kind, {**data, "heard": {"asked_s": asked_s, "said_s": time.time()}} if kind == "observed" else data)

    ended = _RemoteCommand(link, task, on_line, emit).run()
    if ended.late:
        error: str | None = f"not finished within {task['listen_s']:g} s on {target.name}: {ended.note}"
    elif ended.flooded:
        error = f"more than {MAX_OUTPUT_BYTES >> 20} MiB of output on {target.name}: stopped listening"
    else:
        output = ended.stderr or ("" if text else out.text())  # a rejected login often gets its message on stdout
        error = hearing.error(target.name, explain(target, ended.rc, output, task["timeout_s"], ended.wall_s))
    ok, stdout = error is None, out.text()
    return result(ok=ok, rc=ended.rc, stdout=stdout, stderr=ended.stderr, error=error, changed=hearing.changed)


# A remote command, followed to its end; the node program's work also across lost connections. A task with a name
# continues on the node without a connection (`hpcforge.node`). After a lost connection, hpcforge attaches to it after
# the last received event, and never starts it again.


@dataclass
class _RemoteCommand:
    """One command of `task` (an `Exec` as JSON). `on_line` gets its standard output, `emit` hpcforge's own events."""

    link: Connection
    task: Json
    on_line: Callable[[str], None]
    emit: Callable[[str, Json], None]
    events: int = 0  # received events: attaching continues after them
    attaching: bool = False
    unknown: bool = False  # the node does not know the task to attach to

    def run(self) -> CommandEnd:
        """Run it to its end, or until the time is up.

        Raises:
            UnreachableError: the connection was lost, and could not be restored in time for a detached task.
            EngineError: the node restarted during the task.
        """
        start = time.monotonic()
        first = self.task["command"], self.task["stdin"]
        command, stdin = first
        while True:
            left_s = max(0.0, start + self.task["listen_s"] - time.monotonic())
            try:
                ended = self._execute(command, stdin, left_s, self._take)
            except UnreachableError as error:
                if not self._may_continue(error):
                    raise
                self._reach_again(error)
                attach: AttachRequest = {"verb": "attach", "task": self.task["task"], "after": self.events}
                command, stdin = node_program(self.link.target), attach
                self.attaching, self.unknown = True, False
                continue
            if not self.unknown:
                break
            if self.events:
                raise EngineError(f"{self.link.target.name} restarted during a step: apply again")
            command, stdin = first  # the request did not arrive completely, so nothing was done
            self.attaching = self.unknown = False
        note = self._stop() if ended.late else ""
        return dataclasses.replace(ended, wall_s=time.monotonic() - start, note=note)

    def _may_continue(self, error: UnreachableError) -> bool:
        """Return whether the task may continue on the node, and the node may still have the same host key."""
        if self.task["task"] is None or error.reason in _FINAL:
            return False
        return self.attaching or error.reason == "link"

    def _take(self, line: str) -> None:
        if self.task["task"] is not None:
            event = parse_event(line)
            self.unknown |= self.attaching and event is not None and _says_unknown(*event)
            if self.unknown:
                return
            self.events += event is not None
        self.on_line(line)

    def _execute(
        self, command: str, stdin: str | Request, listen_s: float, on_line: Callable[[str], None]
    ) -> CommandEnd:
        target = self.link.target
        return execute(
            self.link.client(),
            target,
            command,
            listen_s=listen_s,
            begins_s=self.task["begins_s"],
            stdin=read(stdin),
            on_line=on_line,
        )

    def _reach_again(self, lost: UnreachableError) -> None:
        """Connect again, within the task's `reattach_s`."""
        target, again_s = self.link.target, self.task["reattach_s"]
        detail = f"the connection was lost; the step continues on the node; reconnecting for up to {again_s:g} s"
        self.emit("warning", {"detail": detail})
        until = time.monotonic() + again_s
        while time.monotonic() < until:
            try:
                self.link.client()
            except UnreachableError as error:
                if error.reason in _FINAL:
                    raise
                gevent.sleep(_AGAIN_S)
            else:
                self.emit("warning", {"detail": f"reconnected after {again_s - until + time.monotonic():.0f} s"})
                return
        raise UnreachableError(
            "link",
            f"the connection to {target.name} ({target.address}) was lost during a step, and hpcforge could not "
            f"reconnect within {again_s:g} s: the step may have continued; apply again when the node is back",
        ) from lost

    def _stop(self) -> str:
        """Stop the task on the node. Return the outcome, for a message."""
        if self.task["task"] is None:
            return "the step may still run there"
        answers: list[str] = []
        try:
            stop: StopRequest = {"verb": "stop", "task": self.task["task"], "timeout_s": _STOP_S}
            ended = self._execute(node_program(self.link.target), stop, _STOP_S + HANDSHAKE_S, answers.append)
        except UnreachableError:
            return "it is unreachable, and the step may still run there"
        events = [event for event in map(parse_event, answers) if event]
        refused = any(kind == "failed" for kind, _ in events)
        if ended.late or refused or not any(kind == "done" for kind, _ in events):
            return "it was asked to stop; the step may still run there"
        return "stopped"


def _says_unknown(kind: str, data: Json) -> bool:
    return kind == "failed" and data.get("role") is None and data.get("name") == "attach"


if __name__ == "__main__":
    main()
