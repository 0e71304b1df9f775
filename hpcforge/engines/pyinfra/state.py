"""A pyinfra `State` of one node around an open connection, and the results of its operations.

Importing this imports pyinfra: only `deploy` does so, if a plan has a deploy.py. Each node and deploy has its own
state: pyinfra identifies operations by their position, so that a state for nodes with different roles would merge
unrelated operations.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import gevent
import paramiko
from pyinfra.api import Config, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors.ssh import SSHConnector

from hpcforge.engines.commands import PROGRAMS
from hpcforge.engines.connections import Connection
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.inventories import pyinfra_connection
from hpcforge.engines.node_output import MAX_LINE_BYTES, Tail, last_line, split_lines
from hpcforge.engines.ssh import CHUNK_BYTES, MARK_LINE, MAX_OUTPUT_BYTES, after_mark, marked, open_session
from hpcforge.engines.tasks import CONNECT_S, EngineError, Target


class _OutputLimit:
    """The bytes that one command may still print on both of its streams. Beyond that its channel is closed."""

    def __init__(self) -> None:
        self.remaining_bytes = MAX_OUTPUT_BYTES
        self.exceeded = False

    def lines(self, stream: paramiko.ChannelFile, first: bytes = b"") -> Iterator[str]:
        """Yield the lines after `first` of a byte stream as text, none longer than a node's limit."""
        began = not first
        while line := stream.readline(MAX_LINE_BYTES):
            self.remaining_bytes -= len(line)
            if self.remaining_bytes < 0 or len(line) >= MAX_LINE_BYTES:
                self.exceeded = True
                stream.channel.close()
                return
            if began:
                yield line.decode(errors="replace")
            began = began or line.endswith(first)


class _LimitedStream:
    """A stream of a remote command in the form that pyinfra reads: lines, and then its channel."""

    def __init__(self, stream: paramiko.ChannelFile, limit: _OutputLimit, first: bytes = b"") -> None:
        self.channel = stream.channel
        self._stream, self._limit, self._first = stream, limit, first

    def __iter__(self) -> Iterator[str]:
        return self._limit.lines(self._stream, self._first)


class _LimitedClient:
    """A connection for one pyinfra command, with a limit: pyinfra reads the whole output into memory."""

    def __init__(self, client: paramiko.SSHClient, target: Target) -> None:
        self.limit = _OutputLimit()
        self._client, self._target = client, target

    def exec_command(self, command: str, *, get_pty: bool) -> tuple[object, _LimitedStream, _LimitedStream]:
        """Execute like paramiko, without the login shell's own output."""
        channel = open_session(self._client, self._target)
        if get_pty:
            channel.get_pty()
        channel.exec_command(marked(command))
        out, err = channel.makefile("rb"), channel.makefile_stderr("rb")
        mark = MARK_LINE.replace(b"\n", b"\r\n") if get_pty else MARK_LINE
        return channel.makefile_stdin("wb"), _LimitedStream(out, self.limit, mark), _LimitedStream(err, self.limit)


class _Files:
    """File transfer by `cat`: one sshd session at a time, without the sftp subsystem, which a site may have removed."""

    def __init__(self, client: paramiko.SSHClient, target: Target) -> None:
        self._client, self._target = client, target

    def putfo(self, file: IO[bytes], path: str) -> None:
        """Write a file there. Raises OSError."""
        for _ in self._run('umask 022; exec cat >"$1"', path, file):
            pass

    def getfo(self, path: str, file: IO[bytes]) -> None:
        """Read a file there. Raises OSError."""
        for chunk in self._run('exec cat <"$1"', path):
            file.write(chunk)

    def _run(self, script: str, path: str, file: IO[bytes] | None = None) -> Iterator[bytes]:
        channel, stderr = open_session(self._client, self._target), Tail()
        try:
            channel.exec_command(marked(shlex.join(["/bin/sh", "-c", script, "sh", path])))
            errors = gevent.spawn(_keep, channel, stderr)
            _, output = after_mark(_chunks(channel.recv))
            for chunk in _chunks(file.read) if file else ():
                channel.sendall(chunk)
            channel.shutdown_write()
            yield from output
            rc = channel.recv_exit_status()
            errors.join()
        finally:
            channel.close()
        if rc:
            raise OSError(f"{path} on {self._target.name}: {last_line(stderr.text()) or f'exit status {rc}'}")


def _keep(channel: paramiko.Channel, tail: Tail) -> None:
    for line in split_lines(_chunks(channel.recv_stderr)):
        tail.add(line)


