"""An ssh agent that holds one key."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ssh_agent(socket: Path, key: Path) -> Iterator[None]:
    """Run one at a socket (SSH_AUTH_SOCK) while the context lasts."""
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _add(socket, key, time.monotonic() + 30)
        yield
    finally:
        agent.terminate()
        agent.wait()


def _add(socket: Path, key: Path, deadline: float) -> None:
    # Its socket is there a moment before anybody listens at it.
    environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
    while (
        process := subprocess.run(["ssh-add", "-q", key], env=environment, capture_output=True, check=False)
    ).returncode:
        assert time.monotonic() < deadline, process.stderr
        time.sleep(0.05)
