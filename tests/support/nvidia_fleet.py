"""Workers in service that get another driver: a lab of theirs, what its nodes have noted, and what has to be seen."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Literal

from hpcforge.blueprint.hostlist import fold
from tests.support.nvidia_repository import (
    FILE_ALONE,
    KERNEL,
    NEW_570,
    NEW_KERNEL,
    OLD_570,
    Module,
    key,
    loadable,
    repository,
)
from tests.support.site import Site

_BLUEPRINT = """\
schema: 1
name: driven
domain: driven.example.org
inventory: {lab: KIND}
access: {user: ops, become: sudo}
nodes:
  head:    {functions: [head],   hardware: rehearsal-node, addresses: 10.79.SUBNET.10}
  WORKERS: {functions: [worker], hardware: with-gpus, addresses: "10.79.SUBNET.[11-LAST]"}
hardware: {with-gpus: {like: rehearsal-node, gpus: {model: fake, count: 2}}}
networks: {cluster: {cidr: 10.79.SUBNET.0/24}}
services: {dns: {on: head}, time: {on: head}}
software:
  os: {name: debian, release: "12"}
  preinstalled: {kernel: KERNEL}
  nvidia: {driver: "DRIVER", modules: open}
  sources: {nvidia: {url: "file:///srv/nvidia/", key: mirror.asc, fingerprint: FINGERPRINT, licence_accepted: true}}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
  enforce: ENFORCE
  partitions: {main: {nodes: "WORKERS", default: true, max_time: "01:00:00"}}
  settings: {MinJobAge: 3600}         # jobs are asked for late
