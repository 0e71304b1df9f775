"""The engine's child process: JSON lines in, JSON lines out, all ssh connections in between.

The first line of input has the targets; each further line has one task. The process never prompts: it has no terminal,
and roles and libraries cannot see its file descriptors. It ends when its input ends, so it
does not outlive hpcforge.
"""

from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402

sys.modules["invoke"] = None  # type: ignore[assignment]  # paramiko's option for `Match exec`: 0.1 s of imports

import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import gevent  # noqa: E402
import gevent.os  # noqa: E402
from gevent.lock import BoundedSemaphore  # noqa: E402
from gevent.queue import Queue  # noqa: E402

from hpcforge import core_dumps  # noqa: E402
from hpcforge.engines.answer_reader import AnswerReader, cut_off  # noqa: E402
from hpcforge.engines.commands import explain  # noqa: E402
from hpcforge.engines.connections import Connection, Route  # noqa: E402
from hpcforge.engines.host_keys import UnreachableError  # noqa: E402
from hpcforge.engines.node_output import CUT, Tail  # noqa: E402
from hpcforge.engines.remote_command import Following  # noqa: E402
from hpcforge.engines.ssh import MAX_OUTPUT_BYTES  # noqa: E402
from hpcforge.engines.tasks import EngineError, Target, result  # noqa: E402
from hpcforge.node.bundle import packed  # noqa: E402

Json = dict[str, Any]

_LISTENS_AGAIN_S = 5.0


@dataclass(frozen=True)
class ChildContext:
    """What all nodes share here, and the way back to hpcforge."""

    known_hosts: Path
    artifacts: Path
    route: Route
    events_fd: int
    writing: BoundedSemaphore

    def emit(self, node: str, task: str, kind: str, data: Json) -> None:
        """One event to hpcforge."""
        line = memoryview(json.dumps([node, task, kind, data]).encode() + b"\n")
        with self.writing:
            while line:
                line = line[gevent.os.nb_write(self.events_fd, line) :]


def main() -> None:
    """Until standard input ends."""
    core_dumps.forbid()  # secrets for nodes pass through
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection each: the usual 1024 would not do
    tasks_fd, events_fd = _take_over(0, os.O_RDONLY), _take_over(1, os.O_WRONLY)
    lines = _lines(tasks_fd)
    packed("observe")  # what is asked first of all; meanwhile hpcforge reads the blueprint
    first = json.loads(next(lines, "null"))
    if first is None:  # begun early, and then not needed
        return
    targets = {each["name"]: _target(each) for each in first["targets"]}
    route = Route(_target(first["via"]) if first["via"] else None, targets)
    site = ChildContext(Path(first["known_hosts"]), Path(first["artifacts"]), route, events_fd, BoundedSemaphore())
    queues: dict[tuple[str, bool], Queue[Json]] = {}
    for line in lines:
        task = json.loads(line)
        if "add" in task:
            targets |= {each["name"]: _target(each) for each in task["add"]}
            continue
        node, aside = task["node"], bool(task.get("aside"))
        if (node, aside) not in queues:
            queues[node, aside] = Queue()
            gevent.spawn(_serve, site, targets[node], queues[node, aside])
        queues[node, aside].put(task)
    os._exit(0)  # connections and greenlets have nothing left to say to anybody


def _take_over(fd: int, flags: int) -> int:
    """A private copy of a descriptor, non-blocking; what is left in its place is harmless to who uses it."""
    private = os.dup(fd)
    os.dup2(os.open(os.devnull, flags) if flags == os.O_RDONLY else 2, fd)
    gevent.os.make_nonblocking(private)
    return private


def _lines(fd: int) -> Iterator[bytes]:
    held: list[bytes] = []
    while chunk := gevent.os.nb_read(fd, 2**20):
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            yield b"".join([*held, part])
            held = []
        held.append(rest)


def _target(data: Json) -> Target:
    key = Path(data["key"]) if data["key"] else None
    return Target(**{**data, "key": key, "host_keys": tuple(data["host_keys"])})


def _serve(site: ChildContext, target: Target, tasks: Queue[Json]) -> None:
    """One node: its tasks one after the other over one connection, made at the first, and again if it was lost."""
    link = Connection(site.route, target)
    for task in tasks:
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
    from hpcforge.engines.deploy import deploy  # noqa: PLC0415  pyinfra: only where a plan needs it

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
    _reach(link, _LISTENS_AGAIN_S if task.get("fresh") else 0.0)  # so that it is asked when it is asked
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

    ended = Following(link, task, on_line, emit).run()
    if ended.late:
        error: str | None = f"not finished within {task['listen_s']:g} s on {target.name}: {ended.note}"
    elif ended.flooded:
        error = f"more than {MAX_OUTPUT_BYTES >> 20} MiB of output on {target.name}: stopped listening"
    else:
        said = ended.stderr or ("" if text else out.text())  # a login that is turned away is often told so on stdout
        error = hearing.error(target.name, explain(target, ended.rc, said, task["timeout_s"], ended.wall_s))
    ok, stdout = error is None, out.text()
    return result(ok=ok, rc=ended.rc, stdout=stdout, stderr=ended.stderr, error=error, changed=hearing.changed)


if __name__ == "__main__":
    main()
