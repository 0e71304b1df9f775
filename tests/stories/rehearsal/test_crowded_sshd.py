"""Logins that a user begins and never ends do not shut hpcforge out, on real nodes of both releases."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

NODES = """
schema: 1
name: crowded
domain: crowded.example.org
inventory: {lab: nspawn}
access: {user: ops}
nodes:
  head: {functions: [head], hardware: rehearsal-node, addresses: 10.79.0.10}
  w01: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: 10.79.0.11}
networks: {mgmt: {cidr: 10.79.0.0/23}}
services: {dns: {on: head}, time: {on: head}}
software: {os: {name: debian, release: "RELEASE"}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []
  partitions: {main: {nodes: all, default: true}}
"""
COUNT = 120
# Connects until so many are held at once or time is up, and goes on for as long: what sshd drops is begun again.
HOLD = """
import select, socket, sys, time
where, count, end = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
held = []
while time.monotonic() < end:
    closed = set(select.select(held, [], [], 0.01)[0])
    held = [one for one in held if one not in closed or one.recv(4096)]
    while len(held) < count:
        held.append(socket.create_connection((where, 22), 5))
"""
# Logins under way, which sshd's listener has in its title.
STARTUPS = "ps -o args= -C sshd | sed -nE 's/.*listener[]] ([0-9]+) of .*/\\1/p'"


@pytest.fixture(scope="module", params=["12", "13"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("crowded")
    (folder / "blueprints").mkdir()
    (folder / "blueprints" / "rehearsal.yaml").write_text(NODES.replace("RELEASE", request.param))
    here = Site(folder, f"test-crowded{request.param}-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        yield here
    finally:
        here.cli("rehearse", "down")


def hold(site: Site, seconds: int) -> None:
    """As an ordinary user on the head: connections to the worker's sshd that say nothing, for so long."""
    address = site.ssh("w01", "hostname -I").split()[0]
    program = f"exec python3 -c {shlex.quote(HOLD)} {address} {COUNT} {seconds}"
    site.ssh(
        "head", f"sudo setsid -f setpriv --reuid=65534 --clear-groups sh -c {shlex.quote(program)} >/dev/null 2>&1"
    )
    time.sleep(5)


def reached(site: Site, tries: int) -> int:
    """How many of these plans reach the worker."""
    plans = [site.cli("plan", "BLUEPRINT", "--only", "ssh_limits") for _ in range(tries)]
    return sum("w01 is unreachable" not in plan.stdout + plan.stderr for plan in plans)


def test_half_open_connections_of_a_user_do_not_shut_hpcforge_out(site: Site) -> None:
    site.cli("apply", "BLUEPRINT", "--yes", "--only", "ssh_limits", "--verify", "none")  # 5: Slurm is not there yet
    assert "persourcemaxstartups 30\n" in site.ssh("w01", "sudo /usr/sbin/sshd -T")
    hold(site, 90)
    assert site.ssh("w01", STARTUPS) == "30\n"
    assert reached(site, 2) == 2
    assert site.ssh("w01", STARTUPS) == "30\n"  # all the while
    said = site.ssh("w01", "sudo /usr/sbin/sshd -T")
    assert "persourcemaxstartups 30\n" in said
    if 'release: "13"' in site.blueprint.read_text():
        exempt = next(line for line in said.splitlines() if line.startswith("persourcepenaltyexemptlist "))
        assert exempt.split()[1].startswith("127.0.0.0/8,10.")


def test_a_line_of_the_site_that_counts_is_named_with_its_file(site: Site) -> None:
    site.cli("apply", "BLUEPRINT", "--yes", "--only", "ssh_limits", "--verify", "none")  # 5: Slurm is not there yet
    site.ssh("w01", "sudo sed -i '1i # of the site\\nLoginGraceTime 30' /etc/ssh/sshd_config")
    plan = site.cli("plan", "BLUEPRINT", "--only", "ssh_limits")
    site.ssh("w01", "sudo sed -i 1,2d /etc/ssh/sshd_config")
    assert "logingracetime 30 (/etc/ssh/sshd_config line 2)" in plan.stdout
