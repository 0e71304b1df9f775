"""hpcforge on the blueprint of a real site, in a lab."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.said import end_of
from tests.support.site import becomes_on_node, on_node


@dataclass(frozen=True)
class Rehearsal:
    """The real command line, and a lab of a name that nobody else has."""

    folder: Path
    lab: str

    def cli(self, *arguments: str, code: int = 0) -> str:
        """What it says on both streams; it must end with this exit status."""
        process = self.tried(*arguments)
        output = f"{process.stderr}{process.stdout}"
        assert process.returncode == code, end_of(output)
        return output

    def tried(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command, whatever its exit status is."""
        own = {
            "HPCFORGE_IDENTITY": str(self.folder / "age.key"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        process = subprocess.run(
            [sys.executable, "-m", "hpcforge", *arguments, "--lab", self.lab],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        output = end_of(f"{process.stderr}{process.stdout}")
        print(f"$ hpcforge {' '.join(arguments)}\n{output}exit status {process.returncode}\n")
        return process

    def inside(self, node: str, script: str) -> str:
        """A shell script on a node; it must succeed."""
        return on_node(self.lab, node, script)

    def becomes(self, node: str, script: str, expected: str) -> None:
        """What a script prints becomes this."""
        becomes_on_node(self.lab, node, script, expected)


@contextmanager
def configured(folder: Path, name: str, site: Path, nodes: str) -> Iterator[Rehearsal]:
    """These nodes of a site, up and applied without its tests; taken down afterwards."""
    rehearsal = Rehearsal(folder, f"test-{name}-{os.getpid()}")
    try:
        rehearsal.cli("rehearse", "up", str(site), "--nodes", nodes)
        rehearsal.cli("apply", str(site), "--yes", "--verify", "none")
        yield rehearsal
    finally:
        rehearsal.cli("rehearse", "down")
