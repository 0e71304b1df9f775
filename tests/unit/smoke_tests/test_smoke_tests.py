"""The smoke tests under a real torchrun: two ranks on this machine, right, wrong, and dying."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpcforge.verify.submit import RUN_WITHOUT_LIBUV
from tests.unit.verify.conftest import shipped_program

SMOKE_TESTS = Path(__file__).parents[3] / "smoke_tests"
PROGRAMS = {path.stem: path for pattern in ("*.py", "*/*.py") for path in SMOKE_TESTS.glob(pattern)}
FOLDERS = ":".join(sorted({str(path.parent) for path in PROGRAMS.values()}))  # on a node it is one
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


# torchrun ends the ranks that are left when it sees that one has ended: these end by themselves, however late.
ENDS_BY_ITSELF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def torchrun(test: str, *arguments: str, before: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A test under torchrun; `before`: a folder whose sitecustomize.py every rank begins with."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command.append("--monitor_interval=2")  # both ranks have ended by then, most often
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:Failed to initialize NumPy"}
    environment["PYTHONPATH"] = f"{before}:{FOLDERS}" if before else FOLDERS
    environment.pop("SLURMD_NODENAME", None)
    return subprocess.run(
        [*command, str(PROGRAMS[test]), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def events(ran: subprocess.CompletedProcess[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in ran.stdout.splitlines():
        event = json.loads(line)
        found.setdefault(event["event"], []).append(event)
    return found


def python(code: str) -> str:
    command = [sys.executable, "-W", "ignore:Failed to initialize NumPy", "-c", code]
    environment = {**os.environ, "PYTHONPATH": FOLDERS}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=180).stdout


# What Debian 13's torch does: it is built without libuv, and every store that asks for it is refused.
WITHOUT_LIBUV = """
import sys
import torch.distributed as dist
real = dist.TCPStore
def TCPStore(*arguments, use_libuv=True, **options):
    if use_libuv:
        raise RuntimeError("use_libuv was requested but PyTorch was build without libuv support")
    return real(*arguments, use_libuv=False, **options)
for module in list(sys.modules.values()):
    if getattr(module, "TCPStore", None) is real:
        module.TCPStore = TCPStore
