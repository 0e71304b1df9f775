"""A machine's firmware, as far as its network boot goes: DHCP and TFTP. Run as a program in a network namespace.

python pxe_client.py dhcp INTERFACE MAC ARCHITECTURE IPXE      prints the answer as JSON; null without one
python pxe_client.py proxied INTERFACE MAC ARCHITECTURE IPXE   the same where one server gives addresses, another files
python pxe_client.py tftp SERVER FILE                          prints what is in the file, as base64
"""

from __future__ import annotations

import base64
import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COOKIE = b"\x63\x82\x53\x63"
_WAIT_S = 4.0
_PXE_PORT = 4011  # of a server that has only boot files (PXE 2.1, 2.2.3)
_VENDOR, _CLASS, _SERVER = 43, 60, 54
_MENU, _ITEM = 9, 71  # within the vendor's options


@contextmanager
def dhcp_server(space: str, interface: str, options: str, folder: Path) -> Iterator[Callable[[], None]]:
    """dnsmasq in a network namespace, as a site's own DHCP server. What is entered fails if it has ended."""
    own = f"port=0\ninterface={interface}\nbind-interfaces\nlog-facility=-\n"
    (folder / "own.conf").write_text(f"{own}{options}dhcp-leasefile={folder}/own-leases\npid-file={folder}/own-pid\n")
    argv = ["ip", "netns", "exec", space, "dnsmasq", "--keep-in-foreground", "--user=root"]
    with (folder / "own.log").open("wb") as log:
        server = subprocess.Popen([*argv, f"--conf-file={folder}/own.conf"], stderr=log)

    def check() -> None:
        assert server.poll() is None, (folder / "own.log").read_text()

    try:
        yield check
    finally:
        server.terminate()
        server.wait()


@dataclass(frozen=True)
class Client:
    """Something on the network where machines boot, as the tests have it: in a network namespace."""

    space: str
    interface: str
    server: str
    address: str

    def run(self, *argv: str, code: int = 0) -> bytes:
        """What a command prints there."""
        process = subprocess.run(
            ["ip", "netns", "exec", self.space, *argv], capture_output=True, check=False, timeout=60
        )
        assert process.returncode == code, process.stderr
        return process.stdout

    def dhcp(self, mac: str, architecture: int = 0, ipxe: str = "", how: str = "dhcp") -> Any:
        """What firmware is told with its address."""
        return json.loads(self.run(sys.executable, __file__, how, self.interface, mac, str(architecture), ipxe))

    def tftp(self, name: str, code: int = 0) -> bytes:
        """What is in a file."""
        return base64.b64decode(self.run(sys.executable, __file__, "tftp", self.server, name, code=code))

    def http(self, path: str, *more: str) -> tuple[int, bytes]:
        """Status and body, as curl with `more` options gets them."""
        url = f"http://{self.server}:8080{path}"
        argv = ["curl", "-s", "-g", "--interface", self.address, "-w", "\n%{http_code}", *more, url]
        body, _, status = self.run(*argv).rpartition(b"\n")
        return int(status), body

    def post(self, path: str, token: str, body: str) -> tuple[int, bytes]:
        """The same for what the installer sends."""
        return self.http(f"/machine/{path}", "-H", f"X-Token: {token}", "--data-binary", body)


def discover(interface: str, mac: str, architecture: int, ipxe: bool) -> dict[str, Any] | None:
    """Ask for an address as firmware does (RFC 2131, 4578): the first offer, or None."""
    with _asking(interface, 68) as asking:
        asking.sendto(_request(mac, architecture, ipxe, 1), ("255.255.255.255", 67))
        try:
            answer = asking.recv(2048)
        except TimeoutError:
            return None
    return {"address": _ip(answer[16:20]), "server": _ip(answer[20:24]), "file": _file(answer)}


