"""The tests that measure devices, collectives and storage, under a real torchrun: right, and with injected faults."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.smoke_tests.test_smoke_tests import ENDS_BY_ITSELF, FOLDERS, PROGRAMS, events, python
from tests.unit.verify.conftest import shipped_program

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")
Run = subprocess.CompletedProcess[str]


def torchrun(ranks: int, program: Path, *arguments: str, before: Path | None = None) -> Run:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore:Failed to initialize NumPy"}
    environment["PYTHONPATH"] = f"{before}:{FOLDERS}" if before else FOLDERS
    environment.pop("SLURMD_NODENAME", None)
    return subprocess.run(
        [*command, "--monitor_interval=1", str(program), *arguments],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def of_rank(said: dict[str, list[dict[str, Any]]], test: str, measure: str) -> dict[int, float]:
    return {
        event["rank"]: event[measure]
        for event in said["measurement"]
        if event["test"] == test and measure in event and "rank" in event
    }


@needs_torch
def test_a_slow_rank_and_a_flipped_bit_are_named(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ENDS_BY_ITSELF)
    asked = [
        *("straggler", "--json", "--inject=wrong:1", "--steps=6", "--next", "host_device", "--json", "--size-mib=1"),
        *("--next", "collectives", "--json", "--sizes-kib=4,64", "--repeats=1"),
        *("--next", "gemm", "--json", "--inject=wrong:1", "--seconds=0.1", "--size=256"),
    ]
    ran = torchrun(3, PROGRAMS["in_turn"], *asked, before=tmp_path)
    said = events(ran)
    assert [event["test"] for event in said["result"]] == ["straggler", "host_device", "collectives"], ran.stderr
    of_median = of_rank(said, "straggler", "of_median")
    assert max(of_median, key=lambda rank: of_median[rank]) == 1
    assert of_median[1] > 1.1
    assert set(of_rank(said, "host_device", "to_gpu_gb_per_s")) == {0, 1, 2}
    (wrong,) = said["wrong"]
    assert (wrong["test"], wrong["rank"]) == ("gemm", 1)
    assert wrong["where"].startswith("checksum of product 1 on the CPU, float32 (1 of ")


@needs_torch
def test_products_agree_and_an_exchanged_part_of_a_collective_is_found(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(ENDS_BY_ITSELF)
    asked = ["gemm", "--json", "--seconds=0.1", "--size=256", "--dtypes=float32,bfloat16", "--next", "collectives"]
    ran = torchrun(2, PROGRAMS["in_turn"], *asked, "--json", "--sizes-kib=64", "--inject=wrong:1", before=tmp_path)
    said = events(ran)
    assert [event["test"] for event in said["result"]] == ["gemm"], ran.stderr
    rates = of_rank(said, "gemm", "tflop_per_s")
    assert set(rates) == {0, 1}
    assert all(rate > 0 for rate in rates.values())
    assert [event["dtype"] for event in said["measurement"]] == ["float32", "float32", "bfloat16", "bfloat16"]
    (wrong,) = said["wrong"]
    assert (wrong["test"], wrong["rank"]) == ("collectives", 1)
    assert "of all_reduce of 65536 bytes across all" in wrong["where"]


@needs_torch
def test_any_flipped_bit_changes_the_checksum_and_most_devices_of_a_make_are_right() -> None:
    code = """
import torch
from products import checksum, expected, place_factors
size, factors = 64, place_factors(64, torch.device("cpu"))
for dtype, bits, view in ((torch.float32, 32, torch.int32), (torch.bfloat16, 16, torch.int16)):
    matrix = torch.rand(size, size).to(dtype)
    right = checksum(matrix, factors)
    for bit in range(bits):
        for place in (0, 17, size * size - 1):
            flipped = matrix.clone()
            flipped.view(view).flatten()[place] ^= (1 << bit) - (1 << bits if bit == bits - 1 else 0)
            assert checksum(flipped, factors) != right, (dtype, bit, place)
    exchanged = matrix.clone()
    exchanged[0], exchanged[1] = matrix[1], matrix[0]
    assert checksum(exchanged, factors) != right
assert expected([1, 1, 1, 2, 2], [5, 5, 6, 7, 7]) == [5, 5, 5, 7, 7]
assert expected([1, 1, 2], [5, 6, 7]) == [None, None, 7]
print(True)
"""
    assert python(code) == "True\n"


@needs_torch
def test_rails_are_the_ranks_of_a_number_on_each_node() -> None:
    """Every message of every operation, as the ranks of a group have it, fits together without a network."""
    code = """
