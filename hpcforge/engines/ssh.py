"""One ssh connection for each node: strict host keys, limited waits, remote commands with their streams.

It runs in the engine's child process, where gevent has patched sockets and threads: a blocking call here only blocks
this node's greenlet.
"""

from __future__ import annotations

import base64
import itertools
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import gevent
import paramiko

from hpcforge.engines import packets
from hpcforge.engines.connect_errors import classify, dropped
from hpcforge.engines.host_keys import UnreachableError, host_keys
from hpcforge.engines.node_output import Tail, last_line, split_lines
from hpcforge.engines.tasks import CONNECT_S, HANDSHAKE_S, Target

KEEPALIVE_S = 10.0
ANSWER_S = 15.0  # a node whose sshd does not answer a keep-alive within this time hangs: detected within 25 s
UNACKED_MS = 15_000  # the kernel's limit for acknowledgements: a broken link is detected within 25 s
RETRY_S = 1.0  # pause before a login is tried again that sshd dropped because of too many pending ones
SHELL_S = 25.0  # limit for a login shell to begin a command, after its start-up files and PAM
SESSION_S = 5.0  # sshd may count a session (MaxSessions) for a moment after its end
POLL_S = 2.0  # delay until a command's end is noticed if another process keeps its output open
MAX_OUTPUT_BYTES = 64 * 2**20
CHUNK_BYTES = 65536
MARK_LINE = b"hpcforge-begins\n"
_KEY_KINDS = (  # preference among a node's keys for the recorded one; host certificates prefer the same
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


@dataclass(frozen=True)
class CommandEnd:
    """The end of a remote command. `rc` None: a signal ended it, or it is unknown because `late` or `flooded`."""

    rc: int | None
    stderr: str
    wall_s: float
    late: bool = False
    flooded: bool = False
    note: str = ""  # the outcome of a late one


Stream = socket.socket | paramiko.Channel
Made = TypeVar("Made")
_FAILURES = (OSError, EOFError, ValueError, paramiko.SSHException)


def connect(target: Target, stream: Callable[[Target], Stream], nodes: Iterable[Target] = ()) -> paramiko.SSHClient:
    """Connect, over a stream to port 22, to a node with a host key of the inventory; `nodes`: all of the inventory.

    Raises:
        UnreachableError: with the reason.
    """
    keys = _recorded_keys(target)
    return _retried(target, lambda: _login(target, keys, stream), nodes)


def _login(
    target: Target, keys: list[tuple[str, paramiko.PKey]], stream: Callable[[Target], Stream]
) -> paramiko.SSHClient:
    client = paramiko.SSHClient()  # its default policy rejects unknown keys
    try:
        for kind, key in keys:
            client.get_host_keys().add(target.address, kind, key)
        client.connect(
            target.address,
            username=target.user,
            pkey=_private_key(str(target.key)) if target.key else None,
            allow_agent=target.key is None,
            look_for_keys=target.key is None,
            sock=stream(target),
            timeout=HANDSHAKE_S,
            banner_timeout=HANDSHAKE_S,
            auth_timeout=HANDSHAKE_S,
            transport_factory=packets.transport,
        )
    except _FAILURES:
        client.close()
        raise
    transport = transport_of(client)
    transport.sock.settimeout(1.0)  # paramiko polls its socket at this pace; its own 0.1 s burns a core at 100 nodes
    gevent.spawn(_watch, transport)
    return client


def _retried(target: Target, attempt: Callable[[], Made], nodes: Iterable[Target] = ()) -> Made:
    """Return an attempt's result. Try once more if sshd drops it before its banner, since sshd drops at random."""
    try:
        try:
            return attempt()
        except _FAILURES as error:
            if not dropped(error):
                raise
            gevent.sleep(RETRY_S)
            return attempt()
    except _FAILURES as error:
        raise classify(target, error, nodes) from error


def transport_of(client: paramiko.SSHClient) -> paramiko.Transport:
    """Return the transport of a client's channels. Raise EOFError if it is not connected."""
    transport = client.get_transport()
    if transport is None:
        raise EOFError("not connected")
    return transport


def _recorded_keys(target: Target) -> list[tuple[str, paramiko.PKey]]:
    keys = host_keys(target)
    try:
        return [(kind, paramiko.PKey.from_type_string(kind, base64.b64decode(text))) for kind, text in keys]
    except (ValueError, paramiko.SSHException) as error:
        raise UnreachableError("no-host-key", f"a host key of {target.name} in the inventory is incomplete") from error


@cache
def _private_key(path: str) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except paramiko.PasswordRequiredException as error:
        raise paramiko.AuthenticationException(
            "it is encrypted; load it into your ssh agent and leave `key` out"
        ) from error
    except (OSError, ValueError, TypeError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        raise paramiko.AuthenticationException(f"it cannot be read: {error}") from error


def host_key(target: Target, stream: Callable[[Target], Stream]) -> str:
    """Return the key that a node presents, "ssh-ed25519 AAAA..." if it has one of that kind, without checks.

    Raises:
        UnreachableError: with the reason.
    """
    return _retried(target, lambda: _shown_key(target, stream))


def _shown_key(target: Target, stream: Callable[[Target], Stream]) -> str:
    transport = packets.transport(stream(target))
    try:
        transport.get_security_options().key_types = _KEY_KINDS
        transport.start_client(timeout=HANDSHAKE_S)
        key = transport.get_remote_server_key()
    finally:
        transport.close()
    return f"{key.get_name()} {key.get_base64()}"


def tcp(target: Target) -> socket.socket:
    """Open a TCP connection to a node's sshd, with a timeout for every wait."""
    connection = socket.create_connection((target.address, 22), timeout=CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # paramiko leaves Nagle on: 40 ms a command
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKED_MS)
    return connection


def _watch(transport: paramiko.Transport) -> None:
    """Close a connection if the node answers TCP but not ssh."""
    while True:
        gevent.sleep(KEEPALIVE_S)
        if not transport.is_active():
            return
        answered = False
        with gevent.Timeout(ANSWER_S, False):
            transport.global_request("keepalive@openssh.com", wait=True)
            answered = True
        if not answered:
            transport.close()


def alive(client: paramiko.SSHClient) -> bool:
    """Return whether the connection was up at its last message."""
    transport = client.get_transport()
    return transport is not None and transport.is_active()


def execute(
    client: paramiko.SSHClient,
    target: Target,
    command: str,
    *,
    listen_s: float,
    on_line: Callable[[str], None],
    stdin: bytes = b"",
    begins_s: float | None = None,
) -> CommandEnd:
    """Run a command line; `on_line` gets standard output as it comes. Stop waiting for its end after `listen_s`.

    Raises:
        UnreachableError: the connection died, or no line came within `begins_s`.
    """
    start = time.monotonic()
    stderr = Tail()
    channel, printed, begun = None, "", False
    try:
        with gevent.Timeout(listen_s, _LateError), gevent.Timeout(begins_s, _SilentError) as silence:
            channel = open_session(client, target)
            channel.settimeout(POLL_S)
            keeping = gevent.spawn(_keep, channel, stderr)
            begun, output = _begin(channel, command)
            helpers = [*([gevent.spawn(_send, channel, stdin)] if begun else []), keeping]
            for line in split_lines(output):
                silence.cancel()
                printed = line if line.strip() else printed
                on_line(line)
            rc = channel.recv_exit_status()
            gevent.joinall(helpers, timeout=POLL_S)
            if keeping.value:
                raise _FloodError
    except _LateError:
        return CommandEnd(None, stderr.text(), time.monotonic() - start, late=True)
    except _SilentError:
        raise _silent(target, begins_s) from None
    except _WaitingShellError:
        client.close()  # also closes the session that the shell keeps
        raise _waiting(target) from None
    except _FloodError:
        client.close()  # paramiko would keep all further output of the node
        return CommandEnd(None, stderr.text(), time.monotonic() - start, flooded=True)
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise (lost(target) if begun or isinstance(error, TimeoutError) else _closed(target)) from error
    finally:
        if channel is not None:
            channel.close()
    if rc == -1 and not begun and not isinstance(transport_of(client).get_exception(), TimeoutError):
        raise _closed(target)
    if rc == -1 and not alive(client):
        raise lost(target)
    if not begun and rc != -1:
        raise _turned_away(target, "; ".join(filter(None, (printed, last_line(stderr.text())))), rc)
    return CommandEnd(None if rc == -1 else rc, stderr.text(), time.monotonic() - start)


def open_session(client: paramiko.SSHClient, target: Target) -> paramiko.Channel:
    """Return a channel for a command.

    Raises:
        UnreachableError: sshd opens none.
    """
    until = time.monotonic() + SESSION_S
    while True:
        try:
            return transport_of(client).open_session(timeout=HANDSHAKE_S)
        except paramiko.ChannelException as error:
            if time.monotonic() > until:
                raise UnreachableError(
                    "login",
                    f"{target.name} ({target.address}) lets {target.user} in and opens no session for a command: set "
                    f"MaxSessions in its sshd_config to 10, which is sshd's default ({error.text})",
                ) from error
            gevent.sleep(0.05)
        except paramiko.SSHException as error:
            if "Timeout opening channel" not in str(error):  # paramiko has no type for it
                raise
            client.close()
            raise UnreachableError(
                "silent",
                f"{target.name} ({target.address}) lets {target.user} in and opens no session for a command within "
                f"{HANDSHAKE_S:g} s: a module of PAM waits, or the node is overloaded; nothing was changed",
            ) from error


def marked(command: str) -> str:
    """Return a command line, for any login shell, that prints a mark before it begins; see `after_mark`.

    A shell that runs no program by its path, such as rbash, cannot run it: hpcforge and Ansible need another shell.
    """
    return f"/bin/echo {MARK_LINE.decode().strip()} && {command}"


def after_mark(chunks: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Skip a login shell's output before a command that is `marked`.

    Return whether the command began, and its output; if it did not, the end of the shell's output.
    """
    printed = b""
    for chunk in chunks:
        printed += chunk
        _, mark, rest = printed.partition(MARK_LINE)
        if mark:
            return True, itertools.chain([rest], chunks)
        printed = printed[-CHUNK_BYTES:]
    return False, iter([printed])


def _begin(channel: paramiko.Channel, command: str) -> tuple[bool, Iterator[bytes]]:
    with gevent.Timeout(SHELL_S, _WaitingShellError):
        channel.exec_command(marked(command))
        return after_mark(_received(channel, channel.recv))


def lost(target: Target) -> UnreachableError:
    """Return the error for a connection that was lost during a node's work."""
    return UnreachableError(
        "link",
        f"the connection to {target.name} ({target.address}) was lost during a step, which may have continued; check "
        "the node",
    )


def _closed(target: Target) -> UnreachableError:
    """Return the error of a connection that closed before a command's mark: its input was not sent."""
    return UnreachableError(
        "link",
        f"{target.name} ({target.address}) closed the connection after the login of {target.user}, before any command "
        "began: ChrootDirectory, PAM or a limit in its sshd, or it restarts; nothing was changed",
    )


def _silent(target: Target, begins_s: float | None) -> UnreachableError:
    return UnreachableError(
        "silent",
        f"{target.name} ({target.address}) accepted the login and then sent nothing for {begins_s:g} s: it hangs or "
        "is overloaded, or its sudo waits for PAM or a log server",
    )


def _waiting(target: Target) -> UnreachableError:
    return UnreachableError(
        "silent",
        f"{target.name} ({target.address}) accepted the login of {target.user}, but the login shell did not begin "
        f"a command within {SHELL_S:g} s: a start-up file or a module of PAM waits or asks; a file such as ~/.bashrc "
        "may ask only where there is a terminal: `[ -t 0 ] || return` before it",
    )


def _turned_away(target: Target, printed: str, rc: int) -> UnreachableError:
    return UnreachableError(
        "login",
        f"{target.name} ({target.address}) lets {target.user} in and does not run hpcforge's commands (exit status "
        f"{rc}): {printed[:500] or 'it printed nothing'}; check the login shell, ForceCommand in sshd_config and "
        "`command=` in authorized_keys",
    )


class _SilentError(BaseException):
    pass


class _WaitingShellError(BaseException):
    pass


class _LateError(BaseException):  # no `except Exception` must catch a time-out
    pass


class _FloodError(Exception):
    pass


def _send(channel: paramiko.Channel, data: bytes) -> None:
    rest = memoryview(data)
    try:
        while rest:
            try:
                rest = rest[channel.send(bytes(rest[:CHUNK_BYTES])) :]
            except TimeoutError:
                continue  # the other end reads slowly; the task's own time-out ends this
        channel.shutdown_write()
    except (OSError, EOFError, paramiko.SSHException):
        return  # it ended without reading all its input; its exit status counts


def _keep(channel: paramiko.Channel, tail: Tail) -> bool:
    """Keep the end of standard error. Return whether it exceeded a node's limit: then the command ends."""
    try:
        for line in split_lines(_received(channel, channel.recv_stderr), limit=8192):
            tail.add(line)
    except _FloodError:
        channel.close()
        return True
    return False


def _received(channel: paramiko.Channel, receive: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield chunks until the end of a stream, or until the command has ended and no more came for a while."""
    total, ended = 0, False
    while True:
        try:
            chunk = receive(CHUNK_BYTES)
        except TimeoutError:
            # paramiko also raises it if all data and the end came just after the time-out: only a second time-out, of a
            # wait that began after the command's end, means that no more data will come.
            if ended:
                return
            ended = channel.exit_status_ready()
            continue
        if not chunk:
            return
        total += len(chunk)
        unread = len(channel.in_buffer) + len(channel.in_stderr_buffer)  # a node may ignore the window size
        if max(total, unread) > MAX_OUTPUT_BYTES:
            raise _FloodError
        yield chunk
