"""A role whose change only shows after a restart: real nodes restart, fail to, or are cut off before it."""

from __future__ import annotations

import signal

import pytest

from tests.stories.faults.conftest import NODES, Running, Site

pytestmark = pytest.mark.lab

# The unit takes what is in the file when the node boots, and at no other time.
_ROLE = """\
description: Something that is read once, when the node boots.
on: "true"
needs: [ground]
disrupts: {files: reboot}
files:
  - /etc/faults/boot.conf
  - {path: /etc/systemd/system/boot.service, content: "@UNIT@"}
units:
  - {name: boot.service, watches: []}
checks:
  - {name: the node has booted with its configuration, command: [cmp, /etc/faults/boot.conf, /run/boot.conf]}
"""
_UNIT = (
    "[Service]\\nType=oneshot\\nRemainAfterExit=yes\\nExecStart=cp /etc/faults/boot.conf /run/boot.conf\\n"
    "[Install]\\nWantedBy=multi-user.target\\n"
)


@pytest.fixture
def rebooting(site: Site) -> Site:
    """The site with such a role, applied; both nodes as they were before anything if they are not well."""
    folder = site.roles / "boot"
    (folder / "files/etc/faults").mkdir(parents=True)
    (folder / "files/etc/faults/boot.conf.j2").write_text("# revision 0\n")
    (folder / "role.yaml").write_text(_ROLE.replace("@UNIT@", _UNIT))
    if site.run("apply", "--yes").returncode != 0:
        site.fresh()
        site.apply()
    return site


def boots(site: Site) -> dict[str, str]:
    return {node: site.inside(node, "cat /proc/sys/kernel/random/boot_id").strip() for node in NODES}


def cut_off(site: Site) -> str:
    """A run that is killed when the file has been written; the boot it was written in."""
    before = boots(site)["n02"]
    run = site.start("--limit", "n02")
    run.until("changed", node="n02", name="/etc/faults/boot.conf")
    run.send(signal.SIGKILL)
    run.end()
    assert boots(site)["n02"] == before
    return before


def test_both_nodes_restart_once_the_head_alone(rebooting: Site) -> None:
    rebooting.revise("boot", "boot.conf.j2")
    before = boots(rebooting)
    text = rebooting.run("plan").stdout
    assert "boot  n[01-02]  (input changed, disrupts: reboot)" in text
    assert "n01 restarts alone" in text
    run = rebooting.start()
    assert run.end() == 0, run.said()
    after = boots(rebooting)
    assert {node for node in NODES if before[node] != after[node]} == set(NODES)
    assert meanwhile(run, "n01") == set()
    said = [event["detail"] for event in run.events if event["event"] == "restarting"]
    assert len(said) == 2 * len(NODES)  # that it restarts, and that it is back
    assert rebooting.run("plan").returncode == 0
    assert boots(rebooting) == after


def meanwhile(run: Running, node: str) -> set[str]:
    """What other nodes did while one restarted."""
    first, last = (i for i, e in enumerate(run.events) if e["event"] == "restarting" and e["node"] == node)
    other = [e for e in run.events[first:last] if e.get("node", node) != node]
    return {f"{e['node']} {e['event']}" for e in other}


def test_killed_before_the_restart_it_is_pending_and_the_next_apply_does_it(rebooting: Site) -> None:
    rebooting.revise("boot", "boot.conf.j2")
    before = cut_off(rebooting)
    plan = rebooting.run("plan", "--limit", "n02")
    assert plan.returncode == 2
    assert "boot  n02  (reboot pending, disrupts: reboot)" in plan.stdout
    assert "due since an earlier run" in plan.stdout
    assert "failed" not in plan.stdout
    rebooting.apply("--limit", "n02")
    assert boots(rebooting)["n02"] != before
    assert rebooting.run("plan", "--limit", "n02").returncode == 0


def test_who_restarts_it_by_hand_has_done_it(rebooting: Site) -> None:
    rebooting.revise("boot", "boot.conf.j2")
    cut_off(rebooting)
    rebooting.power_off("n02")
    rebooting.power_on("n02")
    booted = boots(rebooting)["n02"]
    rebooting.apply("--limit", "n02")
    assert boots(rebooting)["n02"] == booted


def test_a_node_that_does_not_restart_is_named(rebooting: Site) -> None:
    rebooting.revise("boot", "boot.conf.j2")
    patient(rebooting)
    ignores = '#!/bin/sh\\n[ "$1" = reboot ] || exec /usr/bin/systemctl "$@"\\n'
    rebooting.inside("n02", f"printf '{ignores}' > /usr/local/sbin/systemctl; chmod +x /usr/local/sbin/systemctl")
    try:
        done = rebooting.apply("--limit", "n02", code=5)
        assert "did not restart within" in done.stdout
        assert "it answers from the same boot as before" in done.stdout
        assert rebooting.run("plan", "--limit", "n02").returncode == 2
    finally:
        rebooting.inside("n02", "rm /usr/local/sbin/systemctl")
    rebooting.blueprint.write_text(rebooting.blueprint.read_text().replace("reboot_wait: 12s", "reboot_wait: 5min"))
    rebooting.apply("--limit", "n02")


def test_a_node_that_does_not_come_back_is_named(rebooting: Site) -> None:
    rebooting.revise("boot", "boot.conf.j2")
    patient(rebooting, "30s")  # its network is up again long before
    rebooting.inside("n02", "systemctl disable ssh.service")
    try:
        done = rebooting.apply("--limit", "n02", code=4)
        assert "did not come back within" in done.stdout
        assert "refuses connections on port 22" in done.stdout
    finally:
        rebooting.fresh()


def patient(site: Site, wait: str = "12s") -> None:
    """The blueprint with less patience."""
    site.blueprint.write_text(site.blueprint.read_text() + f"\nrollout: {{reboot_wait: {wait}}}\n")
