"""Other DHCP servers on a network: a DISCOVER is sent and no offer is taken (RFC 2131).

It is sent and received as whole Ethernet frames, so that neither the firewall of this machine nor a DHCP client that
has the port is in the way.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import struct
import time
from collections.abc import Collection, Sequence

_COOKIE = b"\x63\x82\x53\x63"
_AT_ONCE = 64  # questions in a round: more could fill a server's queue
_ROUND_S = 0.25
_TIMES = 2  # a frame may be lost
_WAIT_S = 2.0  # after each; a server that pings an address before it offers it takes 1 s (RFC 2131, 2.2)
_IP, _UDP = 14, 34  # where their headers begin; both are sent without options
_BOOTP = 42
_SERVER_ID = 54
_ALL_PROTOCOLS = 0x0003  # ETH_P_ALL of linux/if_ether.h


def others(interface: str, own: Collection[str], macs: Sequence[str] = (), wait_s: float = _WAIT_S) -> tuple[str, ...]:
    """Return the addresses of DHCP servers that offer one to an unknown machine or to one of `macs`. Needs root.

    A server that knows other machines, and answers no unknown one, stays unseen.
    """
    number = secrets.randbits(32)
    source = b"\x02" + secrets.token_bytes(5)
    asking = [source, *(bytes.fromhex(mac.replace(":", "")) for mac in macs)]
    found: dict[str, None] = {}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as there:
        there.bind((interface, 0))
        for _ in range(_TIMES):
            for first in range(0, len(asking), _AT_ONCE):
                for mac in asking[first : first + _AT_ONCE]:
                    there.send(discover_frame(mac, number, source))
                last = first + _AT_ONCE >= len(asking)
                found |= dict.fromkeys(_servers(there, number, wait_s if last else min(_ROUND_S, wait_s)))
    return tuple(server for server in found if server not in own)


def _servers(there: socket.socket, number: int, wait_s: float) -> list[str]:
    """Return the servers whose answers arrive within `wait_s`."""
    found: list[str] = []
    until_s = time.monotonic() + wait_s
    while (left_s := until_s - time.monotonic()) > 0:
        there.settimeout(left_s)
        try:
            server = server_of(there.recv(2048), number)
        except TimeoutError:
            break
        if server is not None:
            found.append(server)
    return found


def discover_frame(mac: bytes, number: int, source: bytes) -> bytes:
    """Return a DHCPDISCOVER about a machine with this MAC address, from `source` to all on its network."""
    bootp = struct.pack(">BBBBIHH", 1, 1, 6, 0, number, 0, 0x8000) + bytes(16) + mac.ljust(16, b"\0") + bytes(192)
    bootp += _COOKIE + b"\x35\x01\x01" + b"\x37\x02\x01\x03" + b"\xff"
    bootp = bootp.ljust(300, b"\0")  # the least that BOOTP has (RFC 1542, 2.1)
    udp = struct.pack(">HHHH", 68, 67, 8 + len(bootp), 0)  # 0: without a checksum (RFC 768)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(bootp), 0, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    ip = ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:]
    return b"\xff" * 6 + source + b"\x08\x00" + ip + udp + bootp


def server_of(frame: bytes, number: int) -> str | None:
    """Return which server a frame comes from, if it is an answer to the DISCOVER with this number."""
    if len(frame) < _BOOTP + 240 or frame[12:14] != b"\x08\x00" or frame[_IP] != 0x45 or frame[_IP + 9] != 17:
        return None
    if frame[_UDP : _UDP + 4] != b"\x00\x43\x00\x44" or frame[_BOOTP] != 2:
        return None
    if frame[_BOOTP + 4 : _BOOTP + 8] != struct.pack(">I", number) or frame[_BOOTP + 236 : _BOOTP + 240] != _COOKIE:
        return None
    source = frame[_IP + 12 : _IP + 16]
    return str(ipaddress.IPv4Address(_option(frame[_BOOTP + 240 :], _SERVER_ID) or source))


def _option(options: bytes, wanted: int) -> bytes | None:
    """The value of an option of four bytes; None where it is not there."""
    at = 0
    while at + 1 < len(options) and options[at] != 255:
        if options[at] == 0:
            at += 1
            continue
        value = options[at + 2 : at + 2 + options[at + 1]]
        if options[at] == wanted and len(value) == 4:
            return value
        at += 2 + options[at + 1]
    return None


def _checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
