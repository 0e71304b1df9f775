"""Somebody makes a mistake in a role: it stops at the first node, or takes itself back."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab


def test_a_template_that_breaks_the_canary_stops_there(site: Site) -> None:
    """Both nodes alike, and nothing that others need: the first goes ahead, the second is spared."""
    for role in ("relay", "client"):
        (site.roles / role / "role.yaml").unlink()
    text = site.blueprint.read_text()
    nodes = text.partition("nodes:\n")[2].partition("\n\n")[0]
    text = text.replace(
        nodes, '  n[01-02]: {functions: [head, worker], hardware: rehearsal-node, addresses: "10.77.0.[11-12]"}'
    )
    site.blueprint.write_text(text + "\nrollout: {canary: 1}\n")
    role = site.roles / "ground" / "role.yaml"
    role.write_text(
        role.read_text() + "  - {name: the address is there, command: [grep, ^address, /etc/faults/ground.conf]}\n"
    )
    site.apply()
    before = site.inside("n02", "cat /etc/faults/ground.conf")
    site.edit("ground", "ground.conf.j2", "address =", "addres =")
    done = site.apply(code=5)
    assert "n01: ground FAILED" in done.stderr
    assert "canary n01 failed" in done.stderr + done.stdout
    assert site.inside("n02", "cat /etc/faults/ground.conf") == before
    site.edit("ground", "ground.conf.j2", "addres =", "address =")
    site.apply()


def test_rules_that_are_no_rules_never_get_their_name(site: Site) -> None:
    site.apply()
    before = site.inside("n01", "cat /etc/nftables.conf; nft list ruleset")
    site.edit("wall", "nftables.conf.j2", "tcp dport 23 drop", "tcp dport drop 23")
    done = site.apply(code=5)
    assert "wall FAILED" in done.stderr
    assert "/etc/nftables.conf" in done.stderr
    assert site.inside("n01", "cat /etc/nftables.conf; nft list ruleset") == before


def test_a_firewall_that_would_lock_us_out_takes_itself_back(site: Site) -> None:
    site.apply()
    before, patient = site.state(), site.blueprint.read_text()
    site.blueprint.write_text(patient + "\nrollout: {confirm_wait: 15s}\n")
    site.edit("wall", "nftables.conf.j2", "tcp dport 23 drop", "tcp dport { 22, 23 } drop")
    done = site.run("apply", "--yes", "--limit", "n02")
    assert done.returncode in (4, 5), done.stderr
    assert "n02" in done.stderr
    end = time.monotonic() + 120
    while True:
        try:
            site.inside("n02", "! ls /etc/systemd/system | grep -q hpcforge", timeout_s=15)  # the node is done with it
            break
        except (AssertionError, subprocess.TimeoutExpired):
            said = "systemctl list-timers; journalctl -u 'hpcforge*'; ls -l /var/lib/hpcforge; cat /etc/nftables.conf"
            assert time.monotonic() < end, f"n02 stays locked\n{site.enter('n02', said)}"
            time.sleep(2)
    assert site.state() == before
    planned = site.run("plan", "--limit", "n02")
    assert planned.returncode == 2
    assert "taken back by the node" in planned.stderr
    assert "wall  n02  (taken back" in planned.stdout
    site.edit("wall", "nftables.conf.j2", "tcp dport { 22, 23 } drop", "tcp dport 23 drop")
    site.blueprint.write_text(patient)
    right_again = site.run("plan", "--limit", "n02")
    assert right_again.returncode == 0
    assert "taken back" not in right_again.stderr
    site.edit("wall", "nftables.conf.j2", "tcp dport 23 drop", "tcp dport { 21, 23 } drop")
    site.apply()
    assert "21, 23" in site.inside("n02", "nft list ruleset")


OWN_WORK = """\
from pyinfra.operations import server

server.shell(name="Work", commands=["! test -e /etc/faults/refuse"])
"""


def test_a_forced_role_that_failed_is_due_in_the_next_plan(site: Site) -> None:
    role = site.roles / "own"
    role.mkdir()
    (role / "role.yaml").write_text('description: Work of its own.\non: "true"\nneeds: [ground]\n')
    (role / "deploy.py").write_text(OWN_WORK)
    site.apply()
    site.inside("n02", "touch /etc/faults/refuse")
    assert site.run("plan").returncode == 0
    failed = site.apply("--force", "own", "--only", "own", code=5)
    assert "n02: own FAILED" in failed.stderr
    site.inside("n02", "rm /etc/faults/refuse")
    due = site.run("plan")
    assert due.returncode == 2
    assert "own  n02  (input changed" in due.stdout
    assert "an earlier run did not finish it" in due.stdout
    site.apply()
    assert site.run("plan").returncode == 0