"""


@needs_torch
def test_a_torch_without_libuv_is_launched_and_joined(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_LIBUV)
    words = ["--nnodes=1", "--nproc_per_node=2", "--rdzv_backend=static", "--node_rank=0", "--rdzv_id=1"]
    words += ["--master_addr=127.0.0.1", f"--master_port={29000 + os.getpid() % 1000}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0", "PYTHONPATH": f"{tmp_path}:{FOLDERS}"}
    environment["PYTHONWARNINGS"] = "ignore:Failed to initialize NumPy"
    environment.pop("SLURMD_NODENAME", None)
    test = [str(PROGRAMS["allreduce"]), "--json", "--sizes-kib", "4", "--repeats", "1"]

    def run(*launcher: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *launcher, *words, *test]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)

    assert "without libuv support" in run("-m", "torch.distributed.run").stderr
    assert events(run("-c", RUN_WITHOUT_LIBUV))["result"][0]["world_size"] == 2


@pytest.mark.parametrize("path", sorted(PROGRAMS.values()), ids=lambda path: path.name)
def test_python_3_9_can_read_it(path: Path) -> None:
    assert ast.parse(path.read_text(), feature_version=(3, 9)).body


@needs_torch
def test_allreduce_reports_every_size() -> None:
    said = events(torchrun("allreduce", "--json", "--sizes-kib", "4,1024", "--repeats", "3"))
    assert sorted(event["rank"] for event in said["started"]) == [0, 1]
    assert [event["size_bytes"] for event in said["measurement"]] == [4096, 1 << 20]
    for event in said["measurement"]:
        assert event["busbw_gb_per_s"] == event["algbw_gb_per_s"]  # 2(n - 1)/n is 1 for two ranks
        assert event["seconds"] > 0
        assert event["algbw_gb_per_s"] == pytest.approx(event["size_bytes"] / event["seconds"] / 1e9, abs=1e-4)
    (result,) = said["result"]
    assert (result["schema_version"], result["test"], result["world_size"]) == (1, "allreduce", 2)
    assert result["backend"] in ("gloo", "nccl")
    assert len(result["hosts"]) == 1
    assert Path(result["torch_path"]).name == "torch"
    if result["backend"] == "gloo":  # torchrun --standalone meets at localhost
        assert {(*event["used"], *event["interfaces"]) for event in said["transport"]} == {("127.0.0.1", "lo")}


@needs_torch
def test_training_agrees_with_the_reference_and_learns() -> None:
    ran = torchrun("train_ddp", "--json", "--steps", "10")
    assert ran.returncode == 0, ran.stderr
    said = events(ran)
    (measured,) = said["measurement"]
    assert 0 < measured["error_max"] < measured["tolerance"] / 10  # the allowance is wide, the method is not
    assert measured["tolerance"] < 1e-3
    assert measured["loss_last"] < measured["loss_first"] / 2
    assert measured["samples_per_s"] > 0
    assert said["result"][0]["test"] == "train_ddp"


@needs_torch
@pytest.mark.parametrize("test", ["allreduce", "train_ddp"])
def test_alone_it_does_what_a_silent_blueprint_asks_for(test: str) -> None:
    """What test.yaml says of its options and what the program says of them is one thing."""
    told = [f"--{name.replace('_', '-')}={text}" for name, text in shipped_program(test).options]
    assert told
    code = f"import {test} as one; print(one.parser().parse_args({told!r}) == one.parser().parse_args([]))"
    assert python(code) == "True\n"


@needs_torch
def test_several_take_turns_in_the_same_ranks() -> None:
    ran = torchrun(
        "in_turn", "allreduce", "--json", "--sizes-kib", "4", "--next", "train_ddp", "--json", "--steps", "10"
    )
    assert ran.returncode == 0, ran.stderr
    said = events(ran)
    assert [event["test"] for event in said["result"]] == ["allreduce", "train_ddp"]
    assert [event["test"] for event in said["measurement"]] == ["allreduce", "train_ddp"]
    started = [(event["test"], event["rank"]) for event in said["started"]]
    assert sorted(started) == [("allreduce", 0), ("allreduce", 1), ("train_ddp", 0), ("train_ddp", 1)]


@needs_torch
@pytest.mark.parametrize(
    ("first", "event", "exitcode"),
    [
        (["allreduce", "--sizes-kib", "4", "--inject", "wrong:1"], "wrong", 3),
        (["allreduce", "--no-such-option"], "failed", 1),
        (["no_such_test"], "failed", 1),
        (["allreduce", "--sizes-kib", "4", "--repeats", "100000000", "--limit-s", "1"], "overdue", -14),
    ],
)
def test_the_first_that_is_not_right_is_the_last(first: list[str], event: str, exitcode: int) -> None:
    ran = torchrun("in_turn", *first, "--json", "--next", "train_ddp", "--json")
    said = events(ran)
    assert {one["test"] for one in said[event]} == {first[0]}
    assert "result" not in said
    assert {one["test"] for one in said["started"]} == {first[0]}
    assert f"exitcode  : {exitcode} " in ran.stderr


@needs_torch
def test_for_people_it_is_text() -> None:
    ran = torchrun("allreduce", "--sizes-kib", "4", "--repeats", "1")
    assert "busbw" in ran.stdout
    assert "4 KiB" in ran.stdout
    assert "every sum is exact" in ran.stdout
    assert "{" not in ran.stdout


@needs_torch
@pytest.mark.parametrize("test", ["allreduce", "train_ddp"])
def test_a_wrong_rank_names_itself(test: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ENDS_BY_ITSELF)
    ran = torchrun(test, "--json", "--inject", "wrong:1", before=tmp_path)
    said = events(ran)
    (wrong,) = said["wrong"]
    assert wrong["rank"] == 1
    assert wrong["expected"] != wrong["got"]
    assert "result" not in said
    assert "failed" not in said
    assert ran.returncode != 0
    assert ran.stderr.count("exitcode  : 3 ") == 2  # WRONG, on both ranks: none is left waiting


@needs_torch
@pytest.mark.parametrize(("kind", "own"), [("die", []), ("raise", [1])])
def test_a_rank_that_ends_is_told_from_one_that_waited(kind: str, own: list[int]) -> None:
    ran = torchrun("allreduce", "--json", "--inject", f"{kind}:1")
    said = events(ran)
    failed = said.get("failed", [])  # the rank that waited may be ended by torchrun before it can speak
    assert [event["rank"] for event in failed if event["during"] == "own"] == own
    assert {event["rank"] for event in failed if event["during"] == "collective"} <= {0}
    assert "result" not in said
    assert ran.returncode != 0
    assert ("SIGKILL" in ran.stderr) == (kind == "die")


@needs_torch
def test_outside_of_torchrun_it_says_how_to_start_it() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    environment["PYTHONPATH"] = FOLDERS
    command = [sys.executable, str(PROGRAMS["allreduce"])]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
    assert ran.returncode == 2
    assert "torchrun --standalone" in ran.stderr


@needs_torch
def test_sums_are_exact_for_any_number_of_ranks() -> None:
    """The bound for every number; and, for some, float32 adds the largest values in three orders and as a tree."""
    code = """
