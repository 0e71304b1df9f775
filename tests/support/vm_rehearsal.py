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

from hpcforge.host import processes
from hpcforge.lab import lab as labs
from hpcforge.lab.vm import qemu

REPOSITORY = Path(__file__).parents[2]
STEP_S = 600  # what one step may take on a machine that others use, too
COMMON = """\
schema: 1
inventory: {lab: vm}
access: {user: ops, become: sudo}
networks: {cluster: {cidr: 10.77.0.0/24}}
services:
  dns:  {on: head}
  time: {on: head}
software:
  os: {name: debian, release: "12"}
slurm:
  controller: head
  reserve: {cores: 0, memory_gib: 1}
"""


def blueprint(name: str, own: str) -> str:
    """A blueprint of this name: what most of these tests say, and what one says of its own.

    A section that both begin with a line of its own has the lines of both; else that of its own counts.
    """
    sections = _sections(f"name: {name}\ndomain: {name}.example.org\n{COMMON}")
    for section, text in _sections(own).items():
        begins = f"{section}:\n"
        together = sections.get(section, "").startswith(begins) and text.startswith(begins)
        sections[section] = sections[section] + text.removeprefix(begins) if together else text
    return "".join(sections.values())


def _sections(text: str) -> dict[str, str]:
    """The lines of each section of a blueprint, by its name."""
    sections: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if not line[0].isspace():
            name = line.partition(":")[0]
        sections[name] = sections.get(name, "") + line
    return sections


def environment() -> dict[str, str]:
    """This process's, by which images are used: all else is what a test here would wait for."""
    return {name: value for name, value in os.environ.items() if name != "HPCFORGE_NO_IMAGE"}


def took(began_s: float, *words: str) -> None:
    """Tell how long a command took that began then."""
    print(f"{' '.join(words):<20} {time.monotonic() - began_s:6.0f} s", flush=True)


def machines(lab: labs.Lab) -> list[int]:
    """The processes of a lab's machines."""
    return processes.find(lambda argv: qemu.name_in(argv).startswith(f"{lab.tag}-"))


def interfaces(lab: labs.Lab) -> list[str]:
    """A lab's network interfaces on this host, its bridge's too."""
    return [path.name for path in Path("/sys/class/net").iterdir() if lab.tag in path.name]


def sockets(lab: labs.Lab) -> list[str]:
    """What a lab's machines are talked to by."""
    return [path.name for path in Path("/run/hpcforge").iterdir() if lab.tag in path.name]


@dataclass(frozen=True)
class Rehearsal:
    """A lab's name, and the blueprint of its machines."""

    name: str
    blueprint: Path
    program: tuple[str, ...] = ("-m", "hpcforge")  # what Python runs

    @property
    def lab(self) -> labs.Lab:
        """The lab as it is written down; there has to be one."""
        lab = labs.load(self.name)
        assert lab is not None
        return lab

    def start(self, *words: object) -> subprocess.Popen[str]:
        """An hpcforge under way."""
        return subprocess.Popen(
            [sys.executable, *self.program, *map(str, words)],
            cwd=REPOSITORY,
            env={**environment(), "HPCFORGE_LAB": self.name},
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
            out, errors_text = running.communicate()
        finally:
            running.kill()
        if words[:2] != ("rehearse", "ssh"):
            took(began, *(str(word) for word in words[:2] if word != self.blueprint))
        for line in errors_text.splitlines():
            if line.startswith("time: ") or ": started at" in line:
                print(f"    {line}", flush=True)
        assert running.returncode == expect, errors_text + out
        return errors_text + out if errors else out

    def on(self, node: str, command: str) -> str:
        return self.run("rehearse", "ssh", self.blueprint, node, "--", command)

    def user(self, name: str, *words: str) -> str:
        """What a user's command prints on the head."""
        return self.on("head", f"cd / && sudo -H -u {name} {shlex.join(words)} 2>&1 || :")

    def cut_power(self, node: str) -> None:
        """A machine's QEMU is killed, as where the plug is pulled."""
        lab = self.lab
        (pid,) = processes.find(lambda argv: qemu.name_in(argv) == lab.machine(node))
        os.kill(pid, signal.SIGKILL)
        assert processes.wait_until(lambda: not labs.runs(lab, node), timeout_s=60)

    def becomes(self, node: str, command: str, expected: str) -> None:
        """Wait until a command succeeds and says so. Until then it may fail, as may the way to a node that changes."""
        deadline = time.monotonic() + STEP_S
        while True:
            look = self.start("rehearse", "ssh", self.blueprint, node, "--", command)
            try:
                output, complaint = look.communicate()
            finally:
                look.kill()
            if (look.returncode, output.strip()) == (0, expected):
                return
            assert time.monotonic() < deadline, output + complaint
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
        option = "StrictHostKeyChecking=accept-new"
        return self.user(name, "ssh", "-o", "BatchMode=yes", "-o", option, "w01", command)


@contextmanager
def with_image(name: str, folder: Path, text: str, roles: Mapping[str, str] | None = None) -> Iterator[Rehearsal]:
    """A blueprint with its image and no machine yet; none is left when this ends.

    `roles`: further ones, by what their files say.
    """
    file = folder / "machines.yaml"
    file.write_text(text)
    for role, role_text in (roles or {}).items():
        (folder / "roles" / role).mkdir(parents=True)
        (folder / "roles" / role / "role.yaml").write_text(role_text)
    rehearsal = Rehearsal(name, file)
    print()
    try:
        rehearsal.run("image", "build", "--disk", file)
        yield rehearsal
    finally:
        labs.down(name, None, print)


@contextmanager
def configured(name: str, folder: Path, text: str, roles: Mapping[str, str]) -> Iterator[Rehearsal]:
    """Machines as a blueprint says, configured, until this ends."""
    with with_image(name, folder, text, roles) as rehearsal:
        rehearsal.run("rehearse", "up", rehearsal.blueprint)
        rehearsal.run("apply", rehearsal.blueprint, "--yes")
        yield rehearsal
