"""Ports as a node finds them: the program is run as there, against sockets that are really held."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from hpcforge.programs import rank_ports as ports
from hpcforge.verify.submit import PORTS

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")

HOLD = """
import socket, sys
held = socket.socket()
held.bind(("", 0))
if sys.argv[1] == "listen":
    held.listen()
print(held.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(how: str, user: str | None = None) -> Iterator[tuple[int, int]]:
    """A process that holds a port: the port, and the process."""
    command = ["/usr/bin/python3", "-I", "-c", HOLD, how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, user=user, **pipes) as process:  # type: ignore[call-overload]
        yield int(process.stdout.readline()), process.pid
        process.stdin.close()


def told(*words: object, user: str | None = None, text: str = PORTS) -> dict[str, Any] | None:
    """What the program says on a node."""
    command = ["/usr/bin/python3", "-I", "-c", text, *map(str, words)]
    environment = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "w1"}
    ran = subprocess.run(command, env=environment, user=user, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return json.loads(ran.stdout) if ran.stdout else None


def test_a_free_port_is_named() -> None:
    said = told()
    assert said is not None
    assert said["event"] == "port"
    assert said["port"] in ports.RANGE
    assert told(said["port"]) is None


@pytest.mark.parametrize("how", ["listen", "bind"])
def test_held_ports_are_passed_over(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the range, in whatever way; after them comes one of the kernel's."""
    with holder(how) as (one, _), holder(how) as (other, _), socket.socket() as probe:
        probe.bind(("", 0))
        free = probe.getsockname()[1]
        probe.close()
        monkeypatch.setattr(ports, "RANGE", (one, other, free))
        assert {ports.free() for _ in range(20)} == {free}
        monkeypatch.setattr(ports, "RANGE", (one, other))
        assert ports.free() not in (one, other, None)


@as_root
def test_who_holds_a_port_is_named() -> None:
    with holder("listen", "nobody") as (port, process):
        text = f"port {port} is held by nobody"
        assert told(port) == {"event": "held", "host": "w1", "text": f"{text}, process {process}, python3"}
        assert told(port, user="daemon") == {"event": "held", "host": "w1", "text": text}
        assert told(port, user="nobody") == {
            "event": "held",
            "host": "w1",
            "text": f"{text}, process {process}, python3",
        }


def test_a_socket_that_does_not_listen_has_no_known_owner() -> None:
    with holder("bind") as (port, _):
        said = told(port)
    assert said is not None
    assert said["text"] == f"port {port} is held by a socket that does not listen, and the kernel does not say whose"


# A network of its own with four ports in all, of which somebody holds so many.
FEW_PORTS = """
import socket, subprocess, sys
open("/proc/sys/net/ipv4/ip_local_port_range", "w").write("40000 40003")
import os
os.setuid(65534)
held = []
for port in range(40000, 40000 + int(sys.argv[2])):
    held.append(socket.socket(socket.AF_INET6))
    held[-1].bind(("", port))
    held[-1].listen()
sys.exit(subprocess.run(["/usr/bin/python3", "-I", "-c", sys.argv[1]]).returncode)
"""


@as_root
@pytest.mark.parametrize(
    ("count", "rc", "said"),
    [
        (3, 0, {"event": "port", "port": 40003}),
        (4, 1, {"event": "held", "host": "w1", "text": "no port is free; sockets by user: nobody 4"}),
    ],
)
def test_where_no_port_is_left_it_says_who_has_them(count: int, rc: int, said: dict[str, Any]) -> None:
    text = PORTS.replace("range(20000, 30000)", "range(0)")
    assert text != PORTS
    command = ["unshare", "--net", sys.executable, "-I", "-c", FEW_PORTS, text, str(count)]
    environment = {"PATH": "/usr/bin:/bin", "SLURMD_NODENAME": "w1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (rc, "")
    assert json.loads(ran.stdout) == said


def test_five_hundred_held_ports_stop_nothing() -> None:
    with ExitStack() as stack:
        for port in range(20000, 20500):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("", port))
            one.listen()
        said = told()
    assert said is not None
    assert said["port"] >= 20500
