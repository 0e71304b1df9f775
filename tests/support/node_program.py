"""Real nodes for the tests of the node program: what they are asked, what they answer, what is looked at by itself."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcforge.engines.node_output import AnswerReader
from hpcforge.kinds.directories import Directory
from hpcforge.kinds.files import FileWithContent
from hpcforge.lab import lab as labs
from hpcforge.node import bundle, files
from hpcforge.node.kinds import files as kept

Events = list[dict[str, Any]]
PYTHON = r"sudo sed 's/.*\"pid\": \([0-9]*\).*/\1/' /var/lib/hpcforge/lock"  # the process that holds the lock
KILL = f"sudo kill -9 $({PYTHON})"
_NUMBERS = itertools.count(1)
_SSHD_S = 30.0


@dataclass(frozen=True)
class Node:
    """One node of the lab."""

    lab: labs.Lab
    name: str

    def shell(self, command: str, *, stdin: str = "", check: bool = True) -> str:
        """Run a line as the login user; its standard output.

        A role may own ssh.service: it listens to nobody while it is restarted, also after a removal that was cut off
        when it had asked systemd for that.
        """
        argv = labs.ssh_argv(self.lab, self.name, ["sh", "-c", command])
        deadline = time.monotonic() + _SSHD_S
        while True:
            end = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=300, check=False)
            refused = end.returncode == 255 and "Connection refused" in end.stderr
            if not refused or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert not check or end.returncode == 0, end.stderr
        return end.stdout

    def send(self, request: dict[str, Any]) -> Events:
        """Ask the node program; its answers."""
        output = self.shell(bundle.first_command(become=True), stdin=bundle.payload(request))
        return taken(output)

    @contextmanager
    def started(self, request: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
        """The program with a request, and the test going on while it works."""
        argv = labs.ssh_argv(self.lab, self.name, ["sh", "-c", bundle.first_command(become=True)])
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdin
            program.stdin.write(bundle.payload(request))
            program.stdin.close()
            yield program

    def observed(self, **more: Any) -> dict[str, Any]:
        """What a node says that nothing is wanted of."""
        [answer] = of(self.send({"verb": "observe", "wanted": [], "surplus": True, **more}), "observed")
        return answer

    def until(self, command: str, timeout_s: float = 60) -> None:
        """Wait until a line succeeds on the node."""
        deadline = time.monotonic() + timeout_s
        while True:
            argv = labs.ssh_argv(self.lab, self.name, ["sh", "-c", command])
            with suppress(subprocess.TimeoutExpired):  # a login on a node that goes down meanwhile
                if subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode == 0:
                    return
            assert time.monotonic() < deadline, command
            time.sleep(0.2)


def up(name: str, nodes: list[labs.LabNode]) -> labs.Lab:
    """A lab of these nodes, or the same again after some of them went down."""
    return labs.up(
        labs.UpRequest(
            name=name,
            nodes=tuple(nodes),
            cidr="10.192.0.0/24",
            login_user="ops",
            release="12",
            blueprint=Path("/nowhere/blueprint.yaml"),
        ),
        quiet,
    )


def quiet(_line: str) -> None:
    """For a lab that nobody watches."""


def run(**more: Any) -> dict[str, Any]:
    """A run later than any before."""
    number = next(_NUMBERS)
    origin = {"who": "ann@operator", "cluster": "lab", "hpcforge": "0.1.0", "commit": None}
    return {"number": number, "id": f"run{number}", **origin, **more}


def converge(phase: str, work: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A request of a run of its own, done apart."""
    this = more.pop("run", None) or run()
    task = more.pop("task", f"{phase}:{this['id']}")
    return {"verb": "converge", "phase": phase, "work": work, "run": this, "task": task, **more}


def put_file(plain: dict[str, Any]) -> str | None:
    """Put a file as it is sent."""
    return kept.put(FileWithContent.of(plain))


def compare_file(plain: dict[str, Any]) -> dict[str, Any] | None:
    """What there is in place of one."""
    return files.compare_file(FileWithContent.of(plain))


def put_directory(plain: dict[str, Any]) -> str | None:
    """Put a directory as it is sent."""
    return files.put_directory(Directory.of(plain))


def compare_directory(plain: dict[str, Any]) -> dict[str, Any] | None:
    """What there is in place of one."""
    return files.compare_directory(Directory.of(plain))


def taken(output: str) -> Events:
    """Answers, each of which the engine takes for one."""
    hearing = AnswerReader()
    for line in output.splitlines():
        assert hearing.take(line), (hearing.against, line)
    return [json.loads(line) for line in output.splitlines()]


def of(events: Events, kind: str) -> Events:
    """The events of one kind."""
    return [event for event in events if event["event"] == kind]


def details(events: Events) -> dict[str, str]:
    """What was changed, and how."""
    return {one["name"]: one["detail"] for one in of(events, "changed")}
