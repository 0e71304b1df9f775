"""Whom the server answers, and with what."""

from __future__ import annotations

import json
import re
import shlex
import socket as sockets
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcforge.metal.netboot import Records, server
from hpcforge.metal.netboot.configurations import BootHost
from hpcforge.metal.netboot.decide import Record
from hpcforge.metal.netboot.server import Boots, begin, boot_script, broken, end, identity

MAC, OTHER = "02:00:00:00:00:01", "02:00:00:00:00:02"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJpoPS4bXRaMe6tTySXaOHYpzDJSvNFcFZLYYhJcYgBN"
DISK = {"name": "vda", "serial": "S1", "bytes": 10**10, "blank": True, "marker": ""}


@pytest.fixture
def of(tmp_path: Path) -> Boots:
    records = Records(tmp_path)
    records.change("w1", lambda _: Record("w1", "wanted", 100.0, "image", mac=MAC))
    hosts = {MAC: BootHost("w1", MAC, "10.0.0.11"), OTHER: BootHost("w2", OTHER, "10.0.0.12")}
    files = {"vmlinuz": "a" * 64, "initrd.img": "b" * 64, "root.ext4": "c" * 64}
    identities = {"w1": identity("w1", {"user": "ops"}), "w2": ""}
    return Boots(records, hosts, identities, "http://10.0.0.1", "image", 3 << 20, files, now_s=lambda: 50.0)


def token(of: Boots) -> str:
    script = boot_script(of, MAC, "pcbios", "10.0.0.11").text
    found = re.search("hpcforge.token=(\\S+)", script)
    assert found
    return found[1]


def body(*disks: dict[str, Any]) -> bytes:
    return json.dumps(disks).encode()


def test_a_machine_is_installed_once(of: Boots) -> None:
    held = token(of)
    reply = begin(of, held, "10.0.0.11", body(DISK))
    assert reply.status == 200
    assert reply.text.startswith(f"disks='vda'\nimage_sha256={'c' * 64}\nimage_bytes=3145728\nmarker=")
    assert end(of, held, "10.0.0.11", f"{HOST_KEY} root@w1\n".encode()).status == 200
    record = of.records.read()["w1"]
    assert (record.state, record.host_keys, record.disks) == ("installed", (HOST_KEY,), ("S1",))
    assert begin(of, held, "10.0.0.11", body(DISK)).status == 403
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text


def test_a_machine_that_starts_again_while_it_is_installed_boots_its_disk_and_has_failed(of: Boots) -> None:
    held = token(of)
    begin(of, held, "10.0.0.11", body(DISK))
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text  # power was lost: not again
    assert "power was lost" in of.records.read()["w1"].why
    assert end(of, held, "10.0.0.11", HOST_KEY.encode()).status == 403
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text


def test_a_record_is_of_one_machine_and_not_of_the_next_with_its_name(of: Boots) -> None:
    of.records.change("w1", lambda _: Record("w1", "wanted", 100.0, "image", mac="02:00:00:00:00:77"))
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text


def test_a_stranger_gets_nothing(of: Boots) -> None:
    assert boot_script(of, MAC, "pcbios", "10.0.0.99").status == 403
    assert boot_script(of, MAC, "pcbios", "10.0.0.12").status == 403  # another node of ours
    assert boot_script(of, "02:00:00:00:00:09", "pcbios", "10.0.0.11").status == 403
    held = token(of)
    assert begin(of, held, "10.0.0.12", body(DISK)).status == 403
    assert begin(of, "guessed", "10.0.0.11", body(DISK)).status == 403
    assert end(of, held, "10.0.0.11", HOST_KEY.encode()).status == 403  # nothing has begun
    assert of.records.read()["w1"].state == "offered"


def test_a_flood_of_refused_requests_prints_few_lines(of: Boots) -> None:
    lines, clock = list[str](), [0.0]
    of = replace(of, say=lines.append, now_s=lambda: clock[0])
    for _ in range(1000):
        boot_script(of, "02:00:00:00:00:09", "pcbios", "10.0.0.99")
    assert len(lines) == 20
    clock[0] = 61.0
    begin(of, "guessed", "10.0.0.99", body(DISK))
    assert lines[20:] == [
        "980 more requests were refused in that minute",
        "10.0.0.99 showed a token that is not its own: refused",
    ]


def test_a_token_that_is_used_twice_ends_the_installation(of: Boots) -> None:
    held = token(of)
    assert begin(of, held, "10.0.0.11", body(DISK)).status == 200
    assert begin(of, held, "10.0.0.11", body(DISK)).status == 403
    assert end(of, held, "10.0.0.11", HOST_KEY.encode()).status == 403
    assert "used twice" in of.records.read()["w1"].why


