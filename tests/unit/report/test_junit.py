"""JUnit as its readers expect it: counts that agree with the cases, and each part by name."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from hpcforge.report.verification import ReportedVerdict, junit
from tests.unit.report.verifications import NODES, report

SILENT = ReportedVerdict("silent", "unknown", NODES, launcher="plain", node="w3", detail="no rate")
ROOT = ET.fromstring(junit(replace(report(), verdicts=(*report().verdicts, SILENT))))
SUITES = {suite.attrib["name"]: suite for suite in ROOT}


def outcomes(name: str) -> dict[str, str]:
    return {case.attrib["name"]: case[0].tag if len(case) else "" for case in SUITES[name]}


def test_counts_agree_with_the_cases() -> None:
    for suite in ROOT:
        assert int(suite.attrib["tests"]) == len(suite)
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[key]) == sum(case.find(tag) is not None for case in suite), suite.attrib


def test_a_part_that_misses_a_line_fails_with_number_and_line() -> None:
    assert outcomes("copy") == {"w1": "failure", "w2": "", "w3": ""}
    failure = SUITES["copy"].find("testcase[@name='w1']/failure")
    assert failure is not None
    assert failure.attrib["message"] == "rate is 5 GB/s, and must be at least 8 GB/s: 0.8 of the median of 3"


def test_unknown_is_an_error_and_left_out_is_skipped() -> None:
    assert "error" in outcomes("silent").values()
    assert "failure" not in outcomes("silent").values()
    assert outcomes("sum") == {
        "all ranks": "",
        **{f"loss of step {step}": "" for step in range(3)},
        "w4": "skipped",
    }
    assert outcomes("hpl") == {"all ranks": "skipped"}
