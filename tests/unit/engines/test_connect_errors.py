"""Host keys from the inventory, and failures to connect told apart."""

import base64
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from hpcforge.engines import ssh
from hpcforge.engines.connect_errors import classify
from hpcforge.engines.host_keys import UnreachableError, host_keys, known_hosts
from hpcforge.engines.ssh import host_key
from hpcforge.engines.tasks import Target

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK6Yas2OaBo2NdCsmAoKeiavCSvKFdPM4KLFwdh0EHLq"
TARGET = Target("n1", "192.0.2.1", "ops", "sudo", Path("/key"), (KEY + " root@n1", "ecdsa-sha2-nistp256 AAAA"))


def test_known_hosts_has_every_key_of_every_node_without_comments() -> None:
    other = replace(TARGET, name="n2", address="2001:db8::2", host_keys=(KEY,))
    assert known_hosts([TARGET, other]) == (f"192.0.2.1 {KEY}\n192.0.2.1 ecdsa-sha2-nistp256 AAAA\n2001:db8::2 {KEY}\n")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "AAAA",
        "ssh-ed25519",
        "ssh-dss AAAA",
        f"* {KEY}",
        f"@cert-authority {KEY}",
        f"{KEY}\n* {KEY}",
        "ssh-rsa A A\nB C",
    ],
)
def test_what_is_no_key_is_refused_and_not_written(line: str) -> None:
    target = replace(TARGET, host_keys=(line,))
    with pytest.raises(UnreachableError, match="a key looks like") as caught:
        host_keys(target)
    assert caught.value.reason == "no-host-key"
    assert known_hosts([target]) == ""


def test_an_address_cannot_smuggle_in_a_line() -> None:
    assert known_hosts([replace(TARGET, address="192.0.2.1 ssh-rsa AAAA\n*")]) == ""


def test_no_key_says_what_is_missing() -> None:
    with pytest.raises(UnreachableError, match=r"no host key: compare the output of `ssh-keyscan`") as first:
        host_keys(replace(TARGET, host_keys=()))
    with pytest.raises(UnreachableError) as second:
        host_keys(replace(TARGET, name="n2", address="192.0.2.2", host_keys=()))
    assert str(first.value) == str(second.value)  # so that it is printed once for both


def _system(number: int) -> OSError:
    return OSError(number, os.strerror(number))  # which picks the subclass, as the system's own do


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError("timed out"), "timeout"),
        (_system(errno.ETIMEDOUT), "timeout"),
        (_system(errno.ECONNREFUSED), "refused"),
        (_system(errno.EHOSTUNREACH), "no-route"),
        (_system(errno.ENETUNREACH), "no-route"),
        (socket.gaierror(-2, "Name or service not known"), "no-route"),
        (_system(errno.ECONNRESET), "handshake"),
        (_system(errno.EMFILE), "here"),
        (paramiko.AuthenticationException("Authentication failed."), "login"),
        (paramiko.BadAuthenticationType("no", ["password"]), "login"),
        (paramiko.SSHException("Error reading SSH protocol banner"), "handshake"),
        (EOFError(), "handshake"),
        (paramiko.ChannelException(1, "Administratively prohibited"), "via"),
        (paramiko.ChannelException(2, "Connect failed"), "no-route"),
        (paramiko.SSHException("Timeout opening channel."), "timeout"),
    ],
)
def test_failures_to_connect_are_told_apart(error: BaseException, reason: str) -> None:
    known = classify(TARGET, error)
    assert known.reason == reason
    assert "n1 (192.0.2.1)" in str(known)


def test_a_login_that_pam_refuses_is_not_blamed_on_the_key() -> None:
    error = paramiko.AuthenticationException("Authentication failed: transport shut down or saw EOF")
    known = classify(TARGET, error)
    assert known.reason == "login"
    assert "at the login of ops, whatever the key: /etc/nologin is there, or PAM" in str(known)
    assert "/key" not in str(known)


def test_a_login_that_is_refused_names_the_settings_that_refuse_it() -> None:
    said = str(classify(TARGET, paramiko.AuthenticationException("Authentication failed.")))
    assert "AllowUsers, AllowGroups, DenyUsers, DenyGroups, LoginGraceTime or PubkeyAcceptedAlgorithms in sshd" in said


def test_a_port_that_refuses_may_be_another_than_sshds() -> None:
    said = str(classify(TARGET, _system(errno.ECONNREFUSED)))
    assert said == "n1 (192.0.2.1) refuses connections on port 22: is its sshd running?"


def test_a_changed_host_key_is_named_by_both_fingerprints() -> None:
    expected, found = (paramiko.Ed25519Key(data=base64.b64decode(KEY.split()[1])), paramiko.ECDSAKey.generate())
    known = classify(TARGET, paramiko.BadHostKeyException("192.0.2.1", found, expected))
    assert known.reason == "host-key"
    assert expected.fingerprint in str(known)
    assert found.fingerprint in str(known)
    assert "nothing was sent" in str(known)


