"""The page of GPUs has the lines that the catalog and the tests give."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from hpcforge.catalog import load_catalog
from hpcforge.run.expectations import expect_of_one
from tests.support.shipped import ROOT
from tools.gpu import cards
from tools.gpu.parts import parts

PAGE = ROOT / "docs" / "gpu.md"
RECORDED = ROOT / "tests" / "fixtures" / "h200-2026-11-27"
START, END = "<!-- models -->\n", "<!-- end of models -->"


def factor(test: str, measure: str) -> float:
    spec = yaml.safe_load((ROOT / "smoke_tests" / test / "test.yaml").read_text())
    return float(spec["thresholds"][measure]["at_least_of_derived"])


def rows() -> Iterator[str]:
    yield "| model | BF16 peak | measured | line | PCIe, GB/s | line |"
    yield "|---|---|---|---|---|---|"
    for name, gpu in load_catalog().gpus.items():
        product, copy = (expect_of_one(what, {name: gpu}) for what in ("bf16-product", "host-copy"))
        if product.expected and copy.expected and product.bound and copy.bound:
            lines = factor("gemm", "tflop_per_s") * product.expected, factor("host_device", "to_gpu_gb_per_s")
            yield (
                f"| `{name}` | {product.bound:g} | {product.expected:g} | {lines[0]:.0f} | {copy.bound:.1f} "
                f"| {lines[1] * copy.expected:.1f} |"
            )


def recorded(test: str, measure: str, dtype: str | None = None) -> float:
    events = map(json.loads, (RECORDED / "one" / f"{test}.jsonl").read_text().splitlines())
    return next(float(event[measure]) for event in events if measure in event and event.get("dtype") == dtype)


def test_the_measured_numbers_are_the_recorded_ones() -> None:
    text = PAGE.read_text(encoding="utf-8")
    limit = yaml.safe_load((ROOT / "smoke_tests" / "burn_in" / "test.yaml").read_text())["thresholds"]["slowdown"]
    for row in (
        f"| `gemm`, bfloat16, TFLOP/s | {recorded('gemm', 'tflop_per_s', 'bfloat16'):.0f} |",
        f"| `gemm`, float16, TFLOP/s | {recorded('gemm', 'tflop_per_s', 'float16'):.0f} |",
        f"| `gemm`, float32 without TF32, TFLOP/s | {recorded('gemm', 'tflop_per_s', 'float32'):.1f} |",
        f"| {recorded('host_device', 'to_gpu_gb_per_s'):.1f}, {recorded('host_device', 'from_gpu_gb_per_s'):.1f} |",
        f"| `burn_in`, 24 s, slowdown | {recorded('burn_in', 'slowdown'):.3f} | at most {limit['at_most']:g} |",
    ):
        assert row in text


def test_the_table_is_that_of_the_catalog(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    start, end = text.index(START) + len(START), text.index(END)
    table = "".join(f"{row}\n" for row in rows())
    if request.config.getoption("--refresh-golden"):
        PAGE.write_text(text[:start] + table + text[end:], encoding="utf-8")
        return
    assert text[start:end] == table
    assert "| `gemm`, bfloat16, TFLOP/s | 731 | 512 | 989 |" in text and "| `h200-sxm` | 989 | 731 | 512 |" in table


@pytest.mark.parametrize("page", ["README.md", "docs/support.md"])
def test_the_table_of_cards_is_that_of_its_file(page: str, request: pytest.FixtureRequest) -> None:
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    start, end = text.index(cards.BEGIN) + len(cards.BEGIN), text.index(cards.END)
    if request.config.getoption("--refresh-golden"):
        path.write_text(text[:start] + cards.table() + text[end:], encoding="utf-8")
    else:
        assert text[start:end] == cards.table()


def test_cards_name_parts_of_the_report() -> None:
    names = {part.name for part in parts(gpu=True)}
    for card in yaml.safe_load(cards.FILE.read_text())["cards"]:
        assert {*card["held"], *card["broken"]} <= names
        assert not {*card["held"]} & {*card["broken"]}
