from __future__ import annotations

import pytest

from hpcforge.verify.verdicts import Verdict, summary_line

PASSED = Verdict(
    test="allreduce",
    status="passed",
    nodes=("w01", "w02", "w03"),
    ranks=6,
    measurements=({"size_bytes": 4096, "busbw_gb_per_s": 0.01}, {"size_bytes": 1 << 24, "busbw_gb_per_s": 1.2345}),
    headline="busbw 1.23 GB/s at 16 MiB",
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
    headline="9,411 samples/s, loss 0.417 -> 0.0605",
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
        (
            Verdict(
                "disk", "missed", ("w01",), options={"size_mib": "64", "blocks_kib": ""}, node="w01", detail="slow"
            ),
            "disk  missed  w01: slow  options: size_mib 64; blocks_kib none",
        ),
    ],
)
def test_summary_line(verdict: Verdict, line: str) -> None:
    assert summary_line(verdict) == line
