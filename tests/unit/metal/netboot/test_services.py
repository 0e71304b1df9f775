"""What this machine must have to serve."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpcforge.locks import HeldError
from hpcforge.metal.netboot import Records
from hpcforge.metal.netboot.configurations import BootNetwork
from hpcforge.metal.netboot.server import Boots
from hpcforge.metal.netboot.services import (
    NetbootError,
    Served,
    address_on,
    alone,
    interface_of,
    running,
    serving,
    started,
)


def test_addresses_are_this_machines_own() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert address_on("127.0.0.0/8") == "127.0.0.1"
    with pytest.raises(NetbootError, match="no address on") as raised:
        address_on("198.51.100.0/24")
    assert "netboot serve` takes another" in raised.value.hint  # an apply has no such option
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


def test_a_log_is_bounded_and_its_newest_lines_stay(tmp_path: Path) -> None:
    """A flood of requests is a flood of lines."""
    flood = "yes 'DHCPDISCOVER(eth0) 02:00:00:00:00:01 ignored' | head -c 9000000; echo the last line"
    with running(["sh", "-c", flood], tmp_path) as program:
        program.process.wait(60)
        program.log.join(60)
    logs = [tmp_path / "sh.log", tmp_path / "sh.log.1"]
    assert sum(log.stat().st_size for log in logs if log.exists()) < 3 << 20
    assert logs[0].read_text().endswith("the last line\n")


def served(place: Path, interface: str) -> Served:
    network = BootNetwork(interface, "127.0.0.1", "127.0.0.0/8", "http://127.0.0.1", str(place))
    boots = Boots(Records(place), {}, {}, "http://127.0.0.1", "image", 1, {})
    return Served(network, 1, boots, place, place, b"")


def test_a_second_server_of_a_cluster_or_an_interface_is_refused_before_it_writes(tmp_path: Path) -> None:
    """Two servers of dnsmasq on an interface would both get each request."""
    with alone(served(tmp_path / "metal", "lo")):
        for second in (served(tmp_path / "metal", "eth7"), served(tmp_path / "other", "lo")):
            with pytest.raises(HeldError, match=f"by .*, process {os.getpid()}, since "), serving(second):
                pass
            assert not second.place.exists()
        with alone(served(tmp_path / "other", "eth7")):
            pass
    with alone(served(tmp_path / "metal", "lo")):
        pass


KILLED = """
import os, signal
from pathlib import Path
from hpcforge.metal.netboot.services import running, unprivileged
place = Path({place!r})
with running(["sleep", "300"], place, unprivileged(place)) as program:
    print(program.process.pid, flush=True)
    input()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_dnsmasq_is_no_root_and_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED.format(place=str(tmp_path))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        until = time.monotonic() + 30
        while (status := state(pid))["Name"] != "sleep":
            assert time.monotonic() < until
            time.sleep(0.01)
        assert "0" not in status["Uid"].split() and status["NoNewPrivs"] == "1"
        assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 1 << 12 | 1 << 10  # capabilities(7)
        server.kill()
    while Path(f"/proc/{pid}").exists() and not state(pid).get("State", "Z").startswith("Z"):
        assert time.monotonic() < until
        time.sleep(0.01)


def state(pid: int) -> dict[str, str]:
    """What proc(5) has of a process; nothing of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_a_server_that_ends_at_once_is_named() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    def check() -> None:
        if process.poll() is not None:
            raise NetbootError("nginx has ended: port taken")

    with pytest.raises(NetbootError, match="port taken"):
        started(check, 0.1)
