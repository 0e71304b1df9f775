"""What this machine must have to serve."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.netboot.services import NetbootError, address_on, interface_of, running, started


def test_addresses_are_this_machines_own() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert address_on("127.0.0.0/8") == "127.0.0.1"
    with pytest.raises(NetbootError, match="no address on"):
        address_on("198.51.100.0/24")
    with pytest.raises(NetbootError, match="does not have the address"):
        interface_of("198.51.100.1")


def test_workers_end_with_their_server_even_if_that_was_killed(tmp_path: Path) -> None:
    told = tmp_path / "worker"
    with running(["sh", "-c", f"sleep 300 & echo $! > {told}.new; mv {told}.new {told}; wait"], tmp_path) as program:
        server = program.process
        while not told.exists():
            assert server.poll() is None
            time.sleep(0.01)
        server.kill()
        server.wait()
        os.kill(int(told.read_text()), 0)  # it lives
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)


def test_a_server_that_ends_at_once_is_named() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    def check() -> None:
        if process.poll() is not None:
            raise NetbootError("nginx has ended: port taken")

    with pytest.raises(NetbootError, match="port taken"):
        started(check, 0.1)
