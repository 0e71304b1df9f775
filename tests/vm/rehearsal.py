"""A blueprint whose nodes are virtual machines, for the tests here: hpcforge run on it, and commands on its nodes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcforge.lab import lab as labs
from hpcforge.lab import processes
from hpcforge.lab.vm import qemu

REPOSITORY = Path(__file__).parents[2]
STEP_S = 600  # what one step may take on a machine that others use, too


@dataclass(frozen=True)
class Rehearsal:
    """A lab's name, and the blueprint of its machines."""

    name: str
    blueprint: Path
    program: tuple[str, ...] = ("-m", "hpcforge")  # what Python runs

    def start(self, *words: object) -> subprocess.Popen[str]:
        """An hpcforge under way."""
        env = {name: value for name, value in os.environ.items() if name != "HPCFORGE_NO_IMAGE"}
        return subprocess.Popen(
            [sys.executable, *self.program, *map(str, words)],
            cwd=REPOSITORY,
            env={**env, "HPCFORGE_LAB": self.name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: object, expect: int = 0, errors: bool = False) -> str:
        """Standard output of an hpcforge that ends as expected, with its errors if asked; how long it took is told."""
        began = time.monotonic()
        running = self.start(*words)
        try:
            out, said = running.communicate()
        finally:
            running.kill()
        if words[:2] != ("rehearse", "ssh"):
            verb = " ".join(str(word) for word in words[:2] if word != self.blueprint)
            print(f"{verb:<20} {time.monotonic() - began:6.0f} s", flush=True)
        for line in said.splitlines():
            if line.startswith("time: ") or ": started at" in line:
                print(f"    {line}", flush=True)
        assert running.returncode == expect, said + out
        return said + out if errors else out

    def on(self, node: str, command: str) -> str:
        return self.run("rehearse", "ssh", self.blueprint, node, "--", command)

    def user(self, name: str, *words: str) -> str:
        """What a user's command prints on the head."""
        return self.on("head", f"cd / && sudo -H -u {name} {shlex.join(words)} 2>&1 || :")

    def cut_power(self, node: str) -> None:
        """A machine's QEMU is killed, as where the plug is pulled."""
        lab = labs.load(self.name)
        assert lab is not None
        (pid,) = processes.find(lambda argv: qemu.name_in(argv) == lab.machine(node))
        os.kill(pid, signal.SIGKILL)
        assert processes.wait_until(lambda: not labs.runs(lab, node), timeout_s=60)

    def becomes(self, node: str, command: str, wanted: str) -> None:
        """Wait until a command succeeds and says so. Until then it may fail, as may the way to a node that changes."""
        deadline = time.monotonic() + STEP_S
        while True:
            look = self.start("rehearse", "ssh", self.blueprint, node, "--", command)
            try:
                said, complaint = look.communicate()
            finally:
                look.kill()
            if (look.returncode, said.strip()) == (0, wanted):
                return
            assert time.monotonic() < deadline, said + complaint
            time.sleep(2)

    @contextmanager
    def job(self, *words: str) -> Iterator[str]:
        """The number of a job of ada's on w01, which runs."""
        number = self.user("ada", "sbatch", "--parsable", "-w", "w01", "--mem=200M", "-o", "/dev/null", *words).strip()
        try:
            self.becomes("head", f"squeue -h -j {number} -o %T", "RUNNING")
            yield number
        finally:
            self.user("ada", "scancel", number)
            self.becomes("head", "squeue -h", "")

    def to_worker(self, name: str, command: str) -> str:
        """What a user of the head's gets to see who goes to w01 by ssh."""
        known = "StrictHostKeyChecking=accept-new"
        return self.user(name, "ssh", "-o", "BatchMode=yes", "-o", known, "w01", command)


@contextmanager
def configured(name: str, folder: Path, blueprint: str, roles: Mapping[str, str]) -> Iterator[Rehearsal]:
    """Machines as a blueprint says, configured, until this ends. `roles`: further ones, by what their files say."""
    file = folder / "machines.yaml"
    file.write_text(blueprint)
    for role, said in roles.items():
        (folder / "roles" / role).mkdir(parents=True)
        (folder / "roles" / role / "role.yaml").write_text(said)
    rehearsal = Rehearsal(name, file)
    print()
    try:
        rehearsal.run("image", "build", "--disk", file)
        rehearsal.run("rehearse", "up", file)
        rehearsal.run("apply", file, "--yes")
        yield rehearsal
    finally:
        labs.down(name, None, print)