import torch
from collectives import OPERATIONS, Group, table
values = table(torch.device("cpu"))[: 4 * 6]
for operation in OPERATIONS:
    of = [operation.message(Group("all", (0, 1, 2, 3), rank, None), values) for rank in range(4)]
    given, parts = torch.stack([m.given.repeat(4 if operation.name == "all_gather" else 1) for m in of]), None
    for rank, message in enumerate(of):
        part = slice(6 * rank, 6 * rank + 6)
        right = {
            "all_reduce": lambda: given.sum(0),
            "all_gather": lambda: torch.cat([m.given for m in of]),
            "reduce_scatter": lambda: given.sum(0)[part],
            "all_to_all": lambda: torch.cat([m.given[part] for m in of]),
            "broadcast": lambda: of[0].given,
        }[operation.name]()
        assert message.expected.equal(right), (operation.name, rank)
print(True)
"""
    assert python(code) == "True\n"


SHORT = ("--json", "--minutes=0.02")


@needs_torch
def test_a_burn_in_that_was_killed_continues_and_turns_work_one_after_the_other(tmp_path: Path) -> None:
    """Rank 1 is killed in the middle; then both ranks continue, each in a turn of its own."""
    state = tmp_path / "state"
    state.mkdir()
    for rank in range(2):
        (tmp_path / f"declared.{rank}").write_text(json.dumps({"turn": rank}))
    program = tmp_path / "each.py"  # as on nodes of their own, each rank has its file
    program.write_text(
        "import os, runpy, sys\n"
        f"sys.argv += ['--declared={tmp_path}/declared.' + os.environ['RANK']]\n"
        f"runpy.run_path({str(PROGRAMS['burn_in'])!r}, run_name='__main__')\n"
    )
    ran = torchrun(2, program, *SHORT, f"--scratch={state}", "--inject=die:1")
    assert "SIGKILL" in ran.stderr
    before = {rank: json.loads((state / f"burn_in.{rank}.json").read_text()) for rank in range(2)}
    assert [len(before[rank]["product_s"]) for rank in range(2)] == [8, 4]  # the first turn was done
    assert before[1]["of"] == {"ranks": 2, "slices": 8, "slice_s": 0.15, "turn": 1}
    ran = torchrun(2, program, *SHORT, f"--scratch={state}")
    said = events(ran)
    assert ran.returncode == 0, ran.stderr
    (measured,) = (event for event in said["measurement"] if "slices" in event)
    assert (measured["slices"], measured["resumed_after_slice"], measured["turns"]) == (8, 4, 2)
    assert set(of_rank(said, "burn_in", "slowdown")) == {0, 1}
    assert "result" in said
    assert list(state.iterdir()) == []


@needs_torch
def test_the_state_of_another_burn_in_is_not_continued(tmp_path: Path) -> None:
    code = f"""
import json
from pathlib import Path
from burn_in import State, kept
file, of = Path({str(tmp_path / "state.json")!r}), {{"ranks": 2, "slices": 8, "slice_s": 0.15, "turn": 0}}
assert kept(file, of) == State(of=of)
file.write_text(json.dumps(vars(State([1.0], [1.0], 3, 2, of))))
assert kept(file, of) == State([1.0], [1.0], 3, 2, of)
for name in of:
    other = {{**of, name: of[name] + 1}}
    assert kept(file, other) == State(of=other), name
file.write_text(json.dumps({{"product_s": [1.0], "step_s": [1.0], "products": 3, "steps": 2}}))
assert kept(file, of) == State(of=of)
print(True)
"""
    assert python(code) == "True\n"


@needs_torch
def test_a_gauge_that_would_measure_nothing_fails() -> None:
    code = """
from unittest.mock import MagicMock
import collectives, gemm, host_device, straggler
for gauge, words in (
    (collectives, ["--repeats=-1"]), (gemm, ["--size=-1"]), (straggler, ["--steps=0"]),
    (host_device, ["--repeats=0"]), (host_device, ["--size-mib=0"]),
):
    job = MagicMock(world_size=2)
    try:
        gauge.run(job, gauge.parser().parse_args(words))
    except RuntimeError as error:
        assert words[0].split("=")[0] in str(error), error
    else:
        raise AssertionError(words)
