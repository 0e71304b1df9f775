"""A worker whose root lies in every answer for an hour, under monitoring and under use, beside two honest ones."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import liar
from tests.support.site import Site
from tests.support.watched import ROLES, asked, receive, told, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.monitoring]

STORIES = Path(__file__).parents[1]
HOUR_S = 3600  # what is tested is that nothing of the others changes meanwhile
HONEST = ("head", "w01", "w02")
STATES = "sinfo --noheader --Node --format='%N %T' | sort -u"
FILES = "sudo sha256sum /var/lib/hpcforge/receipt.json /etc/slurm/*.conf; hostname"
LOGGED = "sudo sh -c \"grep -l 'Out of memory, [N]VRM' /var/log/cluster/*\""  # without the line of sudo itself
# As other machines, with messages of 4 kB, ten a second.
LOGS = """
import syslog, time
names = ("head", "w01", "w02")
until = time.monotonic() + SECONDS
while time.monotonic() < until:
    for name in names:
        syslog.syslog(f"{name} kernel: Out of memory, NVRM: Xid 79 " + "x" * 4000)
    time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("lying_hour")
    shutil.copytree(STORIES / "verification" / "tests", folder / "blueprints" / "tests")
    text = (STORIES / "blueprints" / "in_use.yaml").read_text()
    roles = ROLES.replace("scrape_s: 3", "scrape_s: 10")
    for old, new in (
        ("w[01-02]", "w[01-03]"),
        ("10.79.0.[11-12]", "10.79.0.[11-13]"),
        ("  depot: {on: head}\n", "  depot: {on: head}\n  syslog: {on: head}\n  metrics: {on: head}\n"),
        ("slurm:\n", f"roles:{roles}slurm:\n"),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "blueprints" / "rehearsal.yaml").write_text(text)
    here = Site(folder, f"test-hour-{os.getpid()}")
    try:
        assert here.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        assert here.cli("apply", "BLUEPRINT", "--yes").returncode == 0
        receive(here)
        wait_for(here, 'up{job="node"}', dict.fromkeys((*HONEST, "w03"), 1.0))
        wait_for(here, 'ALERTS{alertstate=~"firing|pending",severity!="none"}', {})
        yield here
    finally:
        here.cli("rehearse", "down")


def begin_to_lie(site: Site) -> None:
    lies = shlex.quote(liar.ANSWERS.replace("EXPRESSION", ""))
    logs = shlex.quote(LOGS.replace("SECONDS", str(2 * HOUR_S)))
    site.ssh("w03", "sudo systemctl stop prometheus-node-exporter")
    site.ssh("w03", f"sudo systemd-run -q --unit=lies python3 -c {shlex.quote(liar.EXPORTER)}")
    site.ssh("w03", f"sudo systemd-run -q --unit=logs python3 -c {logs}")
    site.becomes("head", LOGGED, "/var/log/cluster/w03.log\n")
    site.ssh("w03", f"printf %s {lies} > /tmp/answers; sudo install /tmp/answers /usr/local/sbin/lying")


def one_round(site: Site) -> None:
    """Verification, status and an apply, with w03 in service again before."""
    site.ssh("head", "sudo scontrol update nodename=w03 state=resume || :")
    site.ssh("w03", "sudo ln -sfn python3.11 /usr/bin/python3")
    site.ssh("w03", f"printf %s {shlex.quote(liar.EVENTS)} | sudo tee {liar.PROGRAM} > /dev/null")
    assert site.cli("verify", "BLUEPRINT", "--reserve").returncode == 7
    site.ssh("w03", "sudo ln -sfn /usr/local/sbin/lying /usr/bin/python3")
    site.becomes("head", STATES, "w01 idle\nw02 idle\nw03 drained\n")
    site.cli("status", "BLUEPRINT")
    assert site.cli("apply", "BLUEPRINT", "--yes", "--verify", "none").returncode in (4, 5, 7)
    site.becomes("head", STATES, "w01 idle\nw02 idle\nw03 drained\n")


def test_an_hour_beside_a_liar_changes_no_other_node(site: Site) -> None:
    before = [site.ssh(node, FILES) for node in HONEST]
    began_s = time.monotonic()
    begin_to_lie(site)
    waits_s, rounds = [], 0
    while time.monotonic() < began_s + HOUR_S:
        if time.monotonic() - began_s >= rounds * HOUR_S / 6:
            one_round(site)
            rounds += 1
        asked_s = time.monotonic()
        assert site.ssh("head", "srun -N 2 -w w01,w02 hostname | sort") == "w01\nw02\n"
        waits_s.append(time.monotonic() - asked_s)
        assert {line.split(maxsplit=1)[1] for line in told(site) if not line.endswith(" w03")} <= {"TestFailed head"}
        time.sleep(20)
    print(f"{rounds} rounds, {len(waits_s)} jobs, which took {min(waits_s):.1f} to {max(waits_s):.1f} s")
    print("\n".join(sorted(told(site))))
    assert [site.ssh(node, FILES) for node in HONEST] == before
    # An honest node's fault is told as before, and what the others log is theirs.
    assert {Path(file).name.partition(".")[0] for file in site.ssh("head", LOGGED).split()} == {"w03"}
    site.ssh("w02", "sudo systemctl stop prometheus-node-exporter")
    wait_for(site, 'ALERTS{alertname="ExporterDown",alertstate="firing",node!="w03"}', {"w02": 1.0})
    firing = asked(site, 'ALERTS{alertstate="firing",alertname!="TestFailed",severity!="none"}')
    assert {row["metric"]["node"] for row in firing} - {"w03"} == {"w02"}
