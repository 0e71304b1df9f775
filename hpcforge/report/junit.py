"""A verification as JUnit XML: a suite for each test, a case for each part.

A number that misses its line is a failure, one that is missing an error, a node or test that was left out is skipped.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from hpcforge.report.text import clean, one_line
from hpcforge.report.verification import Report, ReportedVerdict
from hpcforge.verify.verdicts import Assertion, Line, assertion_row

ALL = "all ranks"
_FAILED = ("wrong", "missed", "failed", "timed_out")


@dataclass(frozen=True)
class Case:
    """One case: `outcome` is "" if it passed."""

    name: str
    outcome: str = ""  # failure, error, skipped
    message: str = ""


def junit(report: Report) -> str:
    """Return the text of the file."""
    root = ET.Element("testsuites", {"name": clean(f"hpcforge verify {report.cluster}")})
    for verdict in report.verdicts:
        _suite(root, report, verdict.test, list(cases(verdict)), verdict.seconds)
    for left in report.not_tested:
        _suite(root, report, left.test, [Case(ALL, "skipped", left.why)], 0.0)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def cases(verdict: ReportedVerdict) -> Iterator[Case]:
    """Yield the cases of a test: its parts, its assertions, and the nodes that it left out."""
    said = verdict.detail or verdict.status
    bad = "failure" if verdict.status in _FAILED else "error" if verdict.status == "unknown" else "skipped"
    names = list(dict.fromkeys(part.part for part in verdict.parts)) or [verdict.node or ""]
    missed = {part.part for part in verdict.parts if part.missed}
    blamed = verdict.node if verdict.node in names else None
    if not verdict.passed and not missed and blamed is None and names != [""]:
        yield Case(ALL, bad, said)
    for name in names:
        message = "; ".join(_numbers(verdict, name)) if name in missed else said
        is_bad = name in missed or name == blamed or (not verdict.passed and name == "" and not missed)
        yield Case(name or ALL, bad if is_bad and not verdict.passed else "", message if is_bad else "")
    silent = [node for node in verdict.nodes if node not in names] if names != [""] and verdict.parts else []
    for node in silent:
        yield Case(node, "error", "no number was reported")
    for assertion in verdict.assertions:
        yield Case(_name(assertion), "" if assertion.holds else "failure", assertion_row(assertion))
    for node, why in verdict.left_out.items():
        yield Case(node, "skipped", why)


def _name(assertion: Assertion) -> str:
    return f"{assertion.what} ({assertion.host})" if assertion.host else assertion.what


def _numbers(verdict: ReportedVerdict, name: str) -> Iterator[str]:
    """The numbers of a part that miss a line, with the line."""
    for part in verdict.parts:
        if part.part != name or not part.missed:
            continue
        unit = verdict.measures[part.measure].unit
        for line in verdict.lines:
            if line.refuses and line.measure == part.measure and line.missed_in({name: part.value}):
                yield f"{part.measure} is {part.value:.6g} {unit}, and must be {bound(line)} {unit}: {line.source}"


def bound(line: Line) -> str:
    """`at least 2.23`."""
    return f"{line.bound.replace('_', ' ')} {line.limit:.6g}"


def _suite(root: ET.Element, report: Report, test: str, found: list[Case], seconds: float) -> None:
    count = {kind: str(sum(case.outcome == kind for case in found)) for kind in ("failure", "error", "skipped")}
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": clean(test),
            "tests": str(len(found)),
            "failures": count["failure"],
            "errors": count["error"],
            "skipped": count["skipped"],
            "time": f"{seconds:.1f}",
            "timestamp": f"{datetime.fromtimestamp(report.began_s, UTC):%Y-%m-%dT%H:%M:%S}",
        },
    )
    for case in found:
        element = ET.SubElement(suite, "testcase", {"classname": clean(test), "name": one_line(case.name)})
        if case.outcome:
            ET.SubElement(element, case.outcome, {"message": one_line(case.message)})
