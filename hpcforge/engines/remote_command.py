"""A remote command followed to its end; the node program's work even across lost connections.

A named task continues on the node without a connection (`hpcforge.node`). After a lost connection, hpcforge attaches
to it where the events stopped, and never starts it again. Runs in the engine's child process.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gevent

from hpcforge.engines.commands import node_program, read
from hpcforge.engines.connections import Connection
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.node_output import parse_event
from hpcforge.engines.ssh import CommandEnd, execute
from hpcforge.engines.tasks import HANDSHAKE_S, EngineError
from hpcforge.node.requests import AttachRequest, Request, StopRequest

Json = dict[str, Any]

AGAIN_S = 2.0  # between attempts to reach a node again
STOP_S = 60.0  # for a node to end the resource it is at, when the rest is not wanted any more
_FINAL = {"host-key", "no-host-key"}  # it answers, and is not the one that it was: no waiting helps


@dataclass
class Following:
    """One command of `task` (an `Exec` as JSON). `on_line` gets its standard output, `emit` what we have to say."""

    link: Connection
    task: Json
    on_line: Callable[[str], None]
    emit: Callable[[str, Json], None]
    heard: int = 0  # events so far: behind them the node is asked to go on
    attaching: bool = False
    unknown: bool = False  # the node knows nothing of the task that we attach to

    def run(self) -> CommandEnd:
        """Until it has ended, or time is up.

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
                if not self._goes_on(error):
                    raise
                self._reach_again(error)
                attach: AttachRequest = {"verb": "attach", "task": self.task["task"], "after": self.heard}
                command, stdin = node_program(self.link.target), attach
                self.attaching, self.unknown = True, False
                continue
            if not self.unknown:
                break
            if self.heard:
                raise EngineError(f"{self.link.target.name} restarted during a step: apply again")
            command, stdin = first  # it never got there whole, so nothing was done
            self.attaching = self.unknown = False
        note = self._stop() if ended.late else ""
        return dataclasses.replace(ended, wall_s=time.monotonic() - start, note=note)

    def _goes_on(self, error: UnreachableError) -> bool:
        """Whether the node works on under the task's name, and can still be the one that it was."""
        if self.task["task"] is None or error.reason in _FINAL:
            return False
        return self.attaching or error.reason == "link"

    def _take(self, line: str) -> None:
        if self.task["task"] is not None:
            event = parse_event(line)
            self.unknown |= self.attaching and event is not None and _says_unknown(*event)
            if self.unknown:
                return
            self.heard += event is not None
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
        """Connect again, for as long as the task says."""
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
                gevent.sleep(AGAIN_S)
            else:
                self.emit("warning", {"detail": f"reconnected after {again_s - until + time.monotonic():.0f} s"})
                return
        raise UnreachableError(
            "link",
            f"the connection to {target.name} ({target.address}) was lost during a step, and hpcforge could not "
            f"reconnect within {again_s:g} s: the step may have continued; apply again when the node is back",
        ) from lost

    def _stop(self) -> str:
        """Have the node end what it does under the task's name. What became of it, for people."""
        if self.task["task"] is None:
            return "the step may still run there"
        answers: list[str] = []
        try:
            stop: StopRequest = {"verb": "stop", "task": self.task["task"], "timeout_s": STOP_S}
            ended = self._execute(node_program(self.link.target), stop, STOP_S + HANDSHAKE_S, answers.append)
        except UnreachableError:
            return "it is unreachable, and the step may still run there"
        events = [event for event in map(parse_event, answers) if event]
        refused = any(kind == "failed" for kind, _ in events)
        if ended.late or refused or not any(kind == "done" for kind, _ in events):
            return "it was asked to stop; the step may still run there"
        return "stopped"


def _says_unknown(kind: str, data: Json) -> bool:
    return kind == "failed" and data.get("role") is None and data.get("name") == "attach"
