"""The program's events, one JSON object a line, and the progress of a request's roles."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcforge.node.requests import RoleRequest, TodoRequest

Json = dict[str, Any]

TEXT_LIMIT = 4000  # characters of an error or detail; whole logs stay on the node
# Compiled on first use: that takes longer than the import of this module, and most requests do not need it.
_UNPRINTABLE = r"\x1b\[[0-9;?]*[ -/]*[@-~]|[^\n\t\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]"


class NodeError(Exception):
    """An expected failure; its text says what is wrong, where, and what to do."""


class LaterError(NodeError):
    """A change that has to wait and stops no other: the user gets a warning, and the resource still differs.

    `did`: the part of the resource that was changed.
    """

    def __init__(self, reason: str, did: str | None = None) -> None:
        super().__init__(reason)
        self.did = did


class BusyError(NodeError):
    """Another run is active on this node, or a later run has already changed it."""


def readable(data: bytes | str, limit: int = TEXT_LIMIT) -> str:
    """Return a program's output as text: UTF-8, no escapes or control characters, the last `limit` characters."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = re.sub(_UNPRINTABLE, "", text.replace("\r\n", "\n").replace("\r", "\n")).strip()
    return text if len(text) <= limit else "[...] " + text[-limit:]


def explain(error: BaseException) -> str:
    """Return an exception as one text. Never a traceback: its source lines could show secret file content."""
    if isinstance(error, NodeError):
        return readable(str(error))
    if isinstance(error, OSError) and error.strerror:
        names = " ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        return readable(f"{error.strerror}: {names}" if names else error.strerror)
    return readable(f"{type(error).__name__}: {error}")


def standard_output() -> Callable[[Json], None]:
    """Return a function that writes events to standard output, and close that to all other code of this process."""
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)

    def emit(event: Json) -> None:
        line = (json.dumps(event) + "\n").encode("ascii")
        try:
            while line:
                line = line[os.write(out, line) :]
        except OSError:
            return  # no process listens any more; the work still ends, and the next observe sees it

    return emit


class EventReporter:
    """Emits the events of one request, counts changes, and records failed and skipped roles."""

    def __init__(self, emit: Callable[[Json], None]) -> None:
        self.emit = emit
        self.count = 0
        self.failures: dict[str, str] = {}
        self.skips: dict[str, str] = {}
        self.stopped: str | None = None

    def finish_what_runs(self) -> None:
        """Make termination signals stop the work before the next resource, not within one."""

        def stop(number: int, _frame: object) -> None:
            self.stopped = signal.Signals(number).name

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)

    def changed(self, role: str, kind: str, name: str, detail: str) -> None:
        """Report a change."""
        self.count += 1
        self.emit({"event": "changed", "role": role, "kind": kind, "name": name, "detail": readable(detail)})

    def progress(self, role: str | None, detail: str) -> None:
        """Report progress of long work; role None: for several roles."""
        self.emit({"event": "progress", "role": role, "detail": readable(detail, 400)})

    def role_done(self, role: str) -> None:
        """Report that a role's units run and its checks pass."""
        self.emit({"event": "role_done", "role": role})

    def warning(self, detail: str) -> None:
        """Report a warning; the work continues."""
        self.emit({"event": "warning", "detail": readable(detail)})

    def failed(self, role: str | None, kind: str, name: str, error: BaseException | str) -> None:
        """Report that a role failed; role None: the request as a whole."""
        text = readable(error) if isinstance(error, str) else explain(error)
        if role is not None:
            self.failures.setdefault(role, text)
        self.emit({"event": "failed", "role": role, "kind": kind, "name": name, "error": text})

    def skipped(self, role: str, because: str) -> None:
        """Report a role that is skipped because another one failed; a failed role is not reported again."""
        if role not in self.failures and role not in self.skips:
            self.skips[role] = because
            self.emit({"event": "skipped", "role": role, "because": because})

    def goes_on(self, work: TodoRequest) -> bool:
        """Return whether a role can continue; report it as skipped, once, if a role that it needs failed."""
        role = work["role"]
        if role in self.failures or role in self.skips:
            return False
        for need in work.get("needs", ()):
            if need in self.failures or need in self.skips:
                self.skipped(role, need)
                return False
        if self.stopped:
            self.failed(role, "node", self.stopped, f"stopped by {self.stopped} before its next resource")
            return False
        return True

    def is_well(self, work: RoleRequest) -> bool:
        """Return whether a role has neither failed nor been skipped so far."""
        return work["role"] not in self.failures and work["role"] not in self.skips

    def done(self, roles: Iterable[str], whole_failed: bool, facts: Mapping[str, object]) -> None:
        """Report the end. `whole_failed`: all of `roles` failed."""
        failed = list(roles) if whole_failed else list(self.failures)
        event = {"event": "done", "changed": self.count, "failed": failed, "skipped": list(self.skips), "facts": facts}
        self.emit(event)
