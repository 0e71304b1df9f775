"""The page of a verification: blamed parts, each test with its charts and lines, and the nodes that were left out."""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from jinja2 import Environment

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.html import page_environment
from hpcforge.report.html.charts import MOST_IN_MATRIX, Bar, Series, bar_chart, line_chart, matrix
from hpcforge.report.text import by_reason, clean, plural
from hpcforge.report.verification import PartReport, Report, ReportedVerdict, blamed_parts, bound
from hpcforge.run.result import UNREACHABLE
from hpcforge.verify.verdicts import Line

MOST_BARS = 64
_STEP = re.compile(r"\bstep ([0-9]{1,9})\b")
_PLACES = ("host", "test")  # texts of a measurement that name the place where it was made
_ASSERTIONS = 40  # rows of a test
_MOST_ROWS = 256  # of a table with a row a node
_MOST_BLAMED = 20  # in the box at the top
_MOST_SUMMED = 3  # in its sentence
_KIND = {"passed": "good", "pending": "warn", "not_run": "warn", "unknown": "warn"}


@dataclass(frozen=True)
class Chart:
    """A drawing and its subject in words. `more`: the parts that were left out."""

    title: str
    svg: str
    more: str = ""


@dataclass(frozen=True)
class NodeRow:
    """The texts that nodes reported, by measure; `unusual` are those that differ from most nodes'."""

    nodes: str
    result: str
    texts: tuple[str, ...]
    unusual: tuple[bool, ...]


@dataclass(frozen=True)
class NodeProblem:
    """The state that keeps nodes from being tested, though no test blames them."""

    nodes: str
    state: str  # "fell out", "does not answer"
    reason: str
    next_command: str


def verification_page(report: Report) -> str:
    """Return the page."""
    tests = [(verdict, charts(verdict), node_rows(verdict)) for verdict in report.verdicts]
    low = [(verdict, part) for verdict in report.verdicts if verdict.passed for part in verdict.low]
    blamed = blamed_parts(report.verdicts)
    problems = node_problems(report)
    return _environment().get_template("verification.html.j2").render(
        eyebrow="Verification of a cluster",
        name=report.cluster,
        title="verification",
        report=report,
        sentence=sentence(report),
        kind="bad" if not report.good else "warn" if report.not_tested or low else "good",
        blamed=blamed,
        problems=problems,
        nodes_of={verdict.test: verdict.nodes for verdict in report.verdicts},
        low=low,
        most_blamed=_MOST_BLAMED,
        identities={node.node: node for node in report.identities},
        again=_again(report, [] if problems else [part.test for part in blamed]),
        tests=tests,
        left_out=_left_out(report),
        tested=sorted({node for verdict in report.verdicts for node in verdict.nodes}),
        shown_assertions=_ASSERTIONS,
    )  # fmt: skip


def sentence(report: Report) -> str:
    """Return the result in one sentence."""
    ran, passed = len(report.verdicts), sum(verdict.passed for verdict in report.verdicts)
    if not ran:
        return "Nothing was tested"
    low = sum(len(verdict.low) for verdict in report.verdicts if verdict.passed)
    but = f"; {plural(low, 'number')} low" if low else ""
    if passed == ran and not report.good:
        problems = [f"{problem.nodes} {problem.state}" for problem in node_problems(report)[:_MOST_SUMMED]]
        return f"{'; '.join(problems)}: no test failed on the other nodes{but}"
    if passed == ran:
        return f"{'The test' if ran == 1 else f'All {ran} tests'} passed{but}"
    return f"{passed} of {plural(ran, 'test')} passed{but}"


def node_problems(report: Report) -> list[NodeProblem]:
    """Return the nodes without which tests ran, and those out of service that no test blames, by reason."""
    blamed = {node for part in blamed_parts(report.verdicts) for node in part.nodes}
    silent = {
        node: reason.removeprefix(UNREACHABLE)
        for node, reason in report.missing.items()
        if reason.startswith(UNREACHABLE)
    }
    status = shlex.join(["hpcforge", "status", report.source.blueprint])
    causes = (
        ("fell out", {node: reason.removeprefix("drained: ") for node, reason in report.fell_out.items()}, ""),
        ("does not answer", silent, status),
        ("takes no job", {node: reason for node, reason in report.missing.items() if node not in silent}, ""),
        ("is drained", {node: reason for node, reason in report.drained.items() if node not in blamed}, ""),
        ("is not drained", {node: reason for node, reason in report.not_drained.items() if node not in blamed}, ""),
    )
    return [
        NodeProblem(nodes, state, reason, command or f"scontrol show node {nodes}")
        for state, reasons, command in causes
        for nodes, _, reason in by_reason(reasons)
    ]


