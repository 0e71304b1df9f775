"""The causes of failed connections."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

import paramiko

from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.packets import HandshakeError, NothingInCommonError
from hpcforge.engines.tasks import CONNECT_S, Target

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL}


_CLOSED_AT_LOGIN = "transport shut down"  # paramiko's message; sshd closes this way if PAM's account modules refuse


def dropped(error: BaseException) -> bool:
    """Return whether sshd closed the connection before its banner: it has too many pending logins (MaxStartups)."""
    return isinstance(error, HandshakeError) and error.by_chance


def classify(target: Target, error: BaseException, nodes: Iterable[Target] = ()) -> UnreachableError:
    """Return the cause of a failed connection, as a reason and a sentence with the remedy.

    `nodes`: all of the inventory. One of them may answer at another's address.
    """
    label = f"{target.name} ({target.address})"
    if isinstance(error, paramiko.BadHostKeyException):
        return _host_key_changed(target, label, error, nodes)
    if isinstance(error, paramiko.AuthenticationException) and _CLOSED_AT_LOGIN in str(error):
        return UnreachableError(
            "login",
            f"{label} closes the connection at the login of {target.user}, whatever the key: /etc/nologin is there, or "
            "PAM does not admit the account, which may have expired; `journalctl -t sshd` on its console says why",
        )
    if isinstance(error, paramiko.AuthenticationException):
        return _no_login(target, label, error)
    if isinstance(error, NothingInCommonError):
        return UnreachableError("handshake", f"{label} answers on port 22, but {error}")
    if isinstance(error, paramiko.ChannelException):
        return _no_way_through(label, error)
    if isinstance(error, HandshakeError):
        mtu = f", or large packets are lost (MTU: `ping -M do -s 1472 {target.address}`)" if error.stalled else ""
        return UnreachableError("handshake", f"{label} {error}{mtu}")
    if isinstance(error, OSError):
        return _no_connection(label, error, target.start)
    if isinstance(error, paramiko.SSHException) and "opening channel" in str(error):  # paramiko has no type for it
        return UnreachableError("timeout", f"the jump host gets no answer from port 22 of {label}")
    detail = str(error) or type(error).__name__
    return UnreachableError("handshake", f"{label} answers on port 22, but the ssh handshake fails: {detail}")


def _no_login(target: Target, label: str, error: paramiko.AuthenticationException) -> UnreachableError:
    with_what = f"the key {target.key}" if target.key else "the keys of your ssh agent"
    return UnreachableError(
        "login",
        f"{label} does not let {target.user} in with {with_what}: {error}; `journalctl -t sshd` on its console says "
        "why: the key in authorized_keys, the account, or AllowUsers, AllowGroups, DenyUsers, DenyGroups, "
        "LoginGraceTime or PubkeyAcceptedAlgorithms in sshd_config",
    )


def _no_way_through(label: str, error: paramiko.ChannelException) -> UnreachableError:
    """Translate a jump host's refusal: RFC 4254, section 5.1; paramiko keeps only the codes."""
    if error.code == 1:
        return UnreachableError(
            "via", f"the jump host may not forward connections to {label}: set AllowTcpForwarding yes in its sshd"
        )
    return UnreachableError("no-route", f"the jump host cannot connect to port 22 of {label}: is it up?")


def _no_connection(label: str, error: OSError, start: str | None) -> UnreachableError:
    if isinstance(error, ConnectionRefusedError):
        return UnreachableError("refused", f"{label} refuses connections on port 22: is its sshd running?")
    if isinstance(error, TimeoutError):
        return UnreachableError("timeout", f"{label} does not answer on port 22 within {CONNECT_S:g} s")
    if isinstance(error, socket.gaierror):
        return UnreachableError("no-route", f"the address of {label} cannot be resolved: {error.strerror}")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return UnreachableError("here", f"this host may open no more connections: raise `ulimit -Hn` to reach {label}")
    if error.errno in _NO_ROUTE:
        stopped = f"; if it is stopped: {start}" if start else ""
        return UnreachableError("no-route", f"no route to {label}: {error.strerror}{stopped}")
    return UnreachableError("handshake", f"{label} cannot be connected to: {error}")


def _host_key_changed(
    target: Target, label: str, error: paramiko.BadHostKeyException, nodes: Iterable[Target]
) -> UnreachableError:
    shown = (error.key.get_name(), error.key.get_base64())
    others = [node for node in nodes if node.name != target.name and shown in _keys(node)]
    if others:
        name = others[0].name
        return UnreachableError(
            "host-key",
            f"{name} answers at the address of {label}: its host key {error.key.fingerprint} is that of {name} "
            f"({others[0].address}): nothing was sent; two nodes have this address, or cables or leases are swapped: "
            f"`ip address` on the console of {name}",
        )
    return UnreachableError(
        "host-key",
        f"the host key of {label} is {error.key.fingerprint}, but the inventory has "
        f"{error.expected_key.fingerprint}: nothing was sent; if the node was reinstalled or replaced, remove the "
        "old key with "
        f"`hpcforge nodes replace BLUEPRINT {target.name}`, then apply with --trust-new",
    )


def _keys(target: Target) -> list[tuple[str, str]]:
    try:
        return host_keys(target)
    except UnreachableError:
        return []
