"""Another driver for workers in service: each is drained once and restarted once, and no job is disturbed."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from tests.e2e.conftest import Site
from tests.nvidia_repository import KERNEL, NEW_570, NEW_KERNEL, OLD_570, key, repository

pytestmark = [pytest.mark.lab, pytest.mark.nvidia]

WORKERS = ("w01", "w02", "w03")
NODES = ("head", *WORKERS)
BLUEPRINT = """\
schema: 1
name: driven
domain: driven.example.org
inventory: {lab: nspawn}
access: {user: ops, become: sudo}
nodes:
  head:     {functions: [head],   hardware: rehearsal-node, addresses: 10.79.1.10}
  w[01-03]: {functions: [worker], hardware: rehearsal-node, gpus: {model: fake, count: 2}, addresses: "10.79.1.[11-13]"}
networks: {cluster: {cidr: 10.79.1.0/24}}
services: {dns: {on: head}, time: {on: head}}
software:
  os: {name: debian, release: "12"}
  present: {kernel: KERNEL}
  nvidia: {driver: "DRIVER", modules: open}
  sources: {nvidia: {url: "file:///srv/nvidia/", key: mirror.asc, fingerprint: FINGERPRINT, licence_accepted: true}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: []                         # containers cannot hold jobs to their share
  partitions: {main: {nodes: "w[01-03]", default: true, max_time: "01:00:00"}}
  settings: {MinJobAge: 3600}         # jobs are asked for late
users: {ada: {uid: 2001}}
rollout: {canary: 1, at_most: 1, busy_nodes: {wait: 5min}}
"""
LOG = "/var/log/slurm/slurmctld.log"
# It ends by itself, some time after its node is to be emptied, with a status of its own; it says in which boot it ran.
JOB = """\
cat /proc/sys/kernel/random/boot_id
until scontrol show node w02 | grep -q DRAIN; do sleep 1; done
sleep 10
cat /proc/sys/kernel/random/boot_id
exit 7
"""


class Fleet:
    """The site, and what its nodes themselves have noted."""

    def __init__(self, folder: Path) -> None:
        self.site, home = Site(folder, f"test-nvidia-rollout-{os.getpid()}"), folder / "gpg"
        (folder / "blueprints").mkdir()
        text, self._fingerprint = key(home, "mirror")
        (folder / "blueprints" / "mirror.asc").write_text(text)
        self._packed = repository(folder, home, "mirror")

    def write(self, driver: str, kernel: str = KERNEL) -> None:
        text = BLUEPRINT.replace("KERNEL", kernel).replace("DRIVER", driver)
        self.site.blueprint.write_text(text.replace("FINGERPRINT", self._fingerprint))

    def put_repository(self) -> None:
        for worker in WORKERS:
            self.site.unpack(worker, self._packed)

    def run(self, verb: str, *options: str, code: int = 0) -> str:
        done = self.site.as_real(verb, *options)
        assert done.returncode == code
        return done.stdout + done.stderr

    def boots(self) -> dict[str, tuple[str, ...]]:
        """The ids of all boots of which each node's journal knows."""
        listed = {node: self.site.ssh(node, "sudo journalctl --list-boots -q") for node in NODES}
        return {node: tuple(line.split()[1] for line in text.splitlines()) for node, text in listed.items()}

    def told(self) -> list[tuple[float, str, str]]:
        """When slurmctld was told to drain which node, or to use it again, as its log has it."""
        text = self.site.ssh("head", f"sudo cat {LOG}")
        found = re.findall(r"^\[(\S+?)\] .*update_node: node (\S+) state set to (\S+)", text, re.MULTILINE)
        seconds = "; ".join(f"date -d {when} +%s.%N" for when, _, _ in found) or ":"
        times = map(float, self.site.ssh("head", seconds).split())
        words = [(node, "drain" if state.startswith("DRAIN") else "resume") for _, node, state in found]
        return [(when, what, node) for when, (node, what) in zip(times, words, strict=True)]

    def started(self) -> list[tuple[float, str, str]]:
        """When each worker's boot began."""
        up = "$(cut -d' ' -f22 /proc/1/stat) / $(getconf CLK_TCK)"
        script = f"echo $(($(awk '/^btime/ {{print $2}}' /proc/stat) + {up}))"
        return [(float(self.site.ssh(worker, script)), "start", worker) for worker in WORKERS]

    def modules(self, kernel: str) -> set[str]:
        """The versions that the workers' modules have, of the kernel that runs and of another one."""
        script = f"for kernel in $(uname -r) {kernel}; do /sbin/modinfo -k $kernel -F version nvidia; done"
        return {version for worker in WORKERS for version in self.site.ssh(worker, script).split()}

    def kept(self) -> dict[str, str]:
        """What is on nodes, as digests, and how Slurm has them; the same as long as nobody changes anything."""
        places = "/etc /var/lib/dpkg /var/lib/hpcforge"
        script = f"cat /proc/sys/kernel/random/boot_id; sudo find {places} -type f -exec sha256sum {{}} +"
        state = {"": self.site.ssh("head", "scontrol show nodes --oneliner | grep -o ' State=[^ ]*'")}
        return state | {node: self.site.ssh(node, script) for node in NODES}

    def in_service(self) -> None:
        """All workers take jobs, and a plan has nothing to do."""
        self.site.becomes("head", "sinfo -h -N -o '%N %t'", "".join(f"{worker} idle\n" for worker in WORKERS))
        for worker in WORKERS:  # a plan looks once, and a clock is not right in the first seconds after a boot
            self.site.ssh(worker, "sudo chronyc -n waitsync 300 1.0 0 1 >/dev/null")
        assert "Nothing to do on 4 nodes." in self.run("plan")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    here = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        yield here
    finally:
        here.site.cli("rehearse", "down")


def test_three_workers_have_a_driver_that_is_loaded(fleet: Fleet) -> None:
    fleet.write(OLD_570)
    assert fleet.site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
    fleet.put_repository()
    fleet.run("apply", "--yes")
    for worker in WORKERS:
        assert f" {OLD_570} " in fleet.site.ssh(worker, "cat /proc/driver/nvidia/version")
    fleet.in_service()


def test_a_kernel_without_a_matching_driver_is_refused_and_no_node_is_touched(fleet: Fleet) -> None:
    fleet.write(OLD_570, NEW_KERNEL)
    before = fleet.kept()
    for said in (
        fleet.site.cli("validate", "BLUEPRINT").stderr,
        fleet.run("plan", code=3),
        fleet.run("apply", "--yes", code=3),
    ):
        assert "error: SOFTWARE-031: " in said
        assert f"hint: nearest set that works: driver: {NEW_570} (NVIDIA, R570, instead of {OLD_570})\n" in said
    assert fleet.kept() == before


def test_a_driver_for_three_workers_is_three_drains_and_three_restarts(fleet: Fleet) -> None:
    site = fleet.site
    options = "--parsable --mem=100M -w w02 -D /var/tmp -o /var/tmp/%j.out -e /var/tmp/%j.err"
    job = site.ssh("head", f"sudo -iu ada sbatch {options} <<'END'\n#!/bin/sh\n{JOB}END").strip()
    site.becomes("head", f"scontrol show job {job} | grep -o 'JobState=[A-Z]*'", "JobState=RUNNING\n")
    fleet.write(NEW_570)
    boots, told = fleet.boots(), fleet.told()

    said = fleet.run("plan", code=2)
    waits = f"; jobs run there ({job}): waited for up to 5 min 0 s, never killed"
    for worker, rest in (("w01", ""), ("w02", waits), ("w03", "")):
        assert f"\n{worker} is drained first{rest}\n" in said
    assert "w[01-03]: restarted, and waited for up to 20 min 0 s each\n" in said
    assert "at most 1 workers at a time\n" in said
    assert "3 nodes to change: w[01-03]; unchanged: head; reboot: w[01-03].\n" in said
    assert (fleet.boots(), fleet.told()) == (boots, told)  # to look changes nothing

    fleet.run("apply", "--yes")
    fresh = fleet.told()[len(told) :]
    assert Counter((what, node) for _, what, node in fresh) == Counter(product(("drain", "resume"), WORKERS))
    begun = {node: len(known) - len(boots[node]) for node, known in fleet.boots().items()}
    assert begun == {"head": 0, "w01": 1, "w02": 1, "w03": 1}
    # one after the other, the canary first: who is drained next is so when the one before is in service again
    story = [(what, node) for _, what, node in sorted([*fresh, *fleet.started()])]
    order = [node for _, node in story[::3]]
    assert order[0] == "w01"
    assert story == [(what, node) for node in order for what in ("drain", "start", "resume")]

    ended = site.ssh("head", f"scontrol show job {job}")
    assert "JobState=FAILED Reason=NonZeroExitCode" in ended
    assert "ExitCode=7:0" in ended and " Restarts=0 " in ended
    first, last = site.ssh("w02", f"cat /var/tmp/{job}.out").split()
    assert first == last and first.replace("-", "") == boots["w02"][-1]  # before, to its end

    assert fleet.modules(KERNEL) == {NEW_570}
    for worker in WORKERS:
        assert f" {NEW_570} " in site.ssh(worker, "cat /proc/driver/nvidia/version")
    fleet.in_service()


def test_a_kernel_that_came_behind_our_back_is_named_and_one_that_matches_is_put_there(fleet: Fleet) -> None:
    image = f"sudo DEBIAN_FRONTEND=noninteractive apt-get install -y -q linux-image-{NEW_KERNEL}"
    fleet.site.ssh("w01", image)
    said = fleet.run("plan", code=2)
    assert (
        f"{NEW_KERNEL} has no headers, so that DKMS left its modules out: apt-get install linux-headers-{NEW_KERNEL}"
        in said
    )
    assert "1 node to change: w01; unchanged: head,w[02-03]" in said

    boots, told = fleet.boots(), fleet.told()
    fleet.write(NEW_570, NEW_KERNEL)
    fleet.run("apply", "--yes")
    fresh = Counter((what, node) for _, what, node in fleet.told()[len(told) :])
    assert fresh == Counter(product(("drain", "resume"), WORKERS))
    begun = {node: len(known) - len(boots[node]) for node, known in fleet.boots().items()}
    assert begun == {"head": 0, "w01": 1, "w02": 1, "w03": 1}
    assert fleet.modules(NEW_KERNEL) == {NEW_570}
    fleet.in_service()