def _chunks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(lambda: read(CHUNK_BYTES), b"")


class _Connector(SSHConnector):  # type: ignore[misc]
    """pyinfra's connector over hpcforge's connections, with another file transfer: pyinfra caches its own."""

    link: Connection

    def connect(self) -> None:
        """Connect for pyinfra after a reboot: with hpcforge's key and through the same jump host."""
        try:
            self.client = self.link.client()
        except UnreachableError as error:
            raise ConnectError(str(error)) from error

    def run_shell_command(self, command: object, *arguments: object, **options: object) -> object:
        """Run a command, with umask 022 in a shell. Raises `EngineError` if it prints more than a node may."""
        if str(options.get("_shell_executable", "sh")).endswith("sh"):
            command = StringCommand("umask 022 &&", command)  # within sudo: its PAM session may set another umask
        client, limited = self.client, _LimitedClient(self.client, self.link.target)
        self.client = limited  # type: ignore[assignment]  # the parts of a connection that pyinfra uses for a command
        own = options.get("_env")
        options["_env"] = {
            "PATH": PROGRAMS,
            **(own if isinstance(own, dict) else {}),
        }  # sudo's secure_path may lack some
        try:
            ended: object = super().run_shell_command(command, *arguments, **options)
        finally:
            self.client = client
        if limited.limit.exceeded:
            self.link.close()  # paramiko would keep further output of the node
            most = f"{MAX_OUTPUT_BYTES >> 20} MiB of output, or a line of {MAX_LINE_BYTES >> 20} MiB"
            raise EngineError(f"more than {most} on {self.link.target.name}: stopped listening")
        return ended

    def get_file_transfer_connection(self) -> _Files:
        """Return the object that reads and writes files."""
        return _Files(self.client, self.link.target)

    def disconnect(self) -> None:
        """Disconnect for pyinfra before it connects again."""


def attach(
    link: Connection,
    *,
    data: dict[str, Any],
    known_hosts: Path,
    staging: str,
    folder: Path,
) -> Host:
    """Return a host that executes operations immediately, on the open connection; `data` is its `host.data`."""
    target = link.target
    ssh = pyinfra_connection(target, known_hosts)  # some code reads pyinfra's connection data
    sudo = target.become == "sudo"
    config = Config(CONNECT_TIMEOUT=CONNECT_S, PARALLEL=1, SUDO=sudo, TEMP_DIR=staging, SHELL="/bin/sh")
    inventory = Inventory(([(target.name, {**data, **ssh})], {}))
    state = State(inventory, config, check_for_changes=False)  # True would collect every fact twice
    host = inventory.get_host(target.name)
    host.connector = _Connector(state, host)
    host.connector.link = link
    host.connector.client = link.client()
    host.connected = True
    Host._get_temp_directory.cache.clear()  # cached by name for the whole process; each deploy has its own folder
    state.activate_host(host)
    state.cwd = str(folder)  # relative sources of files are the role's
    state.set_stage(StateStage.Execute)
    state.is_executing = True
    return host


class PyinfraProgress(BaseStateCallback):  # type: ignore[misc]
    """A callback that emits a deploy's operations as events, delayed: pyinfra calls it before it stores a result."""

    def __init__(self, role: str, emit: Callable[[str, dict[str, Any]], None]) -> None:
        self.changed = 0
        self._role = role
        self._emit = emit
        self._reported: set[str] = set()
        self._failed: list[tuple[str, str]] = []  # name and output

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:
        """Report the operations before this one, and the start of this one."""
        self.flush(state, host)
        self._emit("progress", {"role": self._role, "detail": _name(state, op_hash)})

    def flush(self, state: State, host: Host) -> None:
        """Report complete operations that were not reported yet."""
        for op_hash, operation in state.ops[host].items():
            meta = operation.operation_meta
            if op_hash in self._reported or not meta.is_complete():
                continue
            self._reported.add(op_hash)
            if meta.did_change():
                self.changed += 1
                event = {"role": self._role, "kind": "opaque", "name": _name(state, op_hash), "detail": ""}
                self._emit("changed", event)
            if meta.did_error() and not operation.global_arguments.get("_ignore_errors"):
                self._failed.append((_name(state, op_hash), meta.stderr or meta.stdout))

    def failed(self) -> tuple[str, str]:
        """Return name and output of the operation that stopped the deploy; empty without such an operation."""
        return self._failed[-1] if self._failed else ("", "")


def _name(state: State, op_hash: str) -> str:
    return next(iter(state.op_meta[op_hash].names), "operation")
