"""docs/tutorial.md from step 2 to 5: each command succeeds, and does what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.said import end_of
from tests.support.site import REPOSITORY

pytestmark = pytest.mark.lab

PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Reader:
    """Somebody who types what the page says, in a folder of their own."""

    folder: Path

    def types(self, step: int) -> dict[str, str]:
        """Run the commands of a step; return what each printed on both streams."""
        text = PAGE.split(f"\n## {step}. ")[1].split("\n## ")[0]
        lines = [line for block in re.findall(r"\n```\n(.*?)\n```\n", text, re.DOTALL) for line in block.splitlines()]
        return {line: self.run(shlex.split(line)[1:]) for line in lines if line.startswith("hpcforge ")}

    def run(self, words: list[str], code: int = 0) -> str:
        environment = {
            **os.environ,
            "HPCFORGE_IDENTITY": str(self.folder / "age.key"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "HPCFORGE_LAB": f"test-tutorial-{os.getpid()}",
        }
        done = subprocess.run(
            [sys.executable, "-m", "hpcforge", *words],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        printed = f"{done.stderr}{done.stdout}"
        assert done.returncode == code, end_of(printed)
        return printed


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    reader = Reader(tmp_path_factory.mktemp("tutorial"))
    yield reader
    reader.run(["rehearse", "down"])


def test_a_blueprint_of_ones_own_is_valid(reader: Reader) -> None:
    printed = reader.types(2)
    assert "site.yaml is valid: 3 nodes" in printed["hpcforge validate site.yaml"]
    assert (reader.folder / "design.html").stat().st_size > 10_000


def test_it_is_rehearsed_and_trains(reader: Reader) -> None:
    printed = reader.types(3)
    applied = printed["hpcforge apply site.yaml --yes"]
    assert re.search(r"train_ddp +passed +4 ranks on g\[01-02\]", applied)


def test_a_change_by_hand_is_repaired(reader: Reader) -> None:
    printed = list(reader.types(4).values())
    assert {"g01", "g02"} <= set(printed[0].split())
    assert "-# mine" in printed[2]
    assert "chrony.conf" in printed[2]


def test_a_node_joins(reader: Reader) -> None:
    printed = list(reader.types(5).values())
    assert re.search(r"g03.* configured", printed[2])