@pytest.mark.parametrize(
    ("disks", "why"),
    [
        (b"[", "an invalid list of disks"),
        (b"[" * 50_000, "an invalid list of disks"),
        (body({**DISK, "blank": False}), "every disk has data"),
        (body({**DISK, "name": "vda; reboot"}), "is invalid"),
        (body({**DISK, "bytes": -1}), "no disk"),
    ],
)
def test_an_odd_list_of_disks_writes_nothing(of: Boots, disks: bytes, why: str) -> None:
    reply = begin(of, token(of), "10.0.0.11", disks)
    assert reply.status == 409 and why in reply.text
    assert of.records.read()["w1"].state == "failed"


def test_what_the_installer_says_of_a_failure_is_kept(of: Boots) -> None:
    held = token(of)
    begin(of, held, "10.0.0.11", body(DISK))
    broken(of, held, "10.0.0.11", b"no \x1b[2J disk\nnetwork is up\n\xff\x07\n" + b"x\n" * 100)
    record = of.records.read()["w1"]
    assert record.why == "the installer says: no [2J disk"
    assert record.console == ("x",) * 25


@pytest.mark.parametrize("keys", [b"", b"ssh-ed25519 short", b"\xff\xfe", f"{HOST_KEY}\n".encode() * 9])
def test_what_is_no_host_key_is_not_taken(of: Boots, keys: bytes) -> None:
    held = token(of)
    begin(of, held, "10.0.0.11", body(DISK))
    assert end(of, held, "10.0.0.11", keys).status == 409
    assert of.records.read()["w1"].host_keys == ()


def test_without_records_and_with_another_image_machines_boot_their_disks(of: Boots, tmp_path: Path) -> None:
    of.records.change("w1", lambda _: Record("w1", "wanted", 100.0, "older", mac=MAC))
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text
    of.records.path.unlink()
    assert "sanboot" in boot_script(of, MAC, "pcbios", "10.0.0.11").text


def test_an_identity_is_read_by_a_shell_as_it_is() -> None:
    odd = 'it\'s $(reboot) `x` \\ "q"'
    script = f'{identity("w1", {"key": odd})}printf %s "$key"'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == odd
    assert shlex.split(identity("w1", {"key": odd})) == ["hostname=w1", f"key={odd}"]
    assert server.Reply(404).text == ""


def answers(socket: Path) -> bool:
    """Whether a server is there."""
    with sockets.socket(sockets.AF_UNIX) as asking:
        asking.settimeout(30)
        asking.connect(str(socket))
        asking.sendall(b"GET /machine/x HTTP/1.0\r\n\r\n")
        return asking.recv(64).startswith(b"HTTP/1.0 404")


def test_a_second_server_does_not_touch_the_first_ones_socket(of: Boots, tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    with sockets.socket(sockets.AF_UNIX) as killed:
        killed.bind(str(socket))  # a server that was killed left it
    with server.serving(socket, of) as own:
        with pytest.raises(server.ServerError, match="another server answers on"), server.serving(socket, of):
            pass
        assert own() and answers(socket)
    assert not socket.exists()


def test_a_server_whose_socket_was_replaced_says_so_and_leaves_the_new_one(of: Boots, tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    with server.serving(socket, of) as own:
        socket.rename(tmp_path / "moved")
        assert not own()
        with server.serving(socket, of) as other:
            assert other() and not own()
            (tmp_path / "moved").rename(socket)
            assert own() and not other()
        assert own()  # the other one's end left it
    assert not socket.exists()


def test_a_request_that_fails_is_a_line_and_no_traceback(
    of: Boots, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    of.records.path.write_text("damaged")
    with server.serving(tmp_path / "socket", replace(of, say=lines.append)) as own:
        with sockets.socket(sockets.AF_UNIX) as asking:
            asking.connect(str(tmp_path / "socket"))
            asking.sendall(f"GET /machine/boot.ipxe?mac={MAC} HTTP/1.0\r\nX-Real-IP: 10.0.0.11\r\n\r\n".encode())
            assert asking.recv(64) == b""
        assert own()
    assert len(lines) == 1 and "a request failed: RecordsError: " in lines[0] and "cannot be read" in lines[0]
    assert capfd.readouterr().err == ""


def test_many_machines_that_ask_at_once_are_all_answered(of: Boots, tmp_path: Path) -> None:
    """nginx answers 502 where the server's queue is full."""
    socket = tmp_path / "socket"
    with server.serving(socket, of), ExitStack() as held:
        asking = [held.enter_context(sockets.socket(sockets.AF_UNIX)) for _ in range(300)]
        for each in asking:
            each.setblocking(False)
            each.connect(str(socket))  # raises BlockingIOError where the queue is full
