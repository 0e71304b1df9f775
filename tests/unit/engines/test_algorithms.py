"""A node's sshd whose lists of algorithms are not hpcforge's: what it is named as, and what connects."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import paramiko
import pytest

from hpcforge.engines import packets
from hpcforge.engines.host_keys import UnreachableError
from hpcforge.engines.packets import LISTS, without_common
from hpcforge.engines.ssh import host_key
from hpcforge.engines.tasks import Target

TARGET = Target("w02", "10.0.0.2", "ops", "sudo")
# An OpenSSH 9.2's own lists, shortened: of each what it prefers, and what paramiko has as well.
KEX = ["sntrup761x25519-sha512@openssh.com", "ecdh-sha2-nistp256", "ext-info-s", "kex-strict-s-v00@openssh.com"]
KEYS = ["rsa-sha2-512", "ssh-ed25519"]
CIPHERS = ["chacha20-poly1305@openssh.com", "aes128-ctr"]
MACS = ["umac-64-etm@openssh.com", "hmac-sha2-256-etm@openssh.com"]


@contextmanager
def sshd(before: bytes, *lists: Sequence[str]) -> Iterator[int]:
    """A port whose first connection gets these bytes and, where there are lists, a KEXINIT of them."""
    names = [",".join(each).encode() for each in lists]
    fields = [*names[:2], names[2], names[2], names[3], names[3], b"none", b"none", b"", b""] if names else []
    payload = b"\x14" + os.urandom(16) + b"".join(struct.pack(">I", len(each)) + each for each in fields) + bytes(5)
    padding = 12 - (len(payload) + 1) % 8
    packet = struct.pack(">IB", len(payload) + padding + 1, padding) + payload + bytes(padding)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(before + packet if names else before)
                while connection.recv(4096):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def why(port: int) -> str:
    with pytest.raises(UnreachableError) as caught:
        host_key(TARGET, lambda _: socket.create_connection(("127.0.0.1", port), 5))
    assert caught.value.reason == "handshake"
    return str(caught.value)


@pytest.mark.parametrize(
    ("lists", "offer", "line"),
    [
        (
            (["mlkem768x25519-sha256", "kex-strict-s-v00@openssh.com"], KEYS, CIPHERS, MACS),
            "no key exchange in common: it offers mlkem768x25519-sha256; hpcforge has curve25519-sha256, ",
            "KexAlgorithms mlkem768x25519-sha256,curve25519-sha256, and",
        ),
        (
            (KEX, ["ssh-dss"], CIPHERS, MACS),
            "no kind of host key in common: it offers ssh-dss; hpcforge has ssh-ed25519, ",
            "HostKeyAlgorithms ssh-dss,ssh-ed25519 (`ssh-keygen -A` makes a key of that kind), and",
        ),
        (
            (KEX, KEYS, CIPHERS[:1], MACS),
            "no cipher in common: it offers chacha20-poly1305@openssh.com; hpcforge has aes128-ctr, ",
            "Ciphers chacha20-poly1305@openssh.com,aes256-gcm@openssh.com, and",
        ),
        (
            (KEX, KEYS, CIPHERS, MACS[:1]),
            "no MAC in common: it offers umac-64-etm@openssh.com; hpcforge has hmac-sha2-256, ",
            "MACs umac-64-etm@openssh.com,hmac-sha2-256-etm@openssh.com, and",
        ),
    ],
)
def test_a_list_without_one_in_common_is_named_with_both_offers_and_the_line(
    lists: Sequence[Sequence[str]], offer: str, line: str
) -> None:
    with sshd(b"SSH-2.0-OpenSSH_9.2\r\n", *lists) as port:
        text = why(port)
    assert text.startswith("w02 (10.0.0.2) answers on port 22, but its sshd and hpcforge have " + offer)
    assert f"; add to /etc/ssh/sshd_config.d/00-hpcforge.conf there: {line} reload sshd" in text
    assert "kex-strict" not in text
    assert "ext-info" not in text


def test_every_list_without_one_is_named_and_what_is_no_name_is_not() -> None:
    offered = {offer: ["x\x1b[2J", "odd"] for each in LISTS.values() for offer in each.offers}
    text = without_common(offered, {name: [each.common] for name, each in LISTS.items()})
    assert text.count("no ") == 4
    assert "\x1b" not in text
    offered["client_mac_algo_list"] = offered["server_mac_algo_list"] = [LISTS["macs"].common]
    assert "MACs" not in without_common(offered, {name: [each.common] for name, each in LISTS.items()})


@pytest.mark.parametrize("name", [each.common for each in LISTS.values()])
def test_what_the_line_adds_is_what_hpcforge_has(name: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        options = packets.transport(ours).get_security_options()
        assert name in {*options.kex, *options.key_types, *options.ciphers, *options.digests}


@pytest.mark.parametrize("name", ["curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp384"])
def test_a_server_with_one_name_of_a_key_exchange_is_reached(name: str) -> None:
    key = paramiko.ECDSAKey.generate()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            transport = packets.transport(server.accept()[0])
            transport.add_server_key(key)
            transport.get_security_options().kex = (name,)
            # With an event it waits for nothing, and the client's early end is no error of this thread.
            transport.start_server(event=threading.Event(), server=paramiko.ServerInterface())

        threading.Thread(target=serve, daemon=True).start()
        port = server.getsockname()[1]
        shown = host_key(TARGET, lambda _: socket.create_connection(("127.0.0.1", port), 5))
    assert shown == f"{key.get_name()} {key.get_base64()}"


@pytest.mark.parametrize(
    "before",
    [
        b"Welcome.\r\n" * 5000,
        b"x" * 200_000 + b"\r\n",
        "Zutritt für Befugte\r\n".encode("latin-1") * 300,
    ],
)
def test_text_before_the_version_is_passed_over(before: bytes) -> None:
    with sshd(before + b"SSH-2.0-OpenSSH_9.2\r\n", KEX, KEYS, CIPHERS[:1], MACS) as port:
        assert "no cipher in common" in why(port)  # so the version was read
