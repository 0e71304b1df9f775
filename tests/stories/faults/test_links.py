"""What lies between the operator host and a node: it is cut and heals, it is slow, or it leads to somebody else."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.stories.faults.conftest import Site

pytestmark = pytest.mark.lab


def times_installed(site: Site, node: str, package: str) -> int:
    return int(site.inside(node, f"grep -c ' install {package}:' /var/log/dpkg.log || true"))


def test_a_partition_that_heals(site: Site) -> None:
    site.fresh()
    run = site.start()
    run.until("progress", node="n02")  # packages are under way
    site.link("n02", "down")
    time.sleep(12)  # n01 goes on, n02's work does too
    site.link("n02", "up")
    assert run.end() == 0, run.said()
    assert times_installed(site, "n02", "tree") == 1
    started = site.inside("n02", "journalctl --sync && journalctl -u client.service -o cat | grep -c Started")
    assert started == "1\n", "the client was started more than once"
    assert site.run("plan").returncode == 0


def test_a_partition_does_not_hold_the_others(site: Site) -> None:
    site.fresh()
    run = site.start()
    run.until("progress", node="n02")
    site.link("n02", "down")
    try:
        run.until("settled", node="n01", role="client", status="done")
    finally:
        site.link("n02", "up")
    assert run.end() == 0, run.said()


@contextmanager
def slow(site: Site, node: str) -> Iterator[None]:
    """What is sent to a node comes at 250 kbit/s."""
    port = f"vb-{site.lab.machine(node)}"[:15]
    shape = ["tbf", "rate", "250kbit", "burst", "16kb", "latency", "2s"]
    subprocess.run(["tc", "qdisc", "add", "dev", port, "root", *shape], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", port, "root"], check=True)


def test_a_slow_node_does_not_hold_the_others(site: Site) -> None:
    site.apply()
    site.revise("ground", "ground.conf.j2")
    site.revise("client", "client.conf.j2")
    with slow(site, "n02"):
        run = site.start()
        assert run.end() == 0, run.said()
    ends = {event["node"]: event["time_s"] for event in run.events if event["event"] == "settled"}
    assert ends["n02"] - ends["n01"] > 1, "n02 was not slow, or n01 waited for it"


def test_a_node_with_another_host_key_gets_nothing(site: Site) -> None:
    site.apply()
    before = site.inside("n02", "cat /etc/faults/ground.conf; tail -c 200 /var/log/auth.log 2>/dev/null || true")
    site.inside(
        "n02",
        "cd /etc/ssh && cp -a ssh_host_ed25519_key /root/key && cp -a ssh_host_ed25519_key.pub /root/key.pub"
        " && rm ssh_host_ed25519_key && ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key"
        " && systemctl restart ssh",
    )
    line = site.revise("ground", "ground.conf.j2")
    done = site.apply(code=4)
    assert "host key" in done.stderr
    assert "n02 is unreachable" in done.stderr
    assert line in site.inside("n01", "cat /etc/faults/ground.conf")
    site.enter(
        "n02", "cd /etc/ssh && for f in key key.pub; do mv /root/$f ssh_host_ed25519_$f; done; systemctl restart ssh"
    )
    assert site.inside("n02", "cat /etc/faults/ground.conf") == before.partition("\x00")[0][: len(before)]
    site.apply()
    assert line in site.inside("n02", "cat /etc/faults/ground.conf")


def test_a_node_that_hangs_does_not_hold_a_plan(site: Site) -> None:
    """Its sshd lets us in, and nothing that it is asked to run begins, for eleven minutes. It is waited for openly."""
    site.apply()
    site.revise("ground", "ground.conf.j2")
    hang = "mv /usr/bin/python3 /usr/bin/python3.away; printf '#!/bin/sh\\nexec sleep 661\\n' > /usr/bin/python3"
    site.inside("n02", f"{hang}; chmod 755 /usr/bin/python3")
    try:
        done = site.run("plan")
    finally:
        site.inside("n02", "mv /usr/bin/python3.away /usr/bin/python3; pkill -f 'sleep 66[1]' || true")
    assert done.returncode == 4, done.stdout
    assert re.search(r"n02: no answer for \d+ s, waiting; --exclude n02 leaves out what does not answer\n", done.stderr)
    assert "sent nothing for 30 s: it hangs or is overloaded" in " ".join(done.stdout.split())
    assert "~ file /etc/faults/ground.conf" in done.stdout  # of n01
    assert site.run("plan", "--limit", "n01").returncode == 2
    site.apply()
