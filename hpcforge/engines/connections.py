"""Routes to nodes, direct or through one machine, and the nodes' connections.

It runs in the engine's child process, like `ssh`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import paramiko
from gevent.lock import BoundedSemaphore

from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.ssh import Stream, alive, connect, host_key, tcp, transport_of
from hpcforge.engines.tasks import Target

AT_ONCE = 64  # pending connections: each costs a key exchange here, and a slow node must not wait for all
VIA_S = 15.0  # limit for a jump host to reach a node; it answers the first request after its PAM modules
_REMEMBER_S = 10.0  # pause before an unreachable jump host, or node, is tried again


@dataclass
class Route:
    """The route to nodes. With `via`, one connection to it carries a channel to each node.

    direct-tcpip channels count neither as sessions (MaxSessions) nor as pending logins (MaxStartups) on that machine,
    so its sshd needs no settings for many nodes.
    """

    via: Target | None
    nodes: Mapping[str, Target] = field(default_factory=dict)  # all of the inventory, by name
    _client: paramiko.SSHClient | None = None
    _failed: tuple[float, UnreachableError] | None = None
    _making: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(1))
    _at_once: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(AT_ONCE))

    def connect(self, target: Target) -> paramiko.SSHClient:
        """Open a connection to a node with a recorded host key. Raise `UnreachableError`."""
        with self._at_once:
            return connect(target, self._stream, self.nodes.values())

    def host_key(self, target: Target) -> str:
        """Return the host key that a node presents. Raise `UnreachableError`."""
        with self._at_once:
            return host_key(target, self._stream)

    def _stream(self, target: Target) -> Stream:
        if self.via is None or target.address == self.via.address:
            return tcp(target)
        transport = transport_of(self._to_via(self.via))
        # The jump host's own connection timeout is longer: this timeout still gets late messages.
        return transport.open_channel("direct-tcpip", (target.address, 22), ("127.0.0.1", 0), timeout=VIA_S)

    def _to_via(self, via: Target) -> paramiko.SSHClient:
        with self._making:
            if self._client is not None and alive(self._client):
                return self._client
            if self._failed is not None and time.monotonic() < self._failed[0] + _REMEMBER_S:
                raise self._failed[1]
            try:
                self._client = connect(via, tcp)
            except UnreachableError as error:
                failure = UnreachableError("via", f"the jump host {via.name} (`access.via`) cannot be used: {error}")
                self._failed = (time.monotonic(), failure)
                raise failure from error
            return self._client


@dataclass
class Connection:
    """One node's connection: made when first needed, and again when it was lost."""

    route: Route
    target: Target
    _client: paramiko.SSHClient | None = None
    _failed: tuple[float, UnreachableError] | None = None  # the attempt ahead of the first task

    @property
    def alive(self) -> bool:
        """Return whether the connection was up at its last message."""
        return self._client is not None and alive(self._client)

    def close(self) -> None:
        """Give the connection up: the next one is new."""
        self._failed = None
        if self._client is not None:
            self._client.close()
            self._client = None

    def client(self) -> paramiko.SSHClient:
        """Return the connection. Raise `UnreachableError`."""
        if self._client is not None and alive(self._client):
            return self._client
        failed, self._failed = self._failed, None
        if failed is not None and time.monotonic() < failed[0] + _REMEMBER_S:
            raise failed[1]
        self._client = self.route.connect(self.target)
        return self._client

    def open_ahead(self) -> None:
        """Open the connection before it is needed. If that fails, the first use soon after fails in the same way."""
        try:
            self.client()
        except UnreachableError as error:
            self._failed = (time.monotonic(), error)
