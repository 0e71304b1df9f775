from __future__ import annotations

import json

import pytest

from hpcforge.verify.verdicts import Verdict, dump, load, summary_line

PASSED = Verdict(
    test="allreduce",
    status="passed",
    nodes=("w01", "w02", "w03"),
    ranks=6,
    measurements=({"size_bytes": 4096, "busbw_gb_per_s": 0.01}, {"size_bytes": 1 << 24, "busbw_gb_per_s": 1.2345}),
    backend="gloo",
    device="cpu",
    torch_build="2.13.0+cpu from wheel",
    seconds=12.5,
)
TRAINED = Verdict(
    test="train_ddp",
    status="passed",
    nodes=("g1",),
    ranks=8,
    measurements=({"samples_per_s": 9411.4, "loss_first": 0.4174, "loss_last": 0.0605},),
    backend="nccl",
    device="NVIDIA H200",
    torch_build="2.13.0+cu130 from wheel",
)
FAILED = Verdict(
    test="allreduce",
    status="timed_out",
    nodes=("w01", "w02"),
    left_out={"w03": "unreachable", "w04": "unreachable", "w05": "drained"},
    rank=3,
    node="w02",
    detail="did not answer",
)


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (
            PASSED,
            "allreduce  passed  6 ranks on w[01-03]  busbw 1.23 GB/s at 16 MiB  "
            "(gloo, CPU; torch 2.13.0+cpu from wheel)",
        ),
        (
            TRAINED,
            "train_ddp  passed  8 ranks on g1  9,411 samples/s, loss 0.417 -> 0.0605  "
            "(nccl, NVIDIA H200; torch 2.13.0+cu130 from wheel)",
        ),
        (
            FAILED,
            "allreduce  timed out  rank 3 on w02: did not answer  left out: w[03-04] (unreachable), w05 (drained)",
        ),
        (Verdict("allreduce", "not_run", (), detail="why"), "allreduce  not run  no node: why"),
    ],
)
def test_summary_line(verdict: Verdict, line: str) -> None:
    assert summary_line(verdict) == line


def test_what_was_dumped_is_loaded() -> None:
    recorded = load(dump((PASSED, TRAINED, FAILED), time_s=1000.5))
    assert recorded.problem is None
    assert (recorded.verdicts, recorded.time_s) == ((PASSED, TRAINED, FAILED), 1000.5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"schema_version": 1}',
        '{"schema_version": 1, "time_s": "x", "verdicts": []}',
        '{"schema_version": 1, "time_s": 1, "verdicts": [{"test": "allreduce"}]}',
        '{"schema_version": 1, "time_s": 1, "verdicts": [{"test": "a", "status": "great", "nodes": []}]}',
        "\x00\x01",
        "[" * 100_000,
    ],
)
def test_damaged_text_is_said_to_be_damaged(text: str) -> None:
    recorded = load(text)
    assert recorded.verdicts == ()
    assert recorded.problem
    assert recorded.problem.startswith("damaged")


def test_a_newer_version_is_told() -> None:
    text = json.dumps({"schema_version": 2, "time_s": 1, "verdicts": []})
    assert load(text).problem == "written by another version of hpcforge (schema 2)"


def test_every_cut_of_a_record_is_noticed() -> None:
    text = dump((PASSED,), 1.0)
    assert all(load(text[:length]).problem for length in range(0, len(text.rstrip()), 7))
