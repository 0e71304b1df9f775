"""Fixtures of the lab tests: a two-node lab of a name that nobody else has."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hpcforge.host import paths as host_paths
from hpcforge.lab import lab as labs

NODES = (labs.LabNode("head", "10.77.0.10"), labs.LabNode("w01", "10.77.0.11", python=False))


@dataclass
class Rehearsal:
    """A lab under test, and what it said."""

    name: str
    lab: labs.Lab | None = None
    said: list[str] = field(default_factory=list)

    def up(self, nodes: tuple[labs.LabNode, ...] = NODES) -> labs.Lab:
        self.said.clear()
        self.lab = labs.up(
            labs.UpRequest(
                name=self.name,
                nodes=nodes,
                cidr="10.77.0.0/24",
                login_user="ops",
                release="12",
                blueprint=Path("blueprints/rehearsal.yaml"),
            ),
            self.said.append,
        )
        return self.lab

    def down(self, *nodes: str) -> None:
        labs.down(self.name, nodes or None, self.said.append)

    def ssh(self, node: str, *command: str) -> subprocess.CompletedProcess[str]:
        assert self.lab is not None
        argv = labs.ssh_argv(self.lab, node, command)
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    def traces(self) -> list[str]:
        """Everything on the host that bears this lab's name or tag."""
        return traces(self.name, self.lab.tag if self.lab else "no tag")

    def left(self) -> list[str]:
        """What of that is there to stay."""
        return left(self.name, self.lab.tag if self.lab else "no tag")


def left(name: str, tag: str) -> list[str]:
    """The same after a while: the kernel takes interfaces of killed nodes away in its own time."""
    until = time.monotonic() + 60
    while (found := traces(name, tag)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def traces(name: str, tag: str) -> list[str]:
    marks = (
        f"/{name}/",
        f"-{name}.lock/",
        f"-{name}/",
        f"-{name} ",
        f"hpcforge lab {name}",
        f"{tag}-",
        f"vb-{tag}",
        f" {tag}:",
    )
    seen = Path("/proc/self/mounts").read_text().splitlines()
    seen += subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout.splitlines()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                seen.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace") + " ")
            except OSError:
                continue
    for top in Path("/sys/fs/cgroup").iterdir():
        with suppress(NotADirectoryError, FileNotFoundError):  # a file, or a group that somebody has just removed
            seen += [f"{path}/" for path in top.iterdir()]
    seen += [
        f"{path}/"
        for path in (
            Path("/var/lib/hpcforge/labs") / name,
            Path(f"/run/hpcforge/packages-{name}"),
            Path(f"/run/hpcforge/lab-{name}.lock"),
        )
        if path.exists()
    ]
    return [line for line in seen if any(mark in line for mark in marks)]


def inotify_limit() -> int:
    return int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())


def limit_without_labs() -> int | None:
    """The limit while there is no lab, which nobody begins or ends meanwhile; None where there is one."""
    with host_paths.host_lock(print):
        return None if labs.lab_names() else inotify_limit()


@pytest.fixture(scope="module")
def rehearsal() -> Iterator[Rehearsal]:
    here = Rehearsal(f"test-lab-{os.getpid()}")
    try:
        yield here
    finally:
        here.down()
