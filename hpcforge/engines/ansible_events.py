"""Split the output of ansible-runner into events and a result for each node. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpcforge.engines.node_output import Tail, last_line
from hpcforge.engines.tasks import Ansible, result

DONE = "Report the role to hpcforge as done"  # a play's last task, which a node reaches only without a failure
_LATE = 254  # exit status of ansible-runner when a play's time is up
_TOLD = 2 | 4  # bits of the exit status for failed and unreachable nodes, which the statistics name
_REASONS = {  # OpenSSH's message: hpcforge's word
    "Host key verification failed": "host-key",
    "REMOTE HOST IDENTIFICATION HAS CHANGED": "host-key",
    "Permission denied": "login",
    "No route to host": "no-route",
    "Connection refused": "refused",
    "Unable to negotiate": "handshake",
    "Connection timed out": "timeout",
}

NodeEvent = tuple[str, str, dict[str, Any]]  # node, kind and data of an event


@dataclass
class _NodeState:
    """The state of a node, from its events."""

    task: Ansible
    changed: bool = False
    failures: list[tuple[str, str]] = field(default_factory=list)  # task and message
    unreachable: str | None = None


class PlayListener:
    """Collects the results of a play. `mends`: the role may continue after a failure, so only the play's end counts.

    A node's last event is its result, once it is certain; later events are dropped.
    """

    def __init__(self, tasks: Mapping[str, Ansible], *, mends: bool) -> None:
        self._running = {node: _NodeState(task) for node, task in tasks.items()}
        self._mends = mends
        self._stats: Mapping[str, Any] | None = None
        self._output = Tail()

    def line(self, text: str) -> Iterator[NodeEvent]:
        """Yield the events of a line of ansible-runner's output."""
        event = _event(text)
        if event is None:
            self._output.add(text)
            return
        data = event["event_data"]
        if event.get("event") == "playbook_on_stats":
            self._stats = data
        state = self._running.get(str(data.get("host")))
        if state is None:
            return
        node = state.task.node
        for kind, details in _translate(state, str(event.get("event")), data):
            yield node, kind, details
        if event.get("event") == "runner_on_ok" and data.get("task") == DONE and not data.get("role"):
            yield from self._end(state, result(ok=True, rc=0, changed=state.changed))
        elif state.unreachable is not None or (state.failures and not self._mends):
            yield from self._end(state, self._judged(state, None))

    def over(self, rc: int) -> Iterator[NodeEvent]:
        """End the play with ansible-runner's exit status: yield the results of the unfinished nodes."""
        for state in tuple(self._running.values()):
            yield from self._end(state, self._judged(state, rc))

    def lost(
        self, failure: Callable[[Ansible], dict[str, Any]], nodes: Collection[str] | None = None
    ) -> Iterator[NodeEvent]:
        """Yield the results of these unfinished nodes (None: all) of a play that failed to start or broke off."""
        for state in tuple(self._running.values()):
            if nodes is None or state.task.node in nodes:
                yield from self._end(state, failure(state.task))

    def _end(self, state: _NodeState, data: dict[str, Any]) -> Iterator[NodeEvent]:
        """Yield a node's failures and its result: only at the end, since a rescued failure does not fail the role."""
        task = state.task
        del self._running[task.node]
        for name, message in () if data["ok"] else state.failures:
            yield task.node, "failed", {"role": task.source.name, "kind": "opaque", "name": name, "error": message}
        yield task.node, "result", data

    def _judged(self, state: _NodeState, rc: int | None) -> dict[str, Any]:
        """Return the result of a node that did not reach the play's last task."""
        label = f"{state.task.source.name} on {state.task.node}"
        if state.unreachable is not None:
            reason = next((word for text, word in _REASONS.items() if text in state.unreachable), "link")
            return result(rc=rc, error=f"{label}: {state.unreachable}", reason=reason, changed=state.changed)
        failures = (self._stats or {}).get("failures") or {}
        finished = rc is not None and self._stats is not None and not rc & ~_TOLD
        if finished and state.task.node not in failures:  # the role ended itself, for example by `meta: end_host`
            return result(ok=True, rc=0, stdout=self._output.text(), changed=state.changed)
        if rc == _LATE and not state.failures:
            error = f"{label}: not finished within {state.task.timeout_s:g} s: stopped waiting; it may still run there"
        else:
            failed = [f"{name}: {last_line(message)}" for name, message in state.failures[-1:]]
            last = failed[0] if failed else _play_error(self._output.text())
            error = f"{label}: {last or f'exit status {rc}'}"
        return result(rc=rc, stdout=self._output.text(), error=error, changed=state.changed)


def _play_error(output: str) -> str:
    """Return ansible-playbook's message about a play that did not begin: its last error, above the file's line."""
    errors = [line for line in output.splitlines() if "[ERROR]: " in line]
    return errors[-1].partition("[ERROR]: ")[2][:500] if errors else last_line(output)


def _event(line: str) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event_data"), dict) else None


def _translate(state: _NodeState, kind: str, data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Translate ansible-runner's events. Only a task's name, its change and its message are passed on."""
    role = state.task.source.name
    name = str(data.get("task") or data.get("name") or "")
    res = data.get("res")
    answer: dict[str, Any] = res if isinstance(res, dict) else {}
    message = str(answer.get("stderr") or answer.get("msg") or "no message")[:2000]
    match kind:
        case "runner_on_start" if name != DONE:
            yield "progress", {"role": role, "detail": name}
        case "runner_on_ok" if answer.get("changed") is True:
            state.changed = True
            yield "changed", {"role": role, "kind": "opaque", "name": name, "detail": ""}
        case "runner_on_failed" if not data.get("ignore_errors"):
            state.failures.append((name, message))
        case "runner_on_unreachable":
            state.unreachable = last_line(str(answer.get("msg")))
