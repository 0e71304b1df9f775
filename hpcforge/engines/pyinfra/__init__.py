"""A role's deploy.py: pyinfra operations over the open connection of a node, each carried out at once.

pyinfra keeps the current state and inventory in process-wide variables, so two nodes at a time would overwrite each
other's. `prepare` stores all four of its context variables per tree of greenlets (pyinfra spawns greenlets of its own,
so a plain greenlet-local variable is not enough). That uses private attributes of pyinfra; they are checked at start,
and the minor version is pinned. The package may import `hpcforge.engines`. Connections and their errors do not belong
here.
"""

from __future__ import annotations

import logging
import re
import shlex
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import gevent

from hpcforge.engines.connections import Connection
from hpcforge.engines.node_output import last_line
from hpcforge.engines.ssh import execute, lost
from hpcforge.engines.tasks import HANDSHAKE_S, EngineError, result

Emit = Callable[[str, dict[str, Any]], None]
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


class _TreeLocal:
    """A replacement of a pyinfra context's container: `module` belongs to the current tree of greenlets."""

    def __getattr__(self, name: str) -> Any:
        return _tree().get((id(self), name))

    def __setattr__(self, name: str, value: Any) -> None:
        _tree()[(id(self), name)] = value


def _tree() -> dict[Any, Any]:
    return gevent.getcurrent().spawn_tree_locals  # type: ignore[no-any-return]


class _Messages(logging.Handler):
    """A log handler that collects messages by node: pyinfra only logs the reasons of failures."""

    def emit(self, record: logging.LogRecord) -> None:
        messages = getattr(gevent.getcurrent(), "spawn_tree_locals", {}).get("messages")
        if messages is not None:
            messages.append(_ANSI.sub("", record.getMessage())[:2000])


@cache
def prepare() -> None:
    """Import pyinfra and make it safe for many nodes in one process.

    Raises:
        EngineError: this version of pyinfra is not supported.
    """
    import pyinfra  # noqa: PLC0415  0.15 s, and only plans with a deploy.py need it
    import pyinfra.connectors.util as connector_util  # noqa: PLC0415
    from pyinfra import context  # noqa: PLC0415

    contexts = [getattr(context, f"ctx_{name}", None) for name in ("state", "inventory", "host", "config")]
    objects: list[Any] = [getattr(item, "context", None) for item in contexts]
    if not all(hasattr(item, "_container") for item in objects) or not hasattr(connector_util, "getpass"):
        raise EngineError(
            f"pyinfra {pyinfra.__version__} has other internals than 3.10: install the version that hpcforge requires"
        )
    for item in objects:
        item._container = _TreeLocal()
    connector_util.getpass = _no_password
    logging.getLogger("pyinfra").addHandler(_Messages(level=logging.WARNING))


def _no_password(prompt: str) -> str:
    raise EngineError(f"{prompt.strip(': ')} is required: allow the login user sudo without a password")


def deploy(
    link: Connection,
    source: Path,
    *,
    data: dict[str, Any],
    known_hosts: Path,
    timeout_s: float,
    emit: Emit,
) -> dict[str, Any]:
    """Run `source` on a node. Return the data of the "result" event; "changed" and "failed" events come before.

    Raises:
        UnreachableError: the connection died.
        EngineError: this version of pyinfra is not supported.
    """
    prepare()
    late = gevent.Timeout(timeout_s)
    try:
        with late, _staging(link) as staging:
            from hpcforge.engines.pyinfra.state import attach  # noqa: PLC0415  it imports pyinfra

            host = attach(link, data=data, known_hosts=known_hosts, staging=staging, folder=source.parent)
            return _run(link, source, host, emit)
    except gevent.Timeout as timeout:
        if timeout is not late:
            raise
        label, node = f"{source.parent.name}/{source.name}", link.target.name
        return result(error=f"{label} did not finish within {timeout_s:g} s on {node}")


@contextmanager
def _staging(link: Connection) -> Iterator[str]:
    """Make a folder of the login user for uploads: another user could guess and plant pyinfra's own names in /tmp."""
    lines: list[str] = []
    make = 'd=$(mktemp -d /tmp/hpcforge-XXXXXXXXXXXX) && chmod 0711 "$d" && echo "$d"'
    in_sh = shlex.join(["/bin/sh", "-c", make])  # the login shell may be csh or fish
    ended = execute(link.client(), link.target, in_sh, listen_s=HANDSHAKE_S, on_line=lines.append)
    if ended.rc != 0 or not lines:
        raise EngineError(f"cannot make a temporary folder on {link.target.name}: {last_line(ended.stderr)}")
    try:
        yield lines[0]
    finally:
        if link.alive:
            remove = f"rm -rf -- {shlex.quote(lines[0])}"
            execute(link.client(), link.target, remove, listen_s=HANDSHAKE_S, on_line=lines.append)


def _run(link: Connection, source: Path, host: Any, emit: Emit) -> dict[str, Any]:
    """Execute deploy.py in the context of a host, and emit its operations' results as events."""
    from hpcforge.engines.pyinfra.state import PyinfraProgress  # noqa: PLC0415

    role = source.parent.name
    progress = PyinfraProgress(role, emit)
    host.state.add_callback_handler(progress)
    messages = _enter(host)
    error = None
    try:
        exec(compile(source.read_bytes(), str(source), "exec"), {"__name__": role, "__file__": str(source)})  # noqa: S102
    except (Exception, SystemExit) as failure:
        if not link.alive and not isinstance(failure, EngineError):  # an EngineError has its own reason
            raise lost(link.target) from failure
        error = _explain(failure, source, messages)
    progress.flush(host.state, host)
    changed = progress.changed > 0
    if error is None:
        return result(ok=True, rc=0, changed=changed)
    operation, stderr = progress.failed()
    message = last_line(stderr) or error
    emit("failed", {"role": role, "kind": "opaque", "name": operation, "error": message})
    text = f"{role}: {operation} failed on {link.target.name}: {message}" if operation else error
    return result(error=text, stderr=stderr, changed=changed)


def _enter(host: Any) -> list[str]:
    """Set pyinfra's `host`, `state`, `inventory` and `config` for this greenlet tree. Return the list for its log."""
    from pyinfra import context  # noqa: PLC0415

    context.ctx_state.set(host.state)
    context.ctx_inventory.set(host.state.inventory)
    context.ctx_config.set(host.state.config.copy())
    context.ctx_host.set(host)
    messages: list[str] = []
    _tree()["messages"] = messages
    return messages


def _explain(failure: BaseException, source: Path, messages: list[str]) -> str:
    """Return one sentence with the line of deploy.py, and pyinfra's log messages."""
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == str(source)]
    place = f"{source.parent.name}/{source.name}" + (f":{lines[-1]}" if lines else "")
    logged = "; ".join(messages[-3:])
    return f"{place}: {type(failure).__name__}: {failure}" + (f" ({logged})" if logged else "")
