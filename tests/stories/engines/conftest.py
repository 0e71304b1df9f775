"""Two real nodes for the engine tests, in a lab of a name that nobody else has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hpcforge.engines import Engines
from hpcforge.engines.tasks import Event, Target, Task
from hpcforge.lab import lab as labs


@dataclass(frozen=True)
class Nodes:
    """Nodes n1 and n2, and what a test does to them from outside."""

    lab: labs.Lab
    targets: dict[str, Target]

    def inside(self, node: str, script: str) -> str:
        """Run a script on a node as root, by OpenSSH: what the engines did is looked at by another way."""
        ssh, *rest = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        argv = [ssh, "-o", "ConnectionAttempts=5", *rest]  # an sshd that reloads refuses for a moment
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout

    def link(self, node: str, state: str) -> None:
        """Cut ("down") or mend ("up") a node's network cable."""
        ports = [path.name for path in Path(f"/sys/class/net/{self.lab.bridge}/brif").iterdir()]
        port = next(port for port in ports if port == f"vb-{self.lab.machine(node)}"[:15])
        subprocess.run(["ip", "link", "set", port, state], check=True)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    name = f"test-engines-{os.getpid()}"
    said: list[str] = []
    try:
        lab = labs.up(
            labs.UpRequest(
                name=name,
                nodes=(labs.LabNode("n1"), labs.LabNode("n2")),
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=Path("blueprints/rehearsal.yaml"),
            ),
            said.append,
        )
        entries = yaml.safe_load(lab.inventory.read_text())["nodes"]
        yield Nodes(
            lab,
            {
                node: Target(node, entry["address"], "ops", "sudo", lab.key, tuple(entry["host_keys"]))
                for node, entry in entries.items()
            },
        )
    finally:
        labs.down(name, None, said.append)


@pytest.fixture
def engines(nodes: Nodes, tmp_path: Path) -> Iterator[Engines]:
    with Engines(nodes.targets.values(), tmp_path / "work", tmp_path / "artifacts") as running:
        yield running


def finish(engines: Engines, *tasks: Task) -> dict[str, list[Event]]:
    """Start tasks and collect every event of each until all have ended."""
    seen: dict[str, list[Event]] = {task.id: [] for task in tasks}
    for task in tasks:
        engines.start(task)
    left = set(seen)
    while left:
        event = engines.next(60.0)
        assert event is not None, f"no event for a minute; still running: {left}"
        if event.task in seen:
            seen[event.task].append(event)
            left -= {event.task} if event.kind == "result" else set()
    return seen