import allreduce, torch
for n in range(1, 5792):
    m = allreduce.distinct(n)
    assert 2 <= m <= 251 and n * (n + 1) // 2 + n * (m - 1) <= 2**24, n
    assert (m == 251) == (n <= 5547), n
for n in (2, 7, 1000, 5547, 5791):
    each = torch.arange(1, n + 1, dtype=torch.float32) + (allreduce.distinct(n) - 1)
    expected = n * (n + 1) // 2 + n * (allreduce.distinct(n) - 1)
    for order in (each, each.flip(0), each[torch.randperm(n)]):
        total = torch.zeros(())
        for one in order:
            total = total + one
        assert float(total) == expected, n
        assert float(order.sum()) == expected, n
try:
    allreduce.distinct(5792)
except ValueError as error:
    print(error)
"""
    assert "fewer than 5792 ranks" in python(code)


# Each fault leaves the values that it moves as they were: only where they are is wrong.
FAULTS = {
    "exchanged quarters": "exchange(result[:quarter], result[quarter:half])",
    "shifted by 16 KiB": "result.copy_(result.roll(4096))",
    "shifted by 251 elements": "result.copy_(result.roll(251))",
    "two pages exchanged": "exchange(result[1024:2048], result[5120:6144])",
}
MOVED = """
import torch, torch.distributed as dist
real = dist.all_reduce
def exchange(one, other):
    kept = one.clone()
    one.copy_(other)
    other.copy_(kept)
def all_reduce(result, *arguments, **options):
    done = real(result, *arguments, **options)
    if result.dtype == torch.float32:
        half = result.numel() // 2
        quarter = half // 2
        {fault}
    return done
dist.all_reduce = all_reduce
"""


@needs_torch
@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_sum_has_in_the_wrong_place_is_wrong(fault: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ENDS_BY_ITSELF + MOVED.replace("{fault}", FAULTS[fault]))
    ran = torchrun("allreduce", "--json", "--sizes-kib", "4096", "--repeats", "1", before=tmp_path)
    said = events(ran)
    assert {one["rank"] for one in said["wrong"]} == {0, 1}
    assert "result" not in said
    assert ran.returncode != 0


# Rank 1 reports its transport when rank 0 is gone, and their connection with it.
LATE = """
import os, time
if os.environ.get("RANK") == "1":
    import ranks
    report = ranks.say_transport
    def late(job):
        while ranks._own_addresses():
            time.sleep(0.05)
        report(job)
    ranks.say_transport = late
"""


@needs_torch
def test_a_rank_that_is_done_last_knows_its_transport_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LATE)
    said = events(torchrun("allreduce", "--json", "--sizes-kib", "4", before=tmp_path))
    if said["result"][0]["backend"] == "gloo":
        assert sorted(event["rank"] for event in said["transport"] if event["used"] == ["127.0.0.1"]) == [0, 1]


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B004D0A:A1B2 0C004D0A:C3D4 01 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 0100007F:A1B2 0100007F:7530 01 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 0100007F:A1B2 0100007F:C3D4 01 00000000:00000000 00:00000000 00000000     0        0 99 1
   3: 0100007F:A1B2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   4: 0000000000000000FFFF00000D004D0A:A1B2 0000000000000000FFFF00000C004D0A:C3D4 01 0:0 0:0 0 0 0 11 1
"""
LOG = """\
w1:7:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
w1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
w1:7:9 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
w1:7:9 [0] NCCL INFO Connected NVLS tree
"""
# As of the ranks of four nodes over Ethernet or loopback; such ranks of an H200 reported NET/Socket/0 (2026-11-27).
SOCKET_LOG = """\
n1:7:9 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
n1:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0
n1:7:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 2[0] [send] via NET/Socket/0
n1:7:9 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
"""


@needs_torch
def test_the_transport_is_read_from_the_kernel_and_from_the_log() -> None:
    told = json.loads(
        python(
            f"import json, ranks; print(json.dumps([ranks.connected_addresses({TCP!r}, {{'11', '12'}}, 30000), "
            f"ranks.nccl_transports({LOG!r}), ranks.nccl_transports({SOCKET_LOG!r}), ranks.nccl_transports('')]))"
        )
    )
    # Not: connections to the store at 30000, of other processes, and sockets that listen.
    assert told == [["10.77.0.11", "10.77.0.13"], ["NET/IB/0/GDRDMA", "NVLS", "P2P/CUMEM"], ["NET/Socket/0"], []]


@needs_torch
def test_the_interface_is_the_one_that_reaches_the_address() -> None:
    assert python("import ranks; print(ranks.interface_towards('127.0.1.1'))") == "lo\n"
    assert python("import ranks; print(ranks.interface_towards('::1'))") == "None\n"  # not an IPv4 address
