"""Tasks for a node, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hpcforge.errors import ExpectedError

if TYPE_CHECKING:
    from hpcforge.node.requests import Request

CONNECT_S = 5.0
HANDSHAKE_S = 15.0  # banner, key exchange, login, each; a loaded node is slow here, a hung one never answers


class EngineError(ExpectedError):
    """The engines cannot work, independent of the nodes."""


@dataclass(frozen=True)
class Target:
    """A node and its login. `host_keys` are OpenSSH public keys; without one the node is refused."""

    name: str
    address: str
    user: str
    become: Literal["sudo", "none"]
    key: Path | None = None  # private key file; None: the user's ssh agent and default keys
    host_keys: tuple[str, ...] = ()
    start: str | None = None  # the command that starts a node of a rehearsal


@dataclass(frozen=True)
class NodeProgram:
    """The node program with one request (see `hpcforge.node.requests`), as root; its answers are the events.

    `aside`: it does not wait for the node's other tasks, for example a heartbeat, and has its own connection.
    `fresh`: over a new connection, so that its success proves that one is possible.
    `begins_s`: a node that sends nothing for this long after the request is unreachable ("silent").
    A request with a "task" continues when the connection is lost: hpcforge tries to reconnect for `reattach_s`, and
    only then the node is unreachable. A late task is stopped on the node.
    """

    id: str
    node: str
    request: Request
    timeout_s: float
    aside: bool = False
    fresh: bool = False
    reattach_s: float = 90.0
    begins_s: float | None = None


@dataclass(frozen=True)
class Bootstrap:
    """First contact in POSIX sh, as root: afterwards the node has python3."""

    id: str
    node: str
    timeout_s: float


@dataclass(frozen=True)
class Deploy:
    """A role's deploy.py: pyinfra operations, as root, each acting at once. Inputs are `host.data.<key>` there."""

    id: str
    node: str
    source: Path
    inputs: Mapping[str, Any]
    timeout_s: float


@dataclass(frozen=True)
class Command:
    """One command as `user`, in that user's home (None: the login user, in ssh's start folder). No shell reads `argv`.

    `aside`: as in `NodeProgram`.
    """

    id: str
    node: str
    argv: tuple[str, ...]
    stdin: str = ""
    user: str | None = None
    timeout_s: float = 60.0
    aside: bool = False


@dataclass(frozen=True)
class Ansible:
    """One Ansible role (its folder) on one node, as root. Inputs are variables there, never templates.

    `collections` are folders below the engines' folder of artifacts; with any, it finds no others.
    It waits a little for other nodes with the same role, and longer while plays run; `timeout_s` counts from the start
    of its play.
    """

    id: str
    node: str
    source: Path
    inputs: Mapping[str, Any]
    timeout_s: float
    collections: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostKey:
    """Read the host key that a node presents, into the result's stdout. Checks nothing and does not log in."""

    id: str
    node: str
    timeout_s: float = 20.0


Task = NodeProgram | Bootstrap | Deploy | Command | Ansible | HostKey


@dataclass(frozen=True)
class Event:
    """A line of a node, or the end of a task.

    `kind` is one of the node program's, "line" (`{"line": text}`, one of a Command's standard output), or "result",
    always a task's last: `{"ok", "rc", "stdout", "stderr", "error", "reason", "unreachable", "changed"}`. `error` is a
    sentence for people, None if ok. `reason` is the kind of unreachability: "no-host-key", "host-key", "login",
    "no-route", "refused", "timeout", "handshake", "via" (the jump host), "link", "silent", "here" (this
    host may open no more connections); it is None for a reachable node. An "observed" also has `heard`: the two
    times of its `clock`, by this host's clock.
    """

    node: str
    task: str
    kind: str
    data: dict[str, Any]


class Engine(Protocol):
    """The engines' interface for running a plan; its tests use a short fake."""

    def start(self, task: Task) -> None:
        """Begin a task; tasks of one node run in the order they were started, nodes run side by side."""

    def withdraw(self, task: str) -> bool:
        """Cancel a task that has not started: it reports nothing more. False if it has started or cannot be
        cancelled."""

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event of any task; None without one in time (None waits for ever)."""

    def run(self, task: Task) -> Event:
        """Start a task and wait for its result; events of all tasks, including this one, are kept for `next`."""


def command_failure(command: str, data: Mapping[str, Any]) -> str:
    """Return the failed command and its output, in a line; `data` is of its "result" event.

    scontrol prints some errors (`Node w04 not found`) to standard output.
    """
    printed = [] if data["stderr"].strip() else data["stdout"].strip().splitlines()[-1:]
    return ": ".join([f"`{command}`", str(data["error"]), *printed])


def result(
    *,
    ok: bool = False,
    rc: int | None = None,
    stdout: str = "",
    stderr: str = "",
    error: str | None = None,
    reason: str | None = None,
    changed: bool = False,
) -> dict[str, Any]:
    """Return the data of a "result" event; with a `reason` the node counts as unreachable."""
    return {
        "ok": ok,
        "rc": rc,
        "stdout": stdout,
        "stderr": stderr,
        "error": error,
        "reason": reason,
        "unreachable": reason is not None,
        "changed": changed,
    }