def test_another_node_that_answers_at_an_address_is_known_by_its_key() -> None:
    expected, shown = (paramiko.Ed25519Key(data=base64.b64decode(KEY.split()[1])), paramiko.ECDSAKey.generate())
    other = Target("n4", "192.0.2.4", "ops", "sudo", host_keys=(f"{shown.get_name()} {shown.get_base64()} n4",))
    strange = Target("n5", "192.0.2.5", "ops", "sudo", host_keys=("ssh-ed25519 %",))
    error = paramiko.BadHostKeyException("192.0.2.1", shown, expected)
    text = str(classify(TARGET, error, (TARGET, strange, other)))
    assert text.startswith("n4 answers at the address of n1 (192.0.2.1): its host key ")
    assert "is that of n4 (192.0.2.4): nothing was sent; two nodes have this address" in text
    assert "nodes replace" not in text
    assert "nodes replace BLUEPRINT n1" in str(classify(TARGET, error, (TARGET, strange)))


KEY_OF_A_SERVER = paramiko.ECDSAKey.generate()


@contextmanager
def sshd(*answers: str) -> Iterator[tuple[int, list[str]]]:
    """A port that answers connections in turn: "drop", "late" (drop after the banner) or "key"; and its answers."""
    done: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                with suppress(OSError, EOFError, paramiko.SSHException):
                    connection, _ = server.accept()
                    done.append(answer)
                    if answer == "key":
                        transport = paramiko.Transport(connection)
                        transport.add_server_key(KEY_OF_A_SERVER)
                        transport.start_server(server=paramiko.ServerInterface())
                        continue
                    connection.sendall(b"Exceeded MaxStartups\r\n" if answer == "drop" else b"SSH-2.0-OpenSSH_9.2\r\n")
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], done


def shown(port: int) -> str:
    return host_key(TARGET, lambda _: socket.create_connection(("127.0.0.1", port), 5))


def test_a_login_that_sshd_drops_is_tried_once_more() -> None:
    with sshd("drop", "key") as (port, done):
        assert shown(port) == f"{KEY_OF_A_SERVER.get_name()} {KEY_OF_A_SERVER.get_base64()}"
    assert done == ["drop", "key"]


def test_one_that_is_dropped_twice_says_what_is_the_matter() -> None:
    with (
        sshd("drop", "drop", "key") as (port, done),
        pytest.raises(UnreachableError, match="too many pending logins") as caught,
    ):
        shown(port)
    assert caught.value.reason == "handshake"
    assert done == ["drop", "drop"]


@contextmanager
def server(greeting: bytes, end: str) -> Iterator[tuple[int, list[str]]]:
    """A port that sends a greeting, and then closes, resets or keeps what comes; and what it did."""
    done: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    done.append(end)
                    with connection:
                        connection.recv(1024)
                        connection.sendall(greeting)
                        while end == "keep" and connection.recv(65536):
                            pass
                        if end == "reset":
                            linger = struct.pack("ii", 1, 0)  # on, 0 s: closing resets
                            connection.recv(65536)
                            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1], done
        listening.shutdown(socket.SHUT_RDWR)
    serving.join(10)


BANNER = b"SSH-2.0-OpenSSH_9.2\r\n"
MUTE = "accepts connections on port 22 and sends no SSH banner within 1 s: sshd hangs, or another program has the port"


@pytest.mark.parametrize(
    ("greeting", "end", "words"),
    [
        (b"", "keep", MUTE),
        (
            b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n",
            "close",
            "answers port 22 with 'HTTP/1.1 400 Bad Request', ",
        ),
        (
            b"220 mail ESMTP\r\n",
            "keep",
            "answers port 22 with '220 mail ESMTP', which is not the banner of an SSH server",
        ),
        (b"\x15\x03\x1b[31m" + b"x" * 900, "keep", "answers port 22 with '???[31m" + "x" * 53 + "', which"),
        (BANNER, "reset", "ends the ssh handshake (connection reset by peer): its sshd may have no algorithm or host"),
        (BANNER, "close", "ends the ssh handshake (connection "),
        (BANNER, "keep", "begins the ssh handshake and does not end it within 1 s"),
    ],
)
def test_what_is_no_sshd_or_ends_in_the_handshake_is_named(
    greeting: bytes, end: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "HANDSHAKE_S", 1.0)
    with server(greeting, end) as (port, done), pytest.raises(UnreachableError) as caught:
        shown(port)
    assert str(caught.value).startswith(f"n1 (192.0.2.1) {words}")
    assert caught.value.reason == "handshake"
    assert done == [end]  # only what closes before its banner is tried again


def test_what_fails_after_the_banner_is_not_tried_again() -> None:
    with sshd("late", "key") as (port, done), pytest.raises(UnreachableError):
        shown(port)
    assert done == ["late"]
