"""What goes wrong on a real node: killed anywhere, disks that are full or read-only; and what is refreshed."""

import json
from typing import Any

import pytest

from tests.support.node_program import KILL, Node, converge, details, of

pytestmark = pytest.mark.lab
UNIT = """\
[Service]
ExecStart=/bin/sleep 1000
[Install]
WantedBy=multi-user.target
"""
LOOK = (
    "cd /etc/cut && sha256sum * | sort; find /etc /var/lib/hpcforge -name '.hpcforge-*'; systemctl is-active cut; "
    "systemctl is-enabled cut; getent passwd cut; stat -c '%a %U' /etc/cut/*"
)


@pytest.fixture(autouse=True)
def fresh(node: Node) -> None:
    node.send(converge("remove", [], leave=True))
    node.shell("sudo sh -c 'rm -rf /var/lib/hpcforge /etc/cut; userdel -rf cut'", check=False)


@pytest.fixture
def work(wanted) -> list[dict[str, Any]]:
    files = [wanted.root_file(f"/etc/cut/{n}", f"number {n}\n" * 2000, mode="0640") for n in range(60)]
    unit = wanted.root_file("/etc/systemd/system/cut.service", UNIT)
    account = {"name": "cut", "uid": 2346, "home": "/home/cut", "shell": "/bin/sh"}
    return [
        {"role": "one", "files": files, "accounts": [account]},
        {"role": "two", "files": [unit], "owns": {"units": ["cut.service"]}},
    ]


def owned(node: Node) -> dict[str, Any]:
    return json.loads(node.shell("sudo cat /var/lib/hpcforge/receipt.json"))["roles"]


def test_killed_anywhere_the_same_request_ends_the_same(node, work):
    up = [{"role": "two", "units": [{"name": "cut.service", "actions": ["enable", "restart"]}]}]
    uncut = None
    for events in (None, 0, 1, 20, 45, 61):
        node.send(converge("remove", [], leave=True))
        node.shell("sudo userdel -r cut", check=False)
        for phase, roles, after in (("prepare", work, events), ("finish", up, events and 1)):
            request = converge(phase, roles, restarts=["cut.service"])
            if after is not None:
                with node.started(request) as program:
                    for _ in range(after):
                        program.stdout.readline()
                    node.shell(KILL, check=False)
                    program.stdout.read()
                request["task"] += ":again"
            ended = node.send(request)
            assert ended[-1]["failed"] == [], (phase, after, ended)
        found = (node.shell(f'sudo sh -c "{LOOK}"'), owned(node))
        uncut = uncut or found
        assert found == uncut, events


def test_a_full_disk_is_found_before_anything_is_changed(node, wanted):
    node.shell("sudo mkdir -p /etc/small && sudo mount -t tmpfs -o size=1m,nr_inodes=30 none /etc/small")
    try:
        files = [wanted.root_file("/etc/cut/first", "x"), wanted.root_file("/etc/small/big", "x" * 1_500_000)]
        [failed] = of(node.send(converge("prepare", [{"role": "one", "files": files}])), "failed")
        assert (
            "file system of /etc/small is full, and nothing was changed: 1.4 MiB needed, 1.0 MiB free"
            in failed["error"]
        )
        many = [wanted.root_file(f"/etc/small/{n}", "x") for n in range(60)]
        [failed] = of(node.send(converge("prepare", [{"role": "one", "files": [files[0], *many]}])), "failed")
        assert "too few inodes" in failed["error"]
        node.shell("sudo mount -o remount,ro /etc/small")
        [failed] = of(node.send(converge("prepare", [{"role": "one", "files": [files[0], many[0]]}])), "failed")
        assert "file system of /etc/small is read-only" in failed["error"]
    finally:
        node.shell("sudo umount /etc/small")
    assert node.shell("sudo find /etc/cut /etc/small -type f", check=False) == ""
    assert node.observed()["receipt"]["surplus"] == {}


def test_packages_that_do_not_fit_are_not_begun(node):
    node.shell("sudo apt-get purge -qy munge libmunge2; sudo apt-get update -q; sudo apt-get clean")
    node.shell("sudo mount -t tmpfs -o size=64k none /var/cache/apt/archives")
    try:
        [failed] = of(node.send(converge("prepare", [{"role": "one", "packages": ["munge"]}])), "failed")
    finally:
        node.shell("sudo umount /var/cache/apt/archives")
    assert "file system of /var/cache/apt/archives is full, and nothing was changed" in failed["error"]
    assert owned(node)["one"]["packages"] == []
    assert node.shell("dpkg-query -W -f '${db:Status-Status}' munge", check=False) in ("", "not-installed")
    assert details(node.send(converge("prepare", [{"role": "one", "packages": ["munge"]}]))) == {"munge": "installed"}


def test_a_refresh_runs_its_commands_in_order_and_starts_what_does_not_run(node, work):
    node.send(converge("prepare", work[1:]))
    commands = [["sh", "-c", "echo one >> /tmp/refreshed"], ["sh", "-c", "echo two >> /tmp/refreshed"]]
    unit = {"name": "cut.service", "actions": ["refresh"], "refresh": commands}
    finish = [{"role": "two", "units": [unit]}]
    node.shell("sudo rm -f /tmp/refreshed")
    assert details(node.send(converge("finish", finish))) == {"cut.service": "started"}
    pid = node.shell("systemctl show -P MainPID cut; ls /tmp/refreshed", check=False)
    assert details(node.send(converge("finish", finish))) == {"cut.service": "refreshed"}
    assert node.shell("systemctl show -P MainPID cut") == pid
    assert node.shell("cat /tmp/refreshed") == "one\ntwo\n"
    unit["refresh"] = [["sh", "-c", "echo it will not; exit 3"]]
    [failed] = of(node.send(converge("finish", finish)), "failed")
    assert failed["error"].startswith(
        "`sh -c echo it will not; exit 3`: exit status 3: it will not\ncut.service is active"
    )


def test_an_older_run_and_another_cluster_change_nothing(node, wanted):
    old = converge("prepare", [{"role": "one", "files": [wanted.root_file("/etc/cut/old", "x")]}])
    new = converge("prepare", [{"role": "one", "files": [wanted.root_file("/etc/cut/new", "x")]}])
    other = converge("prepare", old["work"])
    other["run"]["cluster"] = "other"
    assert not of(node.send(new), "failed")
    for refused, why in ((old, "is older than the last one"), (other, "belongs to cluster 'lab', not to 'other'")):
        failed, done = node.send(refused)
        assert why in failed["error"]
        assert (done["changed"], done["failed"]) == (0, ["one"])
    assert node.shell("ls /etc/cut") == "new\n"
    assert node.observed()["receipt"]["run"] == new["run"]["number"]