def proxied(interface: str, mac: str, architecture: int, ipxe: bool) -> dict[str, Any]:
    """Ask as `discover` does, and take the address from one offer and the file from that of a PXE server.

    Where its offer has no file the server's other port is asked, for the first entry of the menu if the offer has one
    (PXE 2.1, 2.2).
    """
    offer: dict[str, Any] = {"address": None, "server": None, "file": None}
    item = b""
    until = time.monotonic() + _WAIT_S
    with _asking(interface, 68) as asking:
        asking.sendto(_request(mac, architecture, ipxe, 1), ("255.255.255.255", 67))
        while (remaining_s := until - time.monotonic()) > 0:
            asking.settimeout(remaining_s)
            try:
                answer = asking.recv(2048)
            except TimeoutError:
                break
            options = _options(answer[240:])
            if answer[16:20] != bytes(4):
                offer["address"] = _ip(answer[16:20])
            if options.get(_CLASS) == b"PXEClient":
                offer |= {"server": _ip(options[_SERVER]), "file": _file(answer)}
                if ipxe and answer[20:24] == bytes(4):  # it would ask again, and take no file from the answer
                    offer["file"] = None
                menu = _options(options.get(_VENDOR, b"")).get(_MENU, b"")[:2]
                item = bytes((_VENDOR, 7, _ITEM, 4)) + menu + b"\0\0" + b"\xff" if menu else b""
    if offer["file"] == "" and offer["address"]:
        offer["file"] = _booted(offer["server"], mac, architecture, ipxe, item, offer["address"])
    return offer


def _booted(server: str, mac: str, architecture: int, ipxe: bool, more: bytes, address: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_WAIT_S)
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        asking.bind((address, 68))
        asking.sendto(_request(mac, architecture, ipxe, 3, more, address), (server, _PXE_PORT))
        try:
            return _file(asking.recv(2048))
        except TimeoutError:
            return None


def _asking(interface: str, port: int) -> socket.socket:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
    asking.bind(("", port))
    asking.settimeout(_WAIT_S)
    return asking


def _request(
    mac: str, architecture: int, ipxe: bool, kind: int, more: bytes = b"", address: str | None = None
) -> bytes:
    hardware = bytes.fromhex(mac.replace(":", ""))
    flags = 0 if address else 0x8000
    head = struct.pack(">BBBBIHH", 1, 1, 6, 0, 0x39031977, 0, flags) + socket.inet_aton(address or "0.0.0.0")
    head += bytes(12) + hardware.ljust(16, b"\0") + bytes(192)
    options = bytes((0x35, 1, kind)) + b"\x37\x04\x01\x03\x42\x43" + b"\x5d\x02" + struct.pack(">H", architecture)
    options += b"\x3c\x20" + f"PXEClient:Arch:{architecture:05d}:UNDI:003016".encode()
    options += b"\xaf\x03\x12\x01\x01" if ipxe else b""
    return head + _COOKIE + options + more + b"\xff"


def _file(answer: bytes) -> str:
    return _options(answer[240:]).get(67, answer[108:236]).split(b"\0")[0].decode()


def _ip(raw: bytes) -> str:
    return socket.inet_ntoa(raw)


def _options(raw: bytes) -> dict[int, bytes]:
    options: dict[int, bytes] = {}
    at = 0
    while at < len(raw) and raw[at] != 255:
        if raw[at] == 0:
            at += 1
            continue
        options[raw[at]] = raw[at + 2 : at + 2 + raw[at + 1]]
        at += 2 + raw[at + 1]
    return options


def tftp(server: str, name: str) -> bytes:
    """Read a file by TFTP (RFC 1350)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(_WAIT_S)
        asking.sendto(b"\0\x01" + name.encode() + b"\0octet\0", (server, 69))
        content, expected = b"", 1
        while True:
            packet, sender = asking.recvfrom(2048)
            kind, number = struct.unpack(">HH", packet[:4])
            if kind != 3:
                raise SystemExit(packet[4:].decode("utf-8", "replace"))
            if number == expected & 0xFFFF:
                content += packet[4:]
                expected += 1
            asking.sendto(b"\0\x04" + packet[2:4], sender)
            if len(packet) < 516:
                return content


if __name__ == "__main__":
    if sys.argv[1] in ("dhcp", "proxied"):
        ask = discover if sys.argv[1] == "dhcp" else proxied
        print(json.dumps(ask(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "ipxe")))
    else:
        print(base64.b64encode(tftp(sys.argv[2], sys.argv[3])).decode())
