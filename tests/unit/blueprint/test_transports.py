"""What a test.yaml may say of its transport, its level and its derived lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcforge.blueprint.diagnostics import InvalidInput
from hpcforge.blueprint.smoke_tests import load_smoke_tests

TEXT = """
description: "Measures."
launcher: {launcher}
measures: {{rate: {{unit: {unit}}}}}
headline: "rate"
{more}
"""


def loaded(folder: Path, more: str, launcher: str = "torchrun", unit: str = "GB/s") -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "mine.py").write_text("")
    (folder / "mine" / "test.yaml").write_text(TEXT.format(more=more, launcher=launcher, unit=unit))
    load_smoke_tests(folder)


@pytest.mark.parametrize(
    "more",
    [
        "transport: {gloo: {network: nodes}, nccl: {where: rdma, must: [NET/IB], must_not: [NET/Socket]}}",
        "transport: {gloo: {network: storage}}\nlevel: quick",
        "thresholds: {rate: {derived: all-reduce, at_least_of_derived: 0.85, at_most_of_derived: 1.05}}",
        "thresholds: {rate: {derived: all-to-all}}",
        "thresholds: {rate: {at_least_of_baseline: 0.95}}",
    ],
)
def test_what_is_accepted(tmp_path: Path, more: str) -> None:
    loaded(tmp_path, more)


@pytest.mark.parametrize(
    ("more", "launcher", "unit", "said"),
    [
        ("transport: {}", "torchrun", "GB/s", "no transport is named"),
        ("transport: {nccl: {}}", "torchrun", "GB/s", "no transport is named"),
        ("transport: {gloo: {}}", "plain", "GB/s", "report no transport"),
        ("transport: {nccl: {must: ['NET IB']}}", "torchrun", "GB/s", "NCCL's log"),
        ("level: long", "torchrun", "GB/s", "`long` is not accepted here"),
        ("thresholds: {rate: {at_least_of_derived: 0.85}}", "torchrun", "GB/s", "the operation of the derived"),
        ("thresholds: {rate: {derived: all-reduce}}", "torchrun", "ms", "derived in GB/s"),
    ],
)
def test_what_is_refused(tmp_path: Path, more: str, launcher: str, unit: str, said: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        loaded(tmp_path, more, launcher, unit)
    assert any(said in f"{entry.message} {entry.hint}" for entry in wrong.value.diagnostics), wrong.value.diagnostics