print(True)
"""
    assert python(code) == "True\n"


def storage(folder: Path, node: str, *arguments: str, mount: dict[str, Any] | None = None) -> tuple[int, list[Any]]:
    declared = folder.parent / "declared.json"
    declared.write_text(json.dumps({"mounts": [mount] if mount else []}))
    small = ("--json", f"--scratch={folder}", f"--declared={declared}", "--size-mib=2", "--files=20", "--samples=20")
    environment = {**os.environ, "SLURMD_NODENAME": node, "SLURM_JOB_NUM_NODES": "2"}
    command = [sys.executable, str(PROGRAMS["storage"]), *small, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ran.stderr == ""
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]


def test_files_of_one_node_are_read_on_another(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    shared = {"path": str(tmp_path), "shared": True, "read_gb_per_s": None, "write_gb_per_s": None}
    assert storage(folder, "w1", "--launch=write", mount=shared)[0] == 0
    code, said = storage(folder, "w1", "--launch=read", mount=shared)
    assert (code, said[0]["event"], said[0]["expected"]) == (3, "wrong", "2")  # w2 has not written
    code, (measured, result) = storage(folder, "w2", "--launch=write", mount=shared)
    assert (code, set(measured), result) == (
        0, {"event", "write_mb_per_s", "files_made_per_s"}, {"event": "result"}
    )  # fmt: skip
    assert len(list(folder.glob("*.small/*"))) == 40
    for node in ("w1", "w2"):
        code, (measured, _) = storage(folder, node, "--launch=read", mount=shared)
        assert code == 0
        assert all(measured[name] > 0 for name in ("read_mb_per_s", "random_mb_per_s", "files_read_per_s"))
    assert list(folder.glob("*.small/*")) == []  # read, and removed
    (folder / "w2.small").rmdir()
    assert storage(folder, "w2", "--launch=write", mount=shared)[0] == 0
    code, (wrong,) = storage(folder, "w1", "--launch=read", "--falsify", mount=shared)
    assert (code, wrong["event"]) == (3, "wrong")
    assert wrong["where"].startswith("byte 52428")
    assert wrong["where"].endswith("of MiB 0 of the file of w2")


def test_storage_without_room_for_all_nodes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    shared = {"path": str(tmp_path), "shared": True, "read_gb_per_s": None, "write_gb_per_s": None}
    for mount, told in (
        (shared, f"2 node(s) would write {2 * (2**30 + 1)} MiB"),
        (None, f"1 node(s) would write {2**30 + 1}"),
    ):
        code, (failed,) = storage(folder, "w1", "--launch=write", f"--size-mib={2**30}", mount=mount)
        assert (code, failed["event"]) == (1, "failed")
        assert failed["error"].startswith(told)
    assert list(folder.iterdir()) == []


def test_short_reads_and_writes_are_continued(tmp_path: Path) -> None:
    code = f"""
import io, sys
from pathlib import Path
import storage

class Short(io.FileIO):
    def readinto(self, room): return super().readinto(memoryview(room)[:300_001])
    def write(self, data): return super().write(memoryview(data)[:300_001])

whole = Path.open
Path.open = lambda path, mode="r", buffering=-1, **more: (
    Short(str(path), mode.replace("b", "")) if buffering == 0 else whole(path, mode, buffering, **more)
)
folder, content = Path({str(tmp_path)!r}), storage.Content("w1")
assert storage.write(folder, content, 3, 1)["write_mb_per_s"] > 0
data = folder / "w1.data"
assert data.stat().st_size == 3 << 20
assert storage.read_large(data, content, 3) > 0
with whole(data, "r+b") as file:
    file.truncate(1000)
try:
    storage.read_large(data, content, 3)
except storage.DifferentError as error:
    assert error.args[1:] == (3 << 20, 1000)
    print(True)
"""
    assert python(code) == "True\n"


def test_a_node_below_its_designed_share_of_storage_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    slow = {"path": str(tmp_path), "shared": True, "read_gb_per_s": 1e-6, "write_gb_per_s": 1e6}
    code, said = storage(folder, "w1", "--launch=write", mount=slow)
    assert (code, [event["event"] for event in said]) == (3, ["measurement", "assertion", "wrong"])
    assert said[1]["error"] > said[1]["tolerance"] == pytest.approx(0.2)
    assert said[2]["where"] == "write rate, MB/s"


def test_storage_of_a_node_alone_is_read_there(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    assert storage(folder, "w1", "--launch=write")[0] == 0
    assert storage(folder, "w1", "--launch=read")[0] == 0


@needs_torch
def test_programs_know_the_options_that_a_blueprint_may_choose() -> None:
    code = "import importlib\n"
    for test in ("gemm", "straggler", "collectives", "host_device", "burn_in"):
        told = [f"--{name.replace('_', '-')}={text}" for name, text in shipped_program(test).options]
        code += f"importlib.import_module({test!r}).parser().parse_args({told!r})\n"
    assert python(f"{code}print(True)") == "True\n"
