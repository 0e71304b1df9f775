"""A pyinfra `State` of one node around an open connection, and what its operations did.

Importing this imports pyinfra: only `deploy` does so, when a plan has a deploy.py. A state a node and deploy, because
pyinfra identifies operations by their place in the order: shared by nodes that run different roles it would merge
operations that have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
from pyinfra.api import Config, Inventory, State, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.host import Host
from pyinfra.api.state import BaseStateCallback, StateStage
from pyinfra.connectors.ssh import SSHConnector

from hpcforge.engines.connections import Connection
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.inventories import pyinfra_connection
from hpcforge.engines.node_output import MAX_LINE_BYTES
from hpcforge.engines.ssh import MAX_OUTPUT_BYTES, transport_of
from hpcforge.engines.tasks import CONNECT_S, EngineError


class _OutputLimit:
    """The bytes that one command may still print on both of its streams. Beyond them its channel is closed."""

    def __init__(self) -> None:
        self.left = MAX_OUTPUT_BYTES
        self.exceeded = False

    def lines(self, stream: paramiko.ChannelFile) -> Iterator[str]:
        """Yield the lines of a stream of bytes as text; none is read further than a node's longest line."""
        while line := stream.readline(MAX_LINE_BYTES):
            self.left -= len(line)
            if self.left < 0 or len(line) >= MAX_LINE_BYTES:
                self.exceeded = True
                stream.channel.close()
                return
            yield line.decode(errors="replace")


class _LimitedStream:
    """A stream of a remote command as pyinfra reads it: line by line, and then its channel."""

    def __init__(self, stream: paramiko.ChannelFile, limit: _OutputLimit) -> None:
        self.channel = stream.channel
        self._stream, self._limit = stream, limit

    def __iter__(self) -> Iterator[str]:
        return self._limit.lines(self._stream)


class _LimitedClient:
    """A connection for one command of pyinfra's, which reads all that a node prints into memory."""

    def __init__(self, client: paramiko.SSHClient) -> None:
        self.limit = _OutputLimit()
        self._client = client

    def exec_command(self, command: str, *, get_pty: bool) -> tuple[object, _LimitedStream, _LimitedStream]:
        """As paramiko's."""
        stdin, stdout, _ = self._client.exec_command(command, get_pty=get_pty)
        channel = stdout.channel
        streams = channel.makefile("rb"), channel.makefile_stderr("rb")
        return stdin, _LimitedStream(streams[0], self.limit), _LimitedStream(streams[1], self.limit)


class _Connector(SSHConnector):  # type: ignore[misc]
    """pyinfra's own, over our connections, and with a file transfer channel of its own.

    pyinfra caches those channels for the whole process.
    """

    link: Connection
    _transfer: paramiko.SFTPClient | None = None

    def connect(self) -> None:
        """What pyinfra calls after a reboot: our way in, with the same key and through the same jump host."""
        try:
            self.client = self.link.client()
        except UnreachableError as error:
            raise ConnectError(str(error)) from error

    def run_shell_command(self, command: object, *arguments: object, **options: object) -> object:
        """Run a command, with umask 022 in a shell. Raises `EngineError` if it prints more than a node may."""
        if str(options.get("_shell_executable", "sh")).endswith("sh"):
            command = StringCommand("umask 022 &&", command)  # within sudo, whose PAM session may set another
        client, limited = self.client, _LimitedClient(self.client)
        self.client = limited  # type: ignore[assignment]  # all of a connection that pyinfra uses for a command
        try:
            ended: object = super().run_shell_command(command, *arguments, **options)
        finally:
            self.client = client
        if limited.limit.exceeded:
            self.link.close()  # paramiko would keep what a node sends on
            most = f"{MAX_OUTPUT_BYTES >> 20} MiB of output, or a line of {MAX_LINE_BYTES >> 20} MiB"
            raise EngineError(f"more than {most} on {self.link.target.name}: stopped listening")
        return ended

    def _put_file(self, source: object, remote: str) -> None:
        """Send a file; a new one can be read by all, as with umask 022."""
        files = self.get_file_transfer_connection()
        is_new = files is not None and not _exists(files, remote)
        super()._put_file(source, remote)
        if files is not None and is_new:
            files.chmod(remote, 0o644)

    def get_file_transfer_connection(self) -> paramiko.SFTPClient | None:
        """The channel, opened when first used."""
        if self._transfer is None:
            self._transfer = paramiko.SFTPClient.from_transport(transport_of(self.client))
        return self._transfer

    def close_file_transfer(self) -> None:
        """sshd allows ten sessions a connection; one left open by every role would use them up."""
        if self._transfer is not None:
            self._transfer.close()
        self._transfer = None

    def disconnect(self) -> None:
        """What pyinfra calls before it connects again."""
        self.close_file_transfer()


def attach(
    link: Connection,
    *,
    data: dict[str, Any],
    known_hosts: Path,
    staging: str,
    folder: Path,
) -> Host:
    """A host whose operations act at once, on the open connection; `data` is `host.data` there."""
    target = link.target
    ssh = pyinfra_connection(target, known_hosts)  # for what asks pyinfra how it got in
    config = Config(CONNECT_TIMEOUT=CONNECT_S, PARALLEL=1, SUDO=target.become == "sudo", TEMP_DIR=staging)
    inventory = Inventory(([(target.name, {**data, **ssh})], {}))
    state = State(inventory, config, check_for_changes=False)  # True would collect every fact twice
    host = inventory.get_host(target.name)
    host.connector = _Connector(state, host)
    host.connector.link = link
    host.connector.client = link.client()
    host.connected = True
    Host._get_temp_directory.cache.clear()  # cached by name for the whole process; every deploy has its own
    state.activate_host(host)
    state.cwd = str(folder)  # relative sources of files are the role's
    state.set_stage(StateStage.Execute)
    state.is_executing = True
    return host


def _exists(files: paramiko.SFTPClient, path: str) -> bool:
    try:
        files.stat(path)
    except FileNotFoundError:
        return False
    return True


class PyinfraProgress(BaseStateCallback):  # type: ignore[misc]
    """Turns a deploy's operations into events. pyinfra calls back before it has stored a result, hence the delay."""

    def __init__(self, role: str, emit: Callable[[str, dict[str, Any]], None]) -> None:
        self.changed = 0
        self._role = role
        self._emit = emit
        self._told: set[str] = set()
        self._failed: list[tuple[str, str]] = []  # name and what it said

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:
        """pyinfra begins an operation: tell of those before it, and of this one."""
        self.flush(state, host)
        self._emit("progress", {"role": self._role, "detail": _name(state, op_hash)})

    def flush(self, state: State, host: Host) -> None:
        """Tell of what is complete and has not been told."""
        for op_hash, operation in state.ops[host].items():
            meta = operation.operation_meta
            if op_hash in self._told or not meta.is_complete():
                continue
            self._told.add(op_hash)
            if meta.did_change():
                self.changed += 1
                event = {"role": self._role, "kind": "opaque", "name": _name(state, op_hash), "detail": ""}
                self._emit("changed", event)
            if meta.did_error() and not operation.global_arguments.get("_ignore_errors"):
                self._failed.append((_name(state, op_hash), meta.stderr or meta.stdout))

    def failed(self) -> tuple[str, str]:
        """Name and output of the operation that stopped the deploy; empty if it was not an operation."""
        return self._failed[-1] if self._failed else ("", "")


def _name(state: State, op_hash: str) -> str:
    return next(iter(state.op_meta[op_hash].names), "operation")
