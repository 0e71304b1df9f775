"""Nodes for what only a real program can show: slurmctld, ibnetdiscover, lldpd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcforge.lab import lab as labs


@dataclass(frozen=True)
class Nodes:
    """The nodes of a lab."""

    lab: labs.Lab

    def run(self, node: str, script: str, stdin: str = "", check: bool = True) -> str:
        """What a script prints that runs on a node as root."""
        argv = labs.ssh_argv(self.lab, node, ["sudo", "-n", "sh", "-c", script])
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def write(self, node: str, path: str, text: str) -> None:
        self.run(node, f"mkdir -p $(dirname {path}) && cat > {path}", text)

    def install(self, node: str, *packages: str) -> None:
        """From the distribution; nothing is started."""
        hold = "printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d"
        names = " ".join(packages)
        self.run(node, f"{hold}; DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {names}")


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Nodes]]:
    """Start labs; all of them go when the module is done."""
    made: list[str] = []
    said: list[str] = []

    def up(what: str, *names: str, release: str = "12", network: str = "mgmt") -> Nodes:
        name = f"test-{what}-{os.getpid()}"
        made.append(name)
        return Nodes(
            labs.up(
                labs.UpRequest(
                    name=name,
                    nodes=tuple(labs.LabNode(node) for node in names),
                    cidr="10.78.0.0/23",
                    login_user="ops",
                    release=release,
                    blueprint=Path("blueprints/rehearsal.yaml"),
                    network=network,
                ),
                said.append,
            )
        )

    try:
        yield up
    finally:
        for name in made:
            labs.down(name, None, said.append)
