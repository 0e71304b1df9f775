"""What a DHCP server is asked, and which answers count."""

from __future__ import annotations

import random
import socket
import struct
from typing import Self

import pytest

from hpcforge.metal.netboot.services import discover_frame, others, server_of

MAC = bytes.fromhex("020000790701")


def offer(number: int, options: bytes, source: bytes = bytes([10, 0, 0, 9])) -> bytes:
    bootp = struct.pack(">BBBBI", 2, 1, 6, 0, number) + bytes(228) + b"\x63\x82\x53\x63" + options
    udp = struct.pack(">HHHH", 67, 68, 8 + len(bootp), 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(bootp), 0, 0, 64, 17, 0, source, b"\xff" * 4)
    return b"\xff" * 6 + MAC + b"\x08\x00" + ip + udp + bootp


def test_an_offer_names_its_server() -> None:
    assert server_of(offer(7, b"\x35\x01\x02\x36\x04\x0a\x00\x00\x01\xff"), 7) == "10.0.0.1"
    assert server_of(offer(7, b"\0\0\xff"), 7) == "10.0.0.9"  # BOOTP alone


def test_what_is_no_answer_to_this_question_is_ignored() -> None:
    assert server_of(offer(8, b"\xff"), 7) is None
    assert server_of(discover_frame(MAC, 7, MAC), 7) is None
    for frame in (b"", b"x" * 2000, offer(7, b"\xff")[:200]):
        assert server_of(frame, 7) is None


def test_odd_frames_raise_nothing() -> None:
    draw = random.Random(1)
    whole = offer(7, b"\x35\x01\x02\x36\x04\x0a\x00\x00\x01\xff")
    for _ in range(2000):
        frame = bytearray(whole[: draw.randrange(len(whole) + 1)])
        for _ in range(draw.randrange(4)):
            if frame:
                frame[draw.randrange(len(frame))] = draw.randrange(256)
        server_of(bytes(frame), 7)


def test_a_question_is_a_whole_frame() -> None:
    frame = discover_frame(MAC, 0x01020304, b"\x02other")
    assert frame[:14] == b"\xff" * 6 + b"\x02other" + b"\x08\x00"
    assert frame[70:76] == MAC
    words = struct.unpack(">10H", frame[14:34])
    total = sum(words)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # its checksum fits
    assert struct.unpack(">HHHH", frame[34:42]) == (68, 67, len(frame) - 34, 0)
    assert frame[46:50] == b"\x01\x02\x03\x04"


class FakeSocket:
    """A network with a server that knows one machine, and answers it only."""

    known = bytes.fromhex("0200000000c7")

    def __init__(self, *_kind: int) -> None:
        self.asked: list[bytes] = []
        self.answers: list[bytes] = []
        self.at_once = self.most = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Stay open."""

    def bind(self, _place: tuple[str, int]) -> None:
        """Take any."""

    def settimeout(self, _limit_s: float) -> None:
        """Never wait."""

    def send(self, frame: bytes) -> None:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.asked.append(frame[70:76])
        if frame[70:76] == self.known:
            self.answers += [
                offer(struct.unpack(">I", frame[46:50])[0], b"\xff", bytes([10, 0, 0, last])) for last in (1, 9)
            ]

    def recv(self, _size: int) -> bytes:
        self.at_once = 0
        if not self.answers:
            raise TimeoutError
        return self.answers.pop()


def test_every_machine_is_asked_for_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeSocket()
    monkeypatch.setattr(socket, "socket", lambda *_: there)
    macs = [f"02:00:00:00:00:{number:02x}" for number in range(200)]
    assert others("eth0", ["10.0.0.1"], macs) == ("10.0.0.9",)
    assert there.most == 64
    assert {bytes.fromhex(mac.replace(":", "")) for mac in macs} < set(there.asked)
    assert len(there.asked) == 2 * 201
