"""What a node logs is on the log server, by the real rsyslog of both releases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Site

pytestmark = pytest.mark.lab

BLUEPRINT = """
schema: 1
name: logged
domain: logged.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.78.0.10}
  w01: {functions: [worker], hardware: rehearsal-node, addresses: 10.78.0.11}
networks: {mgmt: {cidr: 10.78.0.0/23}}
services: {dns: {on: head}, time: {on: head}, syslog: {on: head}}
software: {os: {name: debian, release: "RELEASE"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
users: {ada: {uid: 2001}}
"""
STRANGER = "198.51.100.8"  # an address of the worker's own that is no node's
PRETEND = """
import socket
out = socket.create_connection(("HEAD", 514), 5, ("FROM", 0))
out.sendall(b"<13>Nov 22 10:00:00 head su: SAID\\n"); out.close()
"""


@pytest.fixture(params=["12", "13"])
def logged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "blueprints").mkdir()
    (tmp_path / "blueprints" / "rehearsal.yaml").write_text(BLUEPRINT.replace("RELEASE", request.param))
    here = Site(tmp_path, f"test-syslog{request.param}-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def pretend(site: Site, head: str, source: str, said: str) -> None:
    """Send a message from an address of the worker's in which it calls itself head."""
    program = PRETEND.replace("HEAD", head).replace("FROM", source).replace("SAID", said)
    site.ssh("w01", f"python3 -c '{program}'")


def written(site: Site, file: str, message: str) -> None:
    """Wait until it is there, once; sudo logs these commands as well, which hold the same words further back."""
    site.becomes("head", f"sudo grep -cE '^[^ ]+ [^ ]+ {message}' /var/log/cluster/{file} || :", "1\n")


def test_a_message_is_in_the_file_of_the_node_that_it_came_from(logged: Site) -> None:
    site = logged
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    assert site.cli("apply", "BLUEPRINT", "--yes").returncode == 0

    site.ssh("w01", "logger -t disk 'sda is failing'")
    written(site, "w01.log", "disk: sda is failing")
    site.ssh("head", "logger -t fan 'fan 2 stopped'")
    written(site, "head.log", "fan: fan 2 stopped")

    # Whose it is follows from where it comes from, not from what it says; a stranger's is nobody's.
    head = site.ssh("w01", "getent ahostsv4 head").split()[0]
    own = site.ssh("w01", f"ip -4 -o route get {head}").split(" src ")[1].split()[0]
    pretend(site, head, own, "forged")
    written(site, "w01.log", "su: forged")
    site.ssh("w01", f"sudo ip address add {STRANGER}/32 dev lo")
    site.ssh("head", f"sudo ip route add {STRANGER} via {own}")
    pretend(site, head, STRANGER, "stranger")
    pretend(site, head, own, "afterwards")
    written(site, "w01.log", "su: afterwards")
    assert site.ssh("head", "sudo sh -c 'cat /var/log/cluster/*' | grep -cE '^[^ ]+ [^ ]+ su: stranger' || :") == "0\n"
    assert site.ssh("head", "sudo ls /var/log/cluster").split() == ["head.log", "w01.log"]
    site.ssh("head", "sudo logrotate -f /etc/logrotate.d/hpcforge_cluster")
    pretend(site, head, own, "rotated")
    written(site, "w01.log", "su: rotated")

    assert site.cli("plan", "BLUEPRINT").returncode == 0
