"""Drawings: each is well-formed, bounded, and says in words what it shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from hpcforge.report.verification import MeasureReport, PartReport, ReportedVerdict
from hpcforge.report.verification_html import MOST_BARS, Series, charts, matrix, plot

MANY = tuple(f"w{number:04}" for number in range(200))
TEST = ReportedVerdict("copy", "passed", MANY, measures={"rate": MeasureReport("GB/s", "higher")})


def test_of_many_nodes_the_worst_are_drawn() -> None:
    parts = tuple(PartReport(node, "rate", 1.0 + number, missed=number == 0) for number, node in enumerate(MANY))
    (chart,) = charts(replace(TEST, parts=parts))
    svg = ET.fromstring(chart.svg)
    texts = [text.text or "" for text in svg.iter("text")]
    assert "1 missed" in texts
    assert texts.count("w0000") == 1
    assert len(list(svg.iter("rect"))) == MOST_BARS
    assert chart.more == f"and {200 - MOST_BARS} more nodes, all better"


def test_curves_keep_modes_apart() -> None:
    rows = tuple(
        {"mode": mode, "step": step, "loss": 3.0 - step, "loss_expected": 3.0 - step, "host": "w1"}
        for mode in ("ddp", "fsdp")
        for step in range(3)
    )
    titles = [chart.title for chart in charts(replace(TEST, measurements=rows))]
    assert titles == ["ddp loss by step, against its reference", "fsdp loss by step, against its reference"]


def test_a_matrix_tells_what_was_not_measured() -> None:
    svg = ET.fromstring(matrix(["w1", "w2"], {("w1", "w2"): 10.0, ("w2", "w1"): 4.0}))
    kinds = [rect.get("class") for rect in svg.iter("rect")]
    assert kinds.count("cell none") == 2
    assert {"cell shade0", "cell shade3"} <= {*kinds}


def test_equal_points_do_not_divide_by_zero() -> None:
    assert ET.fromstring(plot([Series("x", "value", ((1.0, 2.0), (1.0, 2.0)))], log=True)) is not None
