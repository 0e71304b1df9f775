"""ssh packets of limited size, so that one machine cannot block the connections to the others.

paramiko reads packets and banners of any length before it compares a key, and does not wait while there is input: then
no other greenlet of the process would run. This runs in the engine's child process, like `ssh`.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import gevent
import paramiko
from paramiko.packet import Packetizer
from paramiko.ssh_exception import IncompatiblePeer

# The lists of algorithms of ssh, and the remedy if a node and hpcforge have none in common.
#
# RFC 4253, section 7.1: each side sends its lists, and the connection ends if two of them have no common name.
SSHD_FILE = "/etc/ssh/sshd_config.d/00-hpcforge.conf"  # sshd uses the first line of a keyword
_NAME = re.compile(r"[!-+\--~]{1,64}")  # RFC 4251, section 6; a node must not send other text to a terminal
_MOST_NAMES = 30


@dataclass(frozen=True)
class AlgorithmList:
    """A list of algorithms: its keyword in sshd_config, and an algorithm that sshd and hpcforge support."""

    title: str
    keyword: str
    common: str
    offers: tuple[str, ...]  # paramiko's names of a node's lists


LISTS = {
    "kex": AlgorithmList("key exchange", "KexAlgorithms", "curve25519-sha256", ("kex_algo_list",)),
    "keys": AlgorithmList("kind of host key", "HostKeyAlgorithms", "ssh-ed25519", ("server_key_algo_list",)),
    "ciphers": AlgorithmList(
        "cipher", "Ciphers", "aes256-gcm@openssh.com", ("client_encrypt_algo_list", "server_encrypt_algo_list")
    ),
    "macs": AlgorithmList(
        "MAC", "MACs", "hmac-sha2-256-etm@openssh.com", ("client_mac_algo_list", "server_mac_algo_list")
    ),
}


def without_common(offered: Mapping[str, Sequence[str]], available: Mapping[str, Collection[str]]) -> str:
    """Return both offers and the lines for sshd_config; "" if each list has a common name."""
    return "; ".join(_sentences(offered, available))


def _sentences(offered: Mapping[str, Sequence[str]], available: Mapping[str, Collection[str]]) -> Iterator[str]:
    for name, algorithms in LISTS.items():
        for offer in algorithms.offers:
            if not set(offered[offer]) & set(available[name]):
                yield disagreement(algorithms, offered[offer], available[name])
                break


def disagreement(kind: AlgorithmList, offered: Sequence[str], available: Collection[str]) -> str:
    """Return both lists, and the line for sshd_config that would help."""
    real = [name for name in offered if _NAME.fullmatch(name)]
    names = [name for name in real if not name.startswith(("ext-info-", "kex-strict-"))][:_MOST_NAMES]  # RFC 8308
    own = [name for name in available if not name.startswith(("ext-info-", "kex-strict-"))]
    key = " (`ssh-keygen -A` makes a key of that kind)" if kind.keyword == "HostKeyAlgorithms" else ""
    line = ",".join([*names, kind.common])
    return (
        f"its sshd and hpcforge have no {kind.title} in common: it offers {', '.join(names) or 'none'}; hpcforge has "
        f"{', '.join(own)}; add to {SSHD_FILE} there: {kind.keyword} {line}{key}, and reload sshd"
    )


MOST_PACKET_BYTES = 256 * 1024  # OpenSSH's limit; RFC 4253 requires 35,000, and paramiko's peers send no more
MOST_BANNER_BYTES = 256 * 1024
_GREETING_BYTES = 512  # limit of the text before a banner, for messages
_REFUSALS = ("", "Exceeded MaxStartups", "Not allowed at this time")  # sshd's own messages before it closes, or none
_TURN_S = 0.01  # limit of reading before other connections get their turn


class FairPacketizer(Packetizer):
    """A packetizer that refuses long packets, and gives other connections their turn."""

    def __init__(self, stream: socket.socket | paramiko.Channel) -> None:
        super().__init__(stream)  # type: ignore[arg-type]  # through a jump host it is a channel
        self._banner_bytes = 0
        self._greeting = b""
        self._turn_began_s = time.monotonic()

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes. Raises `SSHException` for more than a packet may have."""
        if n > MOST_PACKET_BYTES:
            raise paramiko.SSHException(f"a packet of {n} bytes, of which {MOST_PACKET_BYTES} may be the most")
        self._give_way()
        data: bytes = super().read_all(n, check_rekey)
        return data

    @property
    def greeting(self) -> str:
        """The first line that came instead of a banner, plain and short; "" without one."""
        line = next(iter(self._greeting.strip().splitlines()), b"")
        text = line[:60].decode(errors="replace")
        return "".join(letter if letter.isprintable() else "?" for letter in text)

    def readline(self, timeout: float) -> str:
        """Return the line with sshd's version; text before it is skipped (RFC 4253, section 4.2)."""
        while True:
            try:
                line: str = super().readline(timeout)
            except UnicodeDecodeError:
                continue
            if line.startswith("SSH-"):
                return line

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of a banner; paramiko searches a line in it."""
        self._give_way()
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]  # the stubs have no private names
        self._banner_bytes += len(data)
        self._greeting = (self._greeting + data)[:_GREETING_BYTES]
        if self._banner_bytes > MOST_BANNER_BYTES:
            raise paramiko.SSHException(f": more than {MOST_BANNER_BYTES} bytes")  # follows paramiko's message
        return data

    def _give_way(self) -> None:
        if time.monotonic() - self._turn_began_s > _TURN_S:
            gevent.sleep(0)
            self._turn_began_s = time.monotonic()


class NothingInCommonError(paramiko.SSHException):
    """A node's sshd and hpcforge have no algorithm of a list in common; the text has both lists and the remedy."""


