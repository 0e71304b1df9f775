"""What commands of a deploy.py print, as far as it is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ASKS = """
from pyinfra import host
from pyinfra.api.exceptions import PyinfraError
from pyinfra.facts.server import Command

raise PyinfraError(repr(host.get_fact(Command, "true")))
"""


def deployed(folder: Path, block: str, count: int) -> dict[str, Any]:
    """The result on a node that prints this to every command."""
    source = folder / "deploy.py"
    source.write_text(ASKS)
    command = [sys.executable, "-m", "tests.support.deploy_over_ssh", str(source), block, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_a_node_that_prints_without_end_is_no_longer_listened_to(tmp_path: Path) -> None:
    told = deployed(tmp_path, "x" * 1023 + "\n", 400 << 10)
    assert "more than 64 MiB of output, or a line of 8 MiB on w03: stopped listening" in told["error"]
    assert told["grown_mib"] < 250  # 400 MiB were to come


def test_a_line_without_end_is_no_longer_read(tmp_path: Path) -> None:
    told = deployed(tmp_path, "x" * 1024, 32 << 10)
    assert "more than 64 MiB of output, or a line of 8 MiB on w03: stopped listening" in told["error"]


def test_what_is_not_utf_8_is_read_to_its_end(tmp_path: Path) -> None:
    told = deployed(tmp_path, "caf\xe9\nend\n", 1)
    assert "'caf\ufffd\\nend'" in told["error"]
