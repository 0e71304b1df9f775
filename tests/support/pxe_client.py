"""A machine's firmware, as far as its network boot goes: DHCP and TFTP. Run as a program in a network namespace.

python pxe_client.py dhcp INTERFACE MAC ARCHITECTURE IPXE    prints the answer as JSON; null without one
python pxe_client.py tftp SERVER FILE                        prints what is in the file, as base64
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import sys
from typing import Any

_COOKIE = b"\x63\x82\x53\x63"
_WAIT_S = 4.0


def discover(interface: str, mac: str, architecture: int, ipxe: bool) -> dict[str, Any] | None:
    """Ask for an address as firmware does (RFC 2131, 4578): the first offer, or None."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    head = (
        struct.pack(">BBBBIHH", 1, 1, 6, 0, 0x39031977, 0, 0x8000) + bytes(16) + hardware.ljust(16, b"\0") + bytes(192)
    )
    options = b"\x35\x01\x01" + b"\x37\x04\x01\x03\x42\x43" + b"\x5d\x02" + struct.pack(">H", architecture)
    options += b"\x3c\x20" + f"PXEClient:Arch:{architecture:05d}:UNDI:003016".encode()
    options += b"\xaf\x03\x12\x01\x01" if ipxe else b""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
        asking.bind(("", 68))
        asking.settimeout(_WAIT_S)
        asking.sendto(head + _COOKIE + options + b"\xff", ("255.255.255.255", 67))
        try:
            answer = asking.recv(2048)
        except TimeoutError:
            return None
    found = _options(answer[240:])
    file = found.get(67, answer[108:236]).split(b"\0")[0].decode()
    server = socket.inet_ntoa(answer[20:24])
    return {"address": socket.inet_ntoa(answer[16:20]), "server": server, "file": file}


def _options(raw: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < len(raw) and raw[at] != 255:
        if raw[at] == 0:
            at += 1
            continue
        found[raw[at]] = raw[at + 2 : at + 2 + raw[at + 1]]
        at += 2 + raw[at + 1]
    return found


def tftp(server: str, name: str) -> bytes:
    """Read a file by TFTP (RFC 1350)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_WAIT_S)
        asking.sendto(b"\0\x01" + name.encode() + b"\0octet\0", (server, 69))
        whole, expected = b"", 1
        while True:
            packet, sender = asking.recvfrom(2048)
            kind, number = struct.unpack(">HH", packet[:4])
            if kind != 3:
                raise SystemExit(packet[4:].decode("utf-8", "replace"))
            if number == expected & 0xFFFF:
                whole += packet[4:]
                expected += 1
            asking.sendto(b"\0\x04" + packet[2:4], sender)
            if len(packet) < 516:
                return whole


if __name__ == "__main__":
    if sys.argv[1] == "dhcp":
        print(json.dumps(discover(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "ipxe")))
    else:
        print(base64.b64encode(tftp(sys.argv[2], sys.argv[3])).decode())
