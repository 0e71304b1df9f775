"""The report on one GPU: judged on recordings of a real one, and rehearsed on CPUs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import gpu_report
from tools.gpu import judgements as judge
from tools.gpu import runs
from tools.gpu.parts import Part, command, parts
from tools.gpu.runs import Place, Process, Run

ROOT = Path(__file__).parents[3]
CARD = ROOT / "tests" / "fixtures" / "h200-2026-11-27"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed here")


def recorded(name: str, ranks: int, code: int | None = 0) -> Run:
    """A part as it ran on the card: each rank with its events, those without a rank on rank 0."""
    outputs = ["" for _ in range(ranks)]
    for line in (CARD / name).read_text().splitlines():
        outputs[json.loads(line).get("rank", 0)] += f"{line}\n"
    return Run((code,) * ranks, tuple(outputs), ("",) * ranks, (9.0,) * ranks, 9.0)


def faulty(name: str) -> Run:
    """Four ranks of a fault; the recordings have both streams."""
    texts = [(CARD / "faults" / f"{name}.rank{rank}.txt").read_text() for rank in range(4)]
    return Run((None,) * 4, tuple(texts), ("",) * 4, (50.0,) * 4, 50.0)


@pytest.mark.parametrize(
    ("run", "judged", "broken"),
    [
        (recorded("four/train_ddp.jsonl", 4), judge.over_nccl, ""),
        (recorded("four/allreduce.jsonl", 4), judge.over_nccl, ""),
        (recorded("four/train_parallel4.jsonl", 4), judge.modes, ""),
        (recorded("eight/train_3d.jsonl", 8), judge.errors_below(1e-5), ""),
        (recorded("four/checkpoint2load.jsonl", 2), judge.errors_below(1e-5), ""),
        (recorded("four/gemm.jsonl", 4), judge.well, ""),
        (recorded("one/gemm.jsonl", 1), judge.same_bits, ""),
        (recorded("faults/wrong_gemm4.jsonl", 4, 3), judge.names_wrong(2), ""),
        (recorded("faults/wrong_gemm4.jsonl", 4, 3), judge.names_wrong(1), "named: [2], wrong was rank 1"),
        (recorded("faults/wrong_ddp4.jsonl", 4, 3), judge.names_wrong(1), ""),
        (recorded("faults/lost_parallel4.jsonl", 4, 3), judge.is_found, ""),
        (recorded("four/train_ddp.jsonl", 4), judge.is_found, "nothing was found wrong"),
        (recorded("one/allreduce.jsonl", 1), judge.nothing_moved, "a bandwidth of one rank"),
        (recorded("four/allreduce.jsonl", 4, 1), judge.well, "process 0: exit code 1"),
        (faulty("hang"), judge.waited(1, 12, dies=False), "ranks [0, 2, 3] said nothing"),
        (faulty("die"), judge.waited(2, 15, dies=True), "ranks [0, 3] said nothing"),
    ],
)
def test_what_the_card_showed_is_judged(run: Run, judged: Callable[[Run, judge.Judgement], None], broken: str) -> None:
    seen = judge.Judgement()
    judged(run, seen)
    assert bool(seen.broken) == bool(broken), seen.broken
    assert broken in "; ".join(seen.broken)


def test_the_numbers_of_the_card_are_those_of_the_recording() -> None:
    seen = judge.Judgement()
    judge.same_bits(recorded("one/gemm.jsonl", 1), seen)
    assert seen.numbers["bfloat16_tflop_per_s"] == pytest.approx(730.5, abs=0.1)
    assert seen.numbers["float32_tflop_per_s"] == pytest.approx(50.9, abs=0.1)


@pytest.mark.parametrize(("fact", "value"), [("", None), ("memory_mib", 1), ("ecc", False), ("uuid", "GPU-0")])
def test_the_reader_is_compared_with_nvidia_smi(fact: str, value: object) -> None:
    answer = json.loads((CARD / "nvml.json").read_text())
    if fact:
        answer["gpus"][0][fact] = value
    run = Run((0, 0), (json.dumps(answer), (CARD / "nvidia-smi.xml").read_text()), ("", ""), (1.0, 1.0), 1.0)
    seen = judge.Judgement()
    judge.as_nvidia_smi(run, seen)
    assert [text.partition(":")[0] for text in seen.broken] == [fact] * bool(fact)


def test_warnings_that_a_gpu_gives_break_a_claim() -> None:
    run = recorded("four/train_ddp.jsonl", 4)
    warning = "[rank0]: Guessing device ID; specify device_id in init_process_group()"
    warned = Run(run.codes, run.outputs, (warning, "", "", ""), run.ended_s, run.seconds)
    seen = judge.Judgement()
    judge.well(warned, seen)
    assert "PyTorch warns" in seen.broken[0]


def report(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.gpu_report", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@needs_torch
def test_a_rehearsal_writes_three_files(tmp_path: Path) -> None:
    ran = report("--out", str(tmp_path / "out"), "--cpu", "--only", "allreduce_alone", TMPDIR=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["raw.tar.gz", "report.json", "report.txt"]
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [(each["name"], each["verdict"]) for each in told["parts"]] == [("allreduce_alone", "holds")]
    assert (told["finished"], told["result"]) == (True, "1 holds")
    assert "rehearsal on CPUs" in told["card"]
    with tarfile.open(tmp_path / "out" / "raw.tar.gz") as archive:
        assert "raw/allreduce_alone/0.out" in archive.getnames()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]  # no scratch folder stays


@needs_torch
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    ran = report("--out", str(tmp_path / "out"), CUDA_VISIBLE_DEVICES="")
    assert (ran.returncode, (tmp_path / "out").exists()) == (gpu_report.NO_GPU, False)
    assert "--cpu" in ran.stderr


@needs_torch
@pytest.mark.parametrize("smi", ["printf '\\377\\376'", "exit 3", "exec sleep 1000"])
def test_an_nvidia_smi_that_does_not_answer_stops_nothing(
    smi: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(runs, "_SMI_S", 0.5)
    monkeypatch.setattr(runs.Smi, "answers", True)
    assert runs.temperature_c() is None
    assert runs.Smi.answers == smi.startswith("printf")


@needs_torch
def test_a_folder_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = report("--out", str(tmp_path / "file"), "--cpu", "--only", "allreduce_alone", TMPDIR=str(tmp_path))
    assert (ran.returncode, ran.stderr.count("\n")) == (gpu_report.USAGE, 1)
    assert "name a folder" in ran.stderr


@needs_torch
def test_ranks_of_a_report_that_is_killed_are_ended(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.gpu_report", "--out", str(tmp_path / "out"), "--cpu", "--only", "burn_in"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not (ranks := _mentions(tmp_path, b"burn_in.py")):
        assert time.monotonic() < until
        time.sleep(0.1)
    process.kill()
    process.wait()
    while _mentions(tmp_path, b"burn_in.py"):
        assert time.monotonic() < until, ranks
        time.sleep(0.1)
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (told["finished"], told["parts"][0]["verdict"]) == (False, "pending")


def _mentions(folder: Path, program: bytes) -> list[str]:
    lines = {path.parent.name: _read(path) for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [number for number, line in lines.items() if program in line and str(folder).encode() in line]


@pytest.mark.parametrize("words", [[], ["--out", "x", "--only", "no_such_part"], ["--out", "x", "--cpu", "--fast"]])
def test_wrong_use_is_refused(words: list[str]) -> None:
    ran = report(*words)
    assert ran.returncode == gpu_report.USAGE
    assert not (ROOT / "x").exists()


def part(name: str, words: tuple[str, ...], limit_s: float = 20) -> Part:
    def judged(run: Run, seen: judge.Judgement) -> None:
        seen.claim(run.codes == (0,), f"exit code {run.codes[0]}")

    return Part(name, "it ends well", command(*words), judged, limit_s)


def taken(tmp_path: Path, *selected: Part) -> tuple[int, dict[str, tuple[str, str]]]:
    (tmp_path / "out").mkdir()
    options = argparse.Namespace(out=tmp_path / "out", cpu=True, quick=False)
    code = gpu_report.report(selected, options, tmp_path)
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    return code, {each["name"]: (each["verdict"], each["why"]) for each in told["parts"]}


@needs_torch
def test_a_broken_claim_and_a_part_without_its_program(tmp_path: Path) -> None:
    absent = Part("absent", "it is there", command("no-such-program"), judge.well, 1, absent=lambda: "no program")
    code, told = taken(tmp_path, part("right", ("true",)), absent, part("wrong", ("false",)))
    assert (code, told) == (
        gpu_report.BROKEN,
        {"right": ("holds", ""), "absent": ("not run", "no program"), "wrong": ("broken", "exit code 1")},
    )


@needs_torch
def test_a_part_that_is_late_or_too_hot_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, told = taken(tmp_path, part("late", ("sleep", "1000"), 0.5))
    assert (code, told["late"]) == (gpu_report.BROKEN, ("broken", "exit code None"))
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!/bin/sh\necho {runs.HOTTEST_C - 40}\necho {runs.HOTTEST_C + 1}\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    done = runs.run([Process(("sleep", "1000"))], tmp_path / "hot", 100)
    assert (done.stopped, done.codes) == (f"ended at {runs.HOTTEST_C + 1} C", (None,))


@needs_torch
def test_a_run_that_is_killed_keeps_what_it_had(tmp_path: Path) -> None:
    words = ["--out", str(tmp_path / "out"), "--cpu", "--only", "allreduce_alone", "--only", "burn_in"]
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.gpu_report", *words],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    while not process.stdout.readline().startswith("holds"):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert not list(tmp_path.glob("gpu-report-*"))
    burning = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(path)]
    assert not burning
    told = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [(each["name"], each["verdict"]) for each in told["parts"]] == [
        ("allreduce_alone", "holds"),
        ("burn_in", "not run"),
    ]
    assert not told["finished"]
    assert process.returncode == gpu_report.STOPPED


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has just ended
        return b""


def test_every_part_has_a_name_of_its_own_and_fits_its_time() -> None:
    for gpu in (False, True):
        every = list(parts(gpu))
        assert len({each.name for each in every}) == len(every)
        place = Place(Path("/nonexistent"), gpu)
        assert place.node(3, 4)["NCCL_HOSTID"] == "n3"
        assert sum(each.quick for each in every) >= 5