users: {ada: {uid: 2001}}
rollout: {canary: 1, max_parallel: 1, busy_nodes: {wait: 5min}, confirm_wait: 5min}
"""
_ENFORCE = {"nspawn": "[]", "vm": "[cores, memory, gpus]"}  # containers cannot hold jobs to their share
_SUBNET = {"nspawn": 1, "vm": 2}
_LOG = "/var/log/slurm/slurmctld.log"
_CORDIC = "/lib/modules/$(uname -r)/kernel/lib/math/cordic.ko"
# It ends by itself, some time after its node is to be emptied, with a status of its own; it says in which boot it ran.
_JOB = """\
cat /proc/sys/kernel/random/boot_id
until scontrol show node w02 | grep -q DRAIN; do sleep 1; done
sleep 10
cat /proc/sys/kernel/random/boot_id
exit 7
"""


class Fleet:
    """A head and some workers, a repository of NVIDIA's names for them, and what they themselves have noted."""

    def __init__(self, folder: Path, kind: Literal["nspawn", "vm"], workers: int) -> None:
        self.kind, self.workers = kind, tuple(f"w{number:02}" for number in range(1, workers + 1))
        self.nodes = ("head", *self.workers)
        self.site = Site(folder, f"test-driven{kind}-{os.getpid()}", image=kind == "vm")
        self._home = folder / "gpg"
        (folder / "blueprints").mkdir()
        text, self._fingerprint = key(self._home, "mirror")
        (folder / "blueprints" / "mirror.asc").write_text(text)

    def write(self, driver: str, kernel: str = KERNEL) -> None:
        """The blueprint with this driver and kernel."""
        words = {
            "KERNEL": kernel,
            "DRIVER": driver,
            "FINGERPRINT": self._fingerprint,
            "WORKERS": fold(self.workers),
            "LAST": str(10 + len(self.workers)),
            "KIND": self.kind,
            "SUBNET": str(_SUBNET[self.kind]),
            "ENFORCE": _ENFORCE[self.kind],
        }
        self.site.blueprint.write_text(re.sub("|".join(words), lambda match: words[match[0]], _BLUEPRINT))

    def up(self) -> None:
        """Start the nodes, and give workers the repository: machines with a module that their kernel can load."""
        if self.kind == "vm":
            assert self.site.cli("image", "build", "--disk", "BLUEPRINT").returncode == 0
        assert self.site.cli("rehearse", "up", "BLUEPRINT").returncode == 0
        packed = repository(self.site.folder, self._home, "mirror", self._module())
        for worker in self.workers:
            self.site.unpack(worker, packed)

    def _module(self) -> Module:
        if self.kind == "nspawn":
            return FILE_ALONE
        return loadable(self.site.fetch(self.workers[0], _CORDIC))

    def run(self, verb: str, *options: str, code: int = 0) -> str:
        """What an hpcforge says that takes the nodes for real ones."""
        began = time.monotonic()
        process = self.site.as_real(verb, *options)
        print(f"{verb:<20} {time.monotonic() - began:6.0f} s", flush=True)
        assert process.returncode == code
        return process.stdout + process.stderr

    def boots(self) -> dict[str, tuple[str, ...]]:
        """The ids of all boots of which each node's journal knows."""
        listed = {node: self.site.ssh(node, "sudo journalctl --list-boots -q") for node in self.nodes}
        return {node: tuple(line.split()[1] for line in text.splitlines()) for node, text in listed.items()}

    def begun_since(self, boots: dict[str, tuple[str, ...]]) -> dict[str, int]:
        """How many boots of each node are not among these."""
        return {node: len(boot_ids) - len(boots[node]) for node, boot_ids in self.boots().items()}

    def told(self) -> list[tuple[float, str, str]]:
        """When slurmctld was told to drain which node, or to use it again, as its log has it."""
        text = self.site.ssh("head", f"sudo cat {_LOG}")
        matches = re.findall(r"^\[(\S+?)\] .*update_node: node (\S+) state set to (\S+)", text, re.MULTILINE)
        seconds = "; ".join(f"date -d {when} +%s.%N" for when, _, _ in matches) or ":"
        times = map(float, self.site.ssh("head", seconds).split())
        words = [(node, "drain" if state.startswith("DRAIN") else "resume") for _, node, state in matches]
        return [(when, action, node) for when, (node, action) in zip(times, words, strict=True)]

    def each_once(self, commands: Sequence[tuple[float, str, str]]) -> bool:
        """Whether that is one drain of each worker and one return, and nothing else."""
        return Counter((action, node) for _, action, node in commands) == Counter(
            product(("drain", "resume"), self.workers)
        )

    def started(self) -> list[tuple[float, str, str]]:
        """When each worker's boot began."""
        up = "$(cut -d' ' -f22 /proc/1/stat) / $(getconf CLK_TCK)"
        script = f"echo $(($(awk '/^btime/ {{print $2}}' /proc/stat) + {up}))"
        return [(float(self.site.ssh(worker, script)), "start", worker) for worker in self.workers]

    def modules(self, kernel: str) -> set[str]:
        """The versions that the workers' modules have, of the kernel that runs and of another one."""
        script = f"for kernel in $(uname -r) {kernel}; do /sbin/modinfo -k $kernel -F version nvidia; done"
        return {version for worker in self.workers for version in self.site.ssh(worker, script).split()}

    def loaded(self) -> dict[str, list[str]]:
        """Which version was loaded in each boot that loaded one, by worker."""
        script = "sudo journalctl -q -o cat -u nvidia-stub.service | sed -n 's/^loaded //p'"
        return {worker: self.site.ssh(worker, script).split() for worker in self.workers}

    def kept(self) -> dict[str, str]:
        """What is on nodes, as digests, and how Slurm has them; the same as long as nobody changes anything."""
        places = "/etc /var/lib/dpkg /var/lib/hpcforge"
        script = f"cat /proc/sys/kernel/random/boot_id; sudo find {places} -type f -exec sha256sum {{}} +"
        state = {"": self.site.ssh("head", "scontrol show nodes --oneliner | grep -o ' State=[^ ]*'")}
        return state | {node: self.site.ssh(node, script) for node in self.nodes}

    def in_service(self) -> None:
        """All workers take jobs, and a plan has nothing to do."""
        self.site.becomes("head", "sinfo -h -N -o '%N %t'", "".join(f"{worker} idle\n" for worker in self.workers))
        for worker in self.workers:  # a plan looks once, and a clock is not right in the first seconds after a boot
            self.site.ssh(worker, "sudo chronyc -n waitsync 300 1.0 0 1 >/dev/null")
        assert f"Nothing to do on {len(self.nodes)} nodes." in self.run("plan")

    def with_driver(self) -> None:
        """A first installation, with its restart: the driver is loaded, and jobs can come."""
        self.run("apply", "--yes")
        for worker in self.workers:
            assert f" {OLD_570} " in self.site.ssh(worker, "cat /proc/driver/nvidia/version")
        self.in_service()

    def refuses_a_kernel(self) -> None:
        """A kernel for which the driver does not build is refused with the set that works; no node is touched."""
        self.write(OLD_570, NEW_KERNEL)
        before = self.kept()
        for output in (
            self.site.cli("validate", "BLUEPRINT").stderr,
            self.run("plan", code=3),
            self.run("apply", "--yes", code=3),
        ):
            assert "error: SOFTWARE-031: " in output
            nearest = f"software.nvidia.driver: {NEW_570} (NVIDIA, R570, instead of {OLD_570})"
            assert f"hint: nearest set that works: {nearest}\n" in output
        assert self.kept() == before

    def gets_another_driver(self) -> None:
        """Beside a job on w02: each is drained and restarted once, one after the other; the job ends by itself."""
        job = self._job()
        self.write(NEW_570)
        boots, commands = self.boots(), self.told()
        self._planned(job)
        assert (self.boots(), self.told()) == (boots, commands)  # to look changes nothing

        self.run("apply", "--yes")
        fresh = self.told()[len(commands) :]
        assert self.each_once(fresh)
        assert self.begun_since(boots) == {"head": 0, **dict.fromkeys(self.workers, 1)}
        # one after the other, the canary first: who is drained next is so when the one before is in service again
        story = [(action, node) for _, action, node in sorted([*fresh, *self.started()])]
        order = [node for _, node in story[::3]]
        assert order[0] == "w01"
        assert story == [(action, node) for node in order for action in ("drain", "start", "resume")]

        ended = self.site.ssh("head", f"scontrol show job {job}")
        assert "JobState=FAILED Reason=NonZeroExitCode" in ended
        assert "ExitCode=7:0" in ended and " Restarts=0 " in ended
        first, last = self.site.ssh("w02", f"cat /var/tmp/{job}.out").split()
        assert first == last and first.replace("-", "") == boots["w02"][-1]  # before, to its end

        assert self.modules(KERNEL) == {NEW_570}
        assert self.loaded() == {worker: [OLD_570, NEW_570] for worker in self.workers}
        for worker in self.workers:
            assert f" {NEW_570} " in self.site.ssh(worker, "cat /proc/driver/nvidia/version")
        self.in_service()

    def _job(self) -> str:
        """The number of a job of ada's on w02, which runs."""
        options = "--parsable --mem=100M -w w02 -D /var/tmp -o /var/tmp/%j.out -e /var/tmp/%j.err"
        job = self.site.ssh("head", f"sudo -iu ada sbatch {options} <<'END'\n#!/bin/sh\n{_JOB}END").strip()
        self.site.becomes("head", f"scontrol show job {job} | grep -o 'JobState=RUNNING' || :", "JobState=RUNNING\n")
        return job

    def _planned(self, job: str) -> None:
        """A plan says who is drained, who waits for the job, and that all workers are restarted, one at a time."""
        output, all_workers = self.run("plan", code=2), fold(self.workers)
        for worker in self.workers:
            waits = f"; jobs run there ({job}): waited for up to 5 min 0 s, never killed" if worker == "w02" else ""
            assert f"\n{worker} is drained first{waits}\n" in output
        assert f"{all_workers}: restarted, and waited for up to 20 min 0 s each\n" in output
        assert "at most 1 workers at a time\n" in output
        count = f"{len(self.workers)} nodes to change: {all_workers}; unchanged: head; reboot: {all_workers}.\n"
        assert count in output


@contextmanager
def fleet(folder: Path, kind: Literal["nspawn", "vm"], workers: int) -> Iterator[Fleet]:
    """Nodes that are up, until this ends; their blueprint has the older driver."""
    nodes = Fleet(folder, kind, workers)
    nodes.write(OLD_570)
    try:
        nodes.up()
        yield nodes
    finally:
        nodes.site.cli("rehearse", "down")
