"""One round of measurements, as the program takes it."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.said import end_of

pytest.importorskip("torch")
PROGRAM = Path(__file__).parents[3] / "smoke_tests" / "pairs" / "pairs.py"
NODES = "--nodes=w1=127.0.0.1,w2=127.0.0.1,w3=127.0.0.1"


def start(name: str, port: int, *words: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "SLURMD_NODENAME": name,
        "SLURM_LOCALID": "0",
        "PYTHONPATH": f"{os.environ.get('BEFORE', '')}:{PROGRAM.parents[1]}",
    }
    argv = [sys.executable, str(PROGRAM), "--json", NODES, f"--port={port}", "--seconds=0.1", *words]
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[dict[str, object]]:
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, end_of(error) + out
    return [json.loads(line) for line in out.splitlines()]


def test_a_node_alone_then_pairs_in_turn_one_of_them_without_an_answer(free_port: int) -> None:
    words = ("--alone=w1", "--pairs=w1:w2,w1:w3", "--timeout=15")
    first, second = (start(name, free_port, *words) for name in ("w1", "w2"))
    events = said(first)
    measured = [event["of"] for event in events if event["event"] == "measurement"]
    both = {"node": "w1", "peer": "w2", "rail": 0}
    assert measured == [{"node": "w1"}, {**both, "direction": "out"}, {**both, "direction": "in"}]
    (last,) = (event for event in events if "round_trip_ms" in event)
    assert last["of"] == {**both, "direction": "in"}
    assert 0 < float(str(last["shortest_round_trip_ms"])) <= float(str(last["round_trip_ms"]))
    kinds = ("retransmits", "duplicates", "reorders")
    assert all(isinstance(last[f"{kind}_per_1000_segments"], float) for kind in kinds)
    assert int(str(last["tcp_segments"])) > 1
    assert [event["of"] for event in events if event["event"] == "silent"] == [{**both, "peer": "w3"}]
    assert [event["event"] for event in said(second)] == ["result"]


# Of /proc/net/snmp and /proc/net/netstat, shortened; the names and their order are those of Linux 5.15 and 6.18.
TABLES = """\
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 900
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn InSegs OutSegs RetransSegs InErrs
Tcp: 1 200 120000 -1 5000 4000 11 0
Udp: InDatagrams OutSegs
Udp: 7 99
TcpExt: TCPSACKReorder TCPRenoReorder TCPTSReorder TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPOFOQueue
TcpExt: 3 1 2 20 4 17 8
IpExt: InNoRoutes InOctets
IpExt: 0 1
"""


@pytest.fixture(scope="module")
def program() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROGRAM.parents[1]))
        spec = importlib.util.spec_from_file_location("pairs_program", PROGRAM)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "pairs_program", module)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tables", "counts"),
    [
        (TABLES, [4000, 11, 24, 6]),
        (TABLES.replace("TCPRenoReorder", "Other"), [4000, 11, 24, 5]),  # a kernel without one of them
        ("Tcp: OutSegs\n", [0, 0, 0, 0]),
        ("", [0, 0, 0, 0]),
    ],
)
def test_counters_of_tcp_are_read_by_name(tables: str, counts: list[int], program: ModuleType) -> None:
    assert program.tcp_counts(tables) == counts


def test_counters_count_only_where_tcp_carried_the_data(program: ModuleType) -> None:
    assert program.tcp_shares([4000, 8, 20, 6], 1448 * 4000) == {
        "tcp_segments": 4000,
        "retransmits_per_1000_segments": 2.0,
        "duplicates_per_1000_segments": 5.0,
        "reorders_per_1000_segments": 1.5,
    }
    assert program.tcp_shares([4000, 8, 20, 6], 1 << 30) == {}  # it went by InfiniBand
    assert program.tcp_shares([0, 0, 0, 0], 1 << 20) == {}


# As NCCL where the partner is gone and no limit holds: a receive neither raises nor returns.
NEVER_RETURNS = """
import ctypes
import torch.distributed as dist
class Never:
    def wait(self):
        while True:
            ctypes.CDLL(None).pause()
dist.ProcessGroupGloo.recv = lambda *_: Never()
"""


def test_a_pair_whose_transfer_never_returns_is_silent_in_time(
    free_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(NEVER_RETURNS)
    monkeypatch.setenv("BEFORE", str(tmp_path))
    ends = [start(name, free_port, "--pairs=w1:w2", "--timeout=8") for name in ("w1", "w2")]
    ended = {}
    for process in ends:
        out, _ = process.communicate(timeout=300)
        ended[process.returncode] = [json.loads(text) for text in out.splitlines()]
    assert -signal.SIGALRM in ended  # both, or the other end sees that the connection is closed
    (event,) = ended[-signal.SIGALRM]
    assert (event["event"], event["of"]) == ("silent", {"node": "w1", "peer": "w2", "rail": 0})
    assert event["error"] == "timed out after 10 s, and did not return"
    assert "pairs.py:" in event["place"]


def test_a_node_without_a_part_in_a_round_is_done_at_once(free_port: int) -> None:
    assert [event["event"] for event in said(start("w3", free_port, "--pairs=w1:w2"))] == ["result"]


@pytest.mark.parametrize("words", ["--pairs=w1:w9", "--alone=$(id)", "--pairs=w1:w1"])
def test_a_round_of_unknown_nodes_is_refused(words: str, free_port: int) -> None:
    process = start("w1", free_port, words)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert json.loads(out)["event"] == "failed"


@pytest.fixture
def free_port() -> int:
    import socket  # noqa: PLC0415

    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
