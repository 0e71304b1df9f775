"""Restart a node, and wait until it answers with a new boot ID or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hpcforge.engines.commands import by_signal
from hpcforge.engines.tasks import Engine, Event, NodeProgram
from hpcforge.node import requests
from hpcforge.node.requests import Request

_POLL_S = 2.0
_TIMEOUT_S = 60.0
_FINAL = ("host-key", "no-host-key")  # another machine answers: waiting does not help
_STARTING = ("initializing", "starting")  # systemd's states of a boot that has not finished
_STATE = "state"
_LOOK: Request = {"verb": "observe", "wanted": [], "asks": {_STATE: ["sh", "-c", "systemctl is-system-running || :"]}}

Wait = Literal["waiting", "back", "failed", "lost"]


@dataclass
class Reboot:
    """One node's restart. `state` "failed": it answers and did not restart; "lost": it does not answer.

    `request` is the node program's, without a boot ID: the node reports it first, so that a repeated request can never
    end the next boot.
    """

    engine: Engine
    node: str
    request: requests.RebootRequest
    limit_s: float
    say: Callable[[str], None]
    state: Wait = "waiting"
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)  # after the restart
    _task: str | None = None  # the task under way
    _restarting: bool = False  # the task restarts the node
    _count: int = 0
    _boot: str | None = None  # the boot that is to end
    _system: str = ""
    _next_s: float = 0.0
    _began_s: float = 0.0

    def go_on(self) -> None:
        """Ask again, if it is time to."""
        if self.state == "waiting" and self._task is None and time.monotonic() >= self._next_s:
            self._ask(_LOOK)

    def take(self, event: Event) -> bool:
        """Account for an event; return True if it belongs to this object's own task."""
        if event.task != self._task:
            return False
        if event.kind == "observed":
            self._system = str(event.data.get("answers", {}).get(_STATE, "")).strip()
        elif event.kind == "done" and not self._restarting:
            self.facts = event.data.get("facts") or {}
        elif event.kind == "result":
            self._task = None
            self._judge(event.data)
        return True

    def _judge(self, data: Mapping[str, Any]) -> None:
        if self._restarting:
            self._judge_restart(data)
        elif self._boot is None:
            self._judge_boot(data)
        else:
            self._judge_return(data)
        self._next_s = time.monotonic() + _POLL_S

    def _judge_boot(self, data: Mapping[str, Any]) -> None:
        if not data["ok"] or "boot_id" not in self.facts:
            reason = data["error"] or "it was not restarted: it does not report its boot ID"
            self._end("lost" if data["unreachable"] else "failed", str(reason))
            return
        self._boot, self._began_s, self._restarting = str(self.facts["boot_id"]), time.monotonic(), True
        request: requests.RebootRequest = {**self.request, "boot_id": self._boot}
        self._ask(request)

    def _judge_restart(self, data: Mapping[str, Any]) -> None:
        self._restarting = False
        went_down = data["unreachable"] or by_signal(data["rc"], str(data["error"]))  # before it could answer
        if not data["ok"] and not went_down:
            self._end("failed", f"it was not restarted: {data['error']}")
            return
        self._began_s = time.monotonic()
        self.say(f"it restarts; waiting up to {self.limit_s:.0f} s")

    def _judge_return(self, data: Mapping[str, Any]) -> None:
        late = time.monotonic() >= self._began_s + self.limit_s
        if not data["ok"]:
            if late or data.get("reason") in _FINAL:
                self._end("lost", f"is not back within {self._waited()} after its restart: {data['error']}")
        elif self.facts.get("boot_id") == self._boot:
            if late:
                self._end("failed", f"did not restart within {self._waited()}: it answers from the same boot as before")
        elif late or self._system not in _STARTING:
            self.say(f"is back after {self._waited()}")
            self._end("back", "")

    def _waited(self) -> str:
        return f"{time.monotonic() - self._began_s:.0f} s"

    def _end(self, state: Wait, detail: str) -> None:
        self.state, self.detail = state, detail

    def _ask(self, request: Request) -> None:
        self._count += 1
        self._task = f"reboot:{self.node}:{self._count}"
        # A new connection: the old one breaks with the restart, and may show that late.
        self.engine.start(NodeProgram(self._task, self.node, request, _TIMEOUT_S, fresh=not self._restarting))
