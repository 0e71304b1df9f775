"""Nodes of a running cluster restart for a change: emptied first, the head alone, all of them back in service."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.site import Site

pytestmark = pytest.mark.lab

NODES = ("head", "w01", "w02")
ROLE = """\
description: Something that a node reads once, when it boots.
on: "true"
disrupts: {files: reboot}
files:
  - {path: /etc/boot.conf, content: "revision 0\\n"}
checks:
  - {name: the node has booted since, command: [test, /proc/1, -nt, /etc/boot.conf]}
"""


@pytest.fixture(scope="module")
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("restart")
    (folder / "blueprints").mkdir()
    text = (Path(__file__).parents[1] / "blueprints" / "growth.yaml").read_text()
    text = text.replace("w[01-03]", "w[01-02]").replace("10.78.0.[11-13]", "10.78.0.[11-12]")
    text += "role_folders: [../roles]\n"
    (folder / "blueprints" / "rehearsal.yaml").write_text(text)
    (folder / "roles" / "boot").mkdir(parents=True)
    (folder / "roles" / "boot" / "role.yaml").write_text(ROLE)
    here = Site(folder, f"test-restart-{os.getpid()}")
    try:
        yield here
    finally:
        here.cli("rehearse", "down")


def apply(site: Site, *options: str, code: int = 0) -> str:
    done = site.cli("apply", "BLUEPRINT", "--yes", *options)
    assert done.returncode == code
    return done.stdout


def boots(site: Site) -> dict[str, str]:
    return {node: site.ssh(node, "cat /proc/sys/kernel/random/boot_id").strip() for node in NODES}


def test_a_busy_worker_is_emptied_and_all_come_back_into_service(restarting: Site) -> None:
    site = restarting
    assert site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    apply(site)
    options = "--parsable --mem=100M -w w01 -D /var/tmp -o /var/tmp/%j.out -e /var/tmp/%j.err"
    script = "until scontrol show node w01 | grep -q DRAIN; do sleep 1; done; sleep 8; echo whole"
    submit = f"sudo -iu ada sbatch {options} --wrap '{script}'"
    job = site.ssh("head", submit).strip()
    site.becomes("head", f"scontrol show job {job} | grep -o 'JobState=[A-Z]*'", "JobState=RUNNING\n")

    role = site.folder / "roles" / "boot" / "role.yaml"
    role.write_text(ROLE.replace("revision 0", "revision 1"))
    before = boots(site)
    events = [json.loads(line) for line in apply(site, "--json").splitlines()]
    after = boots(site)
    assert {node for node in NODES if before[node] != after[node]} == set(NODES)

    [drain] = [e for e in events if e["event"] == "draining" and e["node"] == "w01"]
    assert drain["detail"] == job
    assert "JobState=COMPLETED" in site.ssh("head", f"scontrol show job {job}")
    assert site.ssh("w01", f"cat /var/tmp/{job}.out") == "whole\n"  # it had ended before the node did
    first, last = (i for i, e in enumerate(events) if e["event"] == "restarting" and e["node"] == "head")
    assert {e["node"] for e in events[first:last] if "node" in e} == {"head"}

    for worker in NODES[1:]:  # a plan looks once, and a clock is not right in the first seconds after a boot
        site.ssh(worker, "sudo chronyc -n waitsync 300 1.0 0 1 >/dev/null")
    site.becomes("head", "sinfo -h -N -o '%N %t'", "w01 idle\nw02 idle\n")
    assert site.cli("plan", "BLUEPRINT").returncode == 0
    ran = site.ssh("head", "sudo -iu ada timeout 300 srun --mem=100M -N2 hostname")
    assert sorted(ran.split()) == ["w01", "w02"]
