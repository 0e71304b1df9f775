"""The command of a task over ssh: one command line, its input, and the meaning of its output. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hpcforge.engines.node_output import last_line
from hpcforge.engines.tasks import Bootstrap, Command, NodeProgram, Target
from hpcforge.node import bundle
from hpcforge.node.commands import ENVIRONMENT
from hpcforge.node.contact import bootstrap_script
from hpcforge.node.requests import Request, within
from hpcforge.node.verbs import LASTING

KILL_AFTER_S = 5  # from SIGTERM to SIGKILL when time is up
_BY_SIGNAL = "ended by a signal"
_GRACE_S = 20.0  # time for a node to end an overdue command itself before hpcforge stops listening
PROGRAMS = ENVIRONMENT["PATH"]  # a site's secure_path may lack some
_IN_HOME = f'cd 2>/dev/null || cd /; PATH=$PATH:{PROGRAMS} exec "$@"'


@dataclass(frozen=True)
class Exec:
    """A remote command. `output` "events": the node program's lines; "lines": text, passed on line by line.

    `stdin` is its input, see `read`.
    """

    id: str
    node: str
    command: str
    stdin: str | Request
    output: Literal["events", "lines"]
    timeout_s: float  # how long it may take
    listen_s: float  # how long hpcforge waits for its end
    task: str | None = None  # its name, if the node continues it without a connection
    reattach_s: float = 0.0
    begins_s: float | None = None  # limit for its first output


def command_line(target: Target, argv: Sequence[str], user: str | None, timeout_s: float) -> str:
    """Return `argv` as `user` in that user's home, quoted for the login shell; the node itself limits its time."""
    limited = ["timeout", "-k", str(KILL_AFTER_S), f"{timeout_s:.3f}", *argv]
    if user is None or (target.become == "none" and user == target.user):
        return shlex.join(limited)
    in_home = ["/bin/sh", "-c", _IN_HOME, "sh", *limited]
    if target.become == "sudo":
        return shlex.join(["sudo", "-n", "-H", "-u", user, "--", *in_home])
    group = f'--regid="$(id -g -- {shlex.quote(user)})"'  # root logs in here: sudo need not be installed
    return f"setpriv --reuid={shlex.quote(user)} {group} --init-groups --reset-env -- {shlex.join(in_home)}"


def order(task: NodeProgram | Bootstrap | Command, target: Target) -> Exec:
    """Return the remote command of a task. Secrets are in its input, never in the command line."""
    if isinstance(task, Command):
        command = command_line(target, task.argv, task.user, task.timeout_s)
        listen_s = task.timeout_s + KILL_AFTER_S + _GRACE_S
        return Exec(task.id, task.node, command, task.stdin, "lines", task.timeout_s, listen_s)
    if isinstance(task, Bootstrap):
        return Exec(task.id, task.node, "sh", bootstrap_script(), "events", task.timeout_s, task.timeout_s)
    lasting = task.request["verb"] in LASTING  # a lasting request outlives its connection, and is stopped instead
    request = task.request if lasting else within(task.request, task.timeout_s)
    task_name, again_s = task.request.get("task"), task.reattach_s
    command = node_program(target)
    return Exec(
        task.id,
        task.node,
        command,
        request,
        "events",
        task.timeout_s,
        task.timeout_s,
        task_name,
        again_s,
        task.begins_s,
    )


def node_program(target: Target) -> str:
    """Return the command that starts the node program; it reads a request."""
    return bundle.first_command(target.become == "sudo")


def read(stdin: str | Request) -> bytes:
    """Return the input of a command: text, or a request with the node program, which is six times as long.

    The child process joins these, in parallel with the rest of hpcforge.
    """
    return (stdin if isinstance(stdin, str) else bundle.payload(stdin)).encode()


def explain(target: Target, rc: int | None, stderr: str, timeout_s: float, wall_s: float) -> str | None:
    """Return the reason why a command failed, as a sentence; None if it succeeded."""
    if rc == 0:
        return None
    if rc in {None, 124, 137} and wall_s >= timeout_s:
        return f"not finished within {timeout_s:g} s on {target.name}: stopped" + _colon(last_line(stderr))
    if rc is None:
        return f"{_BY_SIGNAL} on {target.name}" + _colon(last_line(stderr))
    first = stderr.lstrip().split("\n", 1)[0]
    if rc == 1 and first.startswith("sudo:") and "password" in first:
        return f"{first[:500]} (on {target.name}: allow {target.user} sudo without a password)"
    return f"exit status {rc} on {target.name}" + _colon(last_line(stderr))


def by_signal(rc: int | None, error: str) -> bool:
    """Return whether a signal ended a command, from its exit status (over 128, as in a shell) and `explain`."""
    return error.startswith(_BY_SIGNAL) if rc is None else rc > 128


def _colon(detail: str) -> str:
    return f": {detail}" if detail else ""