class HandshakeError(paramiko.SSHException):
    """A failure on port 22 before the login; the text has the cause and the remedy.

    `by_chance`: it closed the connection before its banner, as sshd does with too many pending logins.
    `stalled`: it answered first, and then stopped.
    """

    def __init__(self, text: str, *, by_chance: bool = False, stalled: bool = False) -> None:
        super().__init__(text)
        self.by_chance, self.stalled = by_chance, stalled


class _Transport(paramiko.Transport):
    """paramiko's transport, also with the standard name of curve25519-sha256@libssh.org (RFC 8731)."""

    _kex_info: ClassVar = dict(paramiko.Transport._kex_info)  # type: ignore[attr-defined]  # the stubs lack private names
    _preferred_kex = paramiko.Transport._preferred_kex  # type: ignore[attr-defined]
    if "curve25519-sha256@libssh.org" in _kex_info:  # not with an OpenSSL of FIPS 140
        _kex_info["curve25519-sha256"] = _kex_info["curve25519-sha256@libssh.org"]
        _preferred_kex = tuple(dict.fromkeys(("curve25519-sha256", *_preferred_kex)))

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Exchange keys. Raises `HandshakeError` for paramiko's vague errors, or returns when the time is over."""
        try:
            super().start_client(event, timeout)
        except (EOFError, OSError) as error:
            if self.packetizer.handshake_timed_out():
                raise _stalled(self.handshake_timeout) from error
            raise _ended(error) from error
        except paramiko.SSHException as error:
            if str(error) == "Negotiation failed.":  # paramiko's message if the other end disconnects
                raise _ended(EOFError()) from error
            raise
        if event is None and timeout is not None and not self.initial_kex_done:
            raise _stalled(timeout) if self.remote_version else self._without_banner(TimeoutError(), timeout)

    def _check_banner(self) -> None:
        """Read the banner. Raises `HandshakeError` for paramiko's single message."""
        try:
            super()._check_banner()  # type: ignore[misc]
        except paramiko.SSHException as error:
            if isinstance(error.__context__, EOFError | OSError):
                raise self._without_banner(error.__context__, self.banner_timeout) from error
            raise

    def _without_banner(self, error: EOFError | OSError, waited_s: float) -> HandshakeError:
        greeting = self.packetizer.greeting  # type: ignore[attr-defined]
        if greeting not in _REFUSALS:
            return HandshakeError(f"answers port 22 with '{greeting}', which is not the banner of an SSH server")
        if isinstance(error, TimeoutError):
            return HandshakeError(
                f"accepts connections on port 22 and sends no SSH banner within {waited_s:g} s: sshd hangs, or another "
                "program has the port; `ss -ltnp sport = :22` on its console shows which"
            )
        return HandshakeError(
            "answers on port 22 but closes the connection before its banner: it has too many pending logins, or sshd "
            "refuses this address; `ss -tn 'sport = :22'` on its console lists the connections",
            by_chance=True,
        )

    def _parse_kex_init(self, m: paramiko.Message) -> None:
        """Agree on algorithms. Raises `NothingInCommonError`; paramiko's error has only the name of a list."""
        try:
            super()._parse_kex_init(m)  # type: ignore[misc]
        except IncompatiblePeer as error:
            m.rewind()
            offered = self._really_parse_kex_init(m)  # type: ignore[attr-defined]
            options = self.get_security_options()
            available = {
                "kex": options.kex,
                "keys": options.key_types,
                "ciphers": options.ciphers,
                "macs": options.digests,
            }
            raise NothingInCommonError(without_common(offered, available) or str(error)) from error


def _ended(error: EOFError | OSError) -> HandshakeError:
    how = "connection closed" if isinstance(error, EOFError) else (error.strerror or str(error)).lower()
    return HandshakeError(
        f"ends the ssh handshake ({how}): its sshd may have no algorithm or host key in common with hpcforge, or fails "
        "at start; `journalctl -u ssh -n 20` on its console has the reason"
    )


def _stalled(waited_s: float) -> HandshakeError:
    return HandshakeError(
        f"begins the ssh handshake and does not end it within {waited_s:g} s: it is overloaded or hangs", stalled=True
    )


transport = partial(_Transport, packetizer_class=FairPacketizer)