def node_rows(test: ReportedVerdict) -> list[NodeRow]:
    """Return a row for each node of a test whose nodes report texts: faults first, then what differs from most nodes.

    Of more than `_MOST_ROWS` nodes, those that are alike share a row.
    """
    measures = [name for name, measure in test.measures.items() if measure.format == "text"]
    if not measures:
        return []
    reported = {str(row.get("host", "")): row for row in test.measurements}
    texts = {node: tuple(_text(reported.get(node, {}).get(name)) for name in test.measures) for node in test.nodes}
    usual = [Counter(column).most_common(1)[0][0] for column in zip(*texts.values(), strict=True)]
    formats = [measure.format for measure in test.measures.values()]
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node in test.nodes:
        key = (_node_result(test, node, reported), texts[node])
        groups.setdefault((*key, node) if len(test.nodes) <= _MOST_ROWS else key, []).append(node)  # type: ignore[arg-type]
    rows = [
        NodeRow(
            fold(nodes),
            result,
            cells,
            tuple(form == "text" and cell != most for form, cell, most in zip(formats, cells, usual, strict=True)),
        )
        for (result, cells, *_), nodes in groups.items()
    ]
    return sorted(rows, key=lambda row: (row.result == "reported", not any(row.unusual)))[:_MOST_ROWS]


def _node_result(test: ReportedVerdict, node: str, reported: Mapping[str, object]) -> str:
    status = test.status.replace("_", " ")
    if node in test.reasons:
        return f"{status}: {test.reasons[node]}"
    if node == test.node:
        return f"{status}: {test.detail}"
    return "reported" if node in reported else "no report"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value in (None, "") else str(value)


def _again(report: Report, tests: list[str]) -> str:
    """Return the command that runs these tests again, or all where none is named."""
    options = [word for test in dict.fromkeys(tests) for word in ("--test", test)]
    return shlex.join(["hpcforge", "verify", report.source.blueprint, *options])


def _left_out(report: Report) -> list[tuple[str, str]]:
    """Nodes that no test spans, or that a test left out, by reason."""
    every = dict(report.left_out)
    for verdict in report.verdicts:
        every |= verdict.left_out
    every |= report.fell_out
    return [(nodes, reason) for nodes, _, reason in by_reason(every)]


def _kind(verdict: ReportedVerdict) -> str:
    return "warn" if verdict.passed and verdict.low else _KIND.get(verdict.status, "bad")


def _result(verdict: ReportedVerdict) -> str:
    return verdict.status.replace("_", " ") + (", low" if verdict.passed and verdict.low else "")


def charts(test: ReportedVerdict) -> list[Chart]:
    """Return all drawings that the numbers of a test allow."""
    drawn = (_bars(test, name) for name, measure in test.measures.items() if measure.better)
    return [*filter(None, drawn), *_sweeps(test), *_curves(test), *_matrices(test)]


def _bars(test: ReportedVerdict, name: str) -> Chart | None:
    """Draw the numbers of a measure by node, the worst first, with a stroke for each limit; None for a single one."""
    parts = [part for part in test.parts if part.measure == name and part.part]
    measure = test.measures[name]
    if len(parts) < 2:
        return None
    limits = {line.limit: line.refuses for line in test.lines if line.measure == name and line.part is None}
    worst_first = sorted(parts, key=lambda part: -part.value if measure.better == "lower" else part.value)[:MOST_BARS]
    svg = bar_chart(f"{name} by node", [Bar(part.part, part.value, _word(test, part)) for part in worst_first], limits)
    more = f"and {len(parts) - MOST_BARS} more nodes, all better" if len(parts) > MOST_BARS else ""
    paired = any("of_peer" in row and name in row for row in test.measurements)
    best = ", the best of its pairs" if paired else ""
    return Chart(f"{name}, {measure.unit}, by node{best}", svg, more)


