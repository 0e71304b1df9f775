"""Lines for one GPU, from the catalog, beside what cards were measured at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcforge.catalog import load_catalog
from hpcforge.cluster import load
from hpcforge.cluster.model import SmokeTest
from hpcforge.run.expectations import Expectations, expect_of_one
from hpcforge.verify.verdicts import Verdict
from tests.support.shipped import ROOT

RECORDED = ROOT / "tests" / "fixtures" / "h200-2026-11-27"
GPUS = load_catalog().gpus
MEASURED = [name for name, gpu in GPUS.items() if gpu.bf16_measured_tflops]


def recorded(test: str) -> list[dict[str, Any]]:
    lines = (RECORDED / "one" / f"{test}.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "measurement"]


GEMM = {event["dtype"]: event["tflop_per_s"] for event in recorded("gemm")}
(COPY,) = recorded("host_device")


def expectations(folder: Path, hardware: str, gemm: str = "") -> tuple[Expectations, dict[str, SmokeTest]]:
    """Of a site of such nodes with both tests; `gemm`: more that its section says."""
    text = (ROOT / "blueprints" / "dgx-h100-site.yaml").read_text().replace("../", f"{ROOT}/")
    tests = f'gemm: {{nodes: "gpu[001-002]"{gemm}}}\n    host_device: {{nodes: "gpu[001-002]"}}\n    allreduce:'
    text = text.replace("allreduce:", tests).replace("hardware: dgx-h100", f"hardware: {hardware}")
    (folder / "b.yaml").write_text(text)
    cluster = load(folder / "b.yaml").cluster
    assert cluster.acceptance
    return Expectations(cluster, gpus=GPUS), {test.name: test for test in cluster.acceptance.tests}


def passed(test: SmokeTest, **measured: float) -> Verdict:
    measurements = tuple({"host": node, "rank": rank, **measured} for rank, node in enumerate(test.nodes))
    return Verdict(test.name, "passed", test.nodes, ranks=2, backend="nccl", measurements=measurements)


@pytest.mark.parametrize("hardware", ["dgx-h100", "dgx-h200"])
def test_a_healthy_card_passes_and_half_of_one_does_not(hardware: str, tmp_path: Path) -> None:
    """Each line that refuses lies below what an H200 was measured at, and above 0.45 of the physical peak."""
    expected, tests = expectations(tmp_path, hardware)
    copies = {name: COPY[name] for name in ("to_gpu_gb_per_s", "from_gpu_gb_per_s")}
    healthy = {"gemm": {"tflop_per_s": GEMM["bfloat16"]}, "host_device": {**copies, "peer_gb_per_s": 0.0}}
    for name, measured in healthy.items():
        verdict = expected.weigh(tests[name], passed(tests[name], **measured))
        assert (verdict.status, verdict.detail) == ("passed", "")
        lowest = {line.measure: line.limit for line in verdict.lines if line.refuses and "derived" in line.source}
        peaks = {line.measure: line.limit for line in verdict.lines if line.source == "the derived bound"}
        assert set(lowest) == set(peaks) == set(measured) - {"peer_gb_per_s"}
        for measure, line in lowest.items():
            assert 0.45 * peaks[measure] < line < measured[measure] < peaks[measure]
        slow = expected.weigh(tests[name], passed(tests[name], **{key: 0.45 * peaks.get(key, 0) for key in measured}))
        assert (slow.status, "of the derived" in slow.detail) == ("missed", True)


@pytest.mark.parametrize("name", MEASURED)
def test_lines_of_every_measured_model_lie_between_half_and_all_of_the_peak(name: str) -> None:
    product, copy = expect_of_one("bf16-product", {name: GPUS[name]}), expect_of_one("host-copy", {name: GPUS[name]})
    for value, factor in ((product, 0.7), (copy, 0.85)):
        assert value.bound and value.expected
        assert 0.45 < factor * value.expected / value.bound < 1.1
    assert GPUS[name].sources["bf16_measured_tflops"]


def test_the_slowest_model_counts_and_what_is_not_known_has_no_line() -> None:
    both = expect_of_one("bf16-product", {name: GPUS[name] for name in ("h100-sxm", "a100-80")})
    assert (both.expected, both.bound) == (271, 312)
    none = expect_of_one("bf16-product", {name: GPUS[name] for name in ("h100-sxm", "mi300x")})
    assert (none.expected, none.derivation) == (None, "not derived: the catalog has no measured BF16 rate of mi300x")


@pytest.mark.parametrize(
    ("gemm", "reason"),
    [
        (", options: {dtypes: [float32]}", "not derived: the blueprint sets dtypes"),
        (", options: {size: 512}", "not derived: the blueprint sets size"),
        (", options: {seconds: 30}", "h200-sxm: 731 of 989 TFLOP/s, which is 74% ("),
    ],
)
def test_another_product_has_no_line(gemm: str, reason: str, tmp_path: Path) -> None:
    expected, tests = expectations(tmp_path, "dgx-h200", gemm)
    known = expected.derived(tests["gemm"], tests["gemm"].nodes)["tflop_per_s"]
    assert known.derivation.startswith(reason)


def test_float32_is_plausible_without_tf32() -> None:
    """67 TFLOP/s are the peak of an H100 and an H200 SXM (NVIDIA's datasheets); with TF32 it would be 495."""
    assert 0.45 * 67 < GEMM["float32"] < 67 < GEMM["float16"] < GEMM["bfloat16"]
