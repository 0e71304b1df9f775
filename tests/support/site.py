"""A site of its own for the end-to-end tests: a copy of the shipped rehearsal, a lab of a name nobody else has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcforge.lab import lab as labs
from hpcforge.lab.names import lab_directory
from tests.support.said import end_of

REPOSITORY = Path(__file__).parents[2]
# What others bring about is waited for so long, seconds. Only a failure takes it all: a slow machine whose cores others
# want as well takes a minute where this one takes seconds.
BECOMES_S = 300
IN_ANOTHER_STEP = """
import runpy
from hpcforge.secrets import host_certificates
now = host_certificates.current_step()
host_certificates.current_step = lambda: now + {steps}
runpy.run_module("hpcforge", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Begun:
    """A command under way."""

    process: subprocess.Popen[bytes]
    log: Path
    results: Path  # what it prints for a program

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def until(self, text: str) -> None:
        """Wait until it has said this."""
        end = time.monotonic() + BECOMES_S
        while True:
            over = self.process.poll() is not None or time.monotonic() > end
            if text in (output := self.said()):
                return
            assert not over, output
            time.sleep(0.05)

    def send(self, number: signal.Signals) -> None:
        """To its whole group, as a terminal does."""
        os.killpg(self.process.pid, number)

    def send_alone(self, number: signal.Signals) -> None:
        """To the command itself, as `kill` does: its children are not told."""
        self.process.send_signal(number)

    def said(self) -> str:
        """What it said to people."""
        return self.log.read_text()


def _tried_on_node(lab: str, node: str, script: str) -> subprocess.CompletedProcess[str]:
    """A shell script on a lab's node, by the command that `rehearse ssh` ends in."""
    record = labs.load(lab)
    assert record is not None
    process = subprocess.run(
        labs.ssh_argv(record, node, ["sh", "-c", script]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    print(f"on {node}: {script}\n{end_of(process.stderr)}{end_of(process.stdout)}exit status {process.returncode}\n")
    return process


def on_node(lab: str, node: str, script: str) -> str:
    """What a shell script on a lab's node prints; it must succeed."""
    process = _tried_on_node(lab, node, script)
    assert process.returncode == 0, process.stderr
    return process.stdout


def becomes_on_node(lab: str, node: str, script: str, expected: str) -> None:
    """What a script prints becomes this, some time after what brings it about; while it fails it is not yet so."""
    until = time.monotonic() + BECOMES_S
    while (process := _tried_on_node(lab, node, script)).returncode or process.stdout != expected:
        assert time.monotonic() < until, process.stdout + process.stderr
        time.sleep(0.5)


@dataclass(frozen=True)
class Site:
    """The real command line on a copy of the blueprint. `image`: its nodes are made of one, never else."""

    folder: Path
    lab: str
    image: bool = False

    @property
    def blueprint(self) -> Path:
        return self.folder / "blueprints" / "rehearsal.yaml"

    def cli(
        self, *arguments: str, blueprint: Path | None = None, steps: int = 0, said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run hpcforge; the end of its output is echoed, so that a failing test shows why it failed.

        `steps`: as it will be or was so many steps of certificates from now. `said`: on its standard input.
        """
        program = ["-c", IN_ANOTHER_STEP.format(steps=steps)] if steps else ["-m", "hpcforge"]
        words = [str(blueprint or self.blueprint) if word == "BLUEPRINT" else word for word in arguments]
        return self._run(program, words, self._environment(), said)

    def as_real(self, verb: str, *options: str) -> subprocess.CompletedProcess[str]:
        """As on real nodes, by the lab's inventory alone: a rehearsal leaves out what needs a GPU."""
        inventory = lab_directory(self.lab) / "inventory.yaml"
        environment = {name: text for name, text in self._environment().items() if name != "HPCFORGE_LAB"}
        words = [verb, str(self.blueprint), "--inventory", str(inventory), *options]
        return self._run(["-m", "hpcforge"], words, environment)

    def _run(
        self, program: list[str], words: list[str], environment: dict[str, str], said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        process = subprocess.run(
            [sys.executable, *program, *words],
            env=environment,
            input=said,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        ends = end_of(process.stderr) + end_of(process.stdout)
        print(f"$ hpcforge {' '.join(words)}\n{ends}exit status {process.returncode}\n")
        return process

    def begin(self, *arguments: str) -> Begun:
        """hpcforge in the background, in a session of its own; at the end of `with` it is over."""
        words = [str(self.blueprint) if word == "BLUEPRINT" else word for word in arguments]
        log = self.folder / f"log-{time.monotonic_ns()}"
        results = log.with_suffix(".out")
        with log.open("w") as stderr, results.open("w") as stdout:
            process = subprocess.Popen(
                [sys.executable, "-m", "hpcforge", *words], env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, start_new_session=True,
            )  # fmt: skip
        return Begun(process, log, results)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """hpcforge under way, with all that it prints as one stream of lines; at the end of `with` it is over."""
        words = [str(self.blueprint) if word == "BLUEPRINT" else word for word in arguments]
        with subprocess.Popen(
            [sys.executable, "-u", "-m", "hpcforge", *words], env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                process.wait(1800)

    def _environment(self) -> dict[str, str]:
        own = {"HPCFORGE_LAB": self.lab, "HPCFORGE_IDENTITY": str(self.folder / "age.key")}
        without = "HPCFORGE_NO_IMAGE" if self.image else ""
        return {name: text for name, text in os.environ.items() if name != without} | own

    def ssh(self, node: str, script: str) -> str:
        """A shell script on a node; it must succeed."""
        return on_node(self.lab, node, script)

    def unpack(self, node: str, packed: bytes) -> None:
        """Put a compressed tar archive below /srv of a node."""
        record = labs.load(self.lab)
        assert record is not None
        argv = labs.ssh_argv(record, node, ["sudo", "tar", "-C", "/srv", "-xzf", "-"])
        subprocess.run(argv, input=packed, check=True, timeout=600)

    def fetch(self, node: str, file: str) -> bytes:
        """What is in a file of a node, whose name a shell there makes of `file`."""
        record = labs.load(self.lab)
        assert record is not None
        argv = labs.ssh_argv(record, node, ["sh", "-c", f"cat {file}"])
        return subprocess.run(argv, check=True, capture_output=True, timeout=600).stdout

    def becomes(self, node: str, script: str, expected: str) -> None:
        """What a script prints becomes this: when a job has ended, its nodes are completing for a moment."""
        becomes_on_node(self.lab, node, script, expected)