def _word(test: ReportedVerdict, part: PartReport) -> str:
    """Return the word beside a bar, which is also its class."""
    parts = test.isolation.named if test.isolation else ()
    if any(blamed.verdict == "bad" and blamed.nodes == (part.part,) for blamed in parts):
        return "bad"
    return "missed" if part.missed else "low" if part.low else ""


def _sweeps(test: ReportedVerdict) -> Iterator[Chart]:
    """Draw for each size in bytes the number measured, with the bound that holds for all."""
    size = next((name for name, measure in test.measures.items() if measure.format == "size"), "")
    for name in (name for name, measure in test.measures.items() if size and measure.unit == "GB/s"):
        rows = [(row.get(size), row.get(name)) for row in test.measurements]
        points = [(float(x), float(y)) for x, y in rows if _positive(x) and _positive(y)]
        if len({x for x, _ in points}) < 2:
            continue
        least, most = min(points)[0], max(points)[0]
        lines = [line for line in test.lines if line.measure == name and line.part in (None, "")]
        bounds = [Series(_bound(line), "bound", ((least, line.limit), (most, line.limit))) for line in lines]
        series = [Series(name, "value", tuple(sorted(points))), *bounds]
        yield Chart(f"{name} by message size", line_chart(series, log=True, x_size=True))


def _bound(line: Line) -> str:
    return f"{line.bound.replace('_', ' ')} {line.limit:.4g}: {line.source}" + ("" if line.refuses else " (shown)")


def _curves(test: ReportedVerdict) -> Iterator[Chart]:
    """Draw numbers by training step and their reference, from measurements with `step` and from assertions."""
    groups: dict[str, tuple[dict[float, float], dict[float, float]]] = {}
    for row in test.measurements:
        step, loss, reference = row.get("step"), row.get("loss"), row.get("loss_expected")
        if _number(step) and _number(loss) and _number(reference):
            about = [text for key, text in row.items() if isinstance(text, str) and key not in _PLACES]
            measured, expected = groups.setdefault(" ".join([*map(clean, about), "loss"]), ({}, {}))
            measured[float(step)], expected[float(step)] = float(loss), float(reference)
    for assertion in test.assertions:
        match = _STEP.search(assertion.what)
        if match:
            about_it = clean((assertion.what[: match.start()] + assertion.what[match.end() :]).strip(" ,:"))
            measured, expected = groups.setdefault(about_it, ({}, {}))
            measured[float(match[1])], expected[float(match[1])] = assertion.got, assertion.expected
    for title, (measured, expected) in groups.items():
        if len(measured) > 1:
            series = [
                Series("reference", "reference", _in_order(expected)),
                Series("measured", "value", _in_order(measured)),
            ]
            yield Chart(f"{title} by step, against its reference", line_chart(series))


def _matrices(test: ReportedVerdict) -> Iterator[Chart]:
    """Draw for each measure and rail the numbers from node to node; the last one of each pair counts."""
    for name, measure in test.measures.items():
        by_rail: dict[str, dict[tuple[str, str], float]] = {}
        for row in test.measurements:
            node, peer, value = row.get("of_node"), row.get("of_peer"), row.get(name)
            if isinstance(node, str) and isinstance(peer, str) and _number(value):
                ends = (peer, node) if row.get("of_direction") == "in" else (node, peer)
                by_rail.setdefault(str(row.get("of_rail", "")), {})[ends] = float(value)
        for rail, values in by_rail.items():
            nodes = [node for node in test.nodes if any(node in ends for ends in values)]
            title = f"{name}, {measure.unit}, from node to node" + (f", rail {rail}" if rail else "")
            more = f"the first {MOST_IN_MATRIX} of {len(nodes)} nodes; " if len(nodes) > MOST_IN_MATRIX else ""
            more += "row: the sender; a stroke: under 80 % of the median, a cross: under half of it"
            yield Chart(title, matrix(nodes[:MOST_IN_MATRIX], values, lower=measure.better == "lower"), more)


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _positive(value: object) -> TypeGuard[float]:
    return _number(value) and value > 0


def _in_order(by_step: Mapping[float, float]) -> tuple[tuple[float, float], ...]:
    return tuple(sorted(by_step.items()))


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "kind_of": _kind,
        "result_of": _result,
        "bound": bound,
        "status_words": lambda status: status.replace("_", " "),
        "number": "{:.6g}".format,
    })  # fmt: skip
