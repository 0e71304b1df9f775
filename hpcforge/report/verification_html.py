"""A verification as one HTML page that needs nothing else: no network, no font, no script.

Every text goes through autoescape, with control characters made visible; drawings come from element trees.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from jinja2 import Environment

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.blamed_parts import blamed_parts
from hpcforge.report.junit import bound
from hpcforge.report.pages import page_environment
from hpcforge.report.text import duration, moment, plural
from hpcforge.report.unreachable_text import by_reason
from hpcforge.report.verification import Report, ReportedVerdict
from hpcforge.report.verification_charts import charts
from hpcforge.run.observe import UNREACHABLE

_ASSERTIONS = 40  # rows of a test
_MOST_ROWS = 256  # of a table with a row a node
_MOST_BLAMED = 20  # in the box at the top
_MOST_SUMMED = 3  # in its sentence
_KIND = {"passed": "good", "pending": "warn", "not_run": "warn", "unknown": "warn"}


@dataclass(frozen=True)
class NodeRow:
    """The texts that nodes reported, by measure; `unusual` are those that differ from most nodes'."""

    nodes: str
    result: str
    texts: tuple[str, ...]
    unusual: tuple[bool, ...]


@dataclass(frozen=True)
class NodeProblem:
    """What keeps nodes from being tested, though no test blames them."""

    nodes: str
    what: str  # "fell out", "does not answer"
    why: str
    next_command: str


def verification_page(report: Report) -> str:
    """Return the page."""
    tests = [(verdict, charts(verdict), node_rows(verdict)) for verdict in report.verdicts]
    low = [(verdict, part) for verdict in report.verdicts if verdict.passed for part in verdict.low]
    blamed = blamed_parts(report.verdicts)
    problems = node_problems(report)
    return _environment().get_template("verification.html.j2").render(
        report=report,
        sentence=sentence(report),
        kind="bad" if not report.good else "warn" if report.not_tested or low else "good",
        blamed=blamed,
        problems=problems,
        nodes_of={verdict.test: verdict.nodes for verdict in report.verdicts},
        low=low,
        most_blamed=_MOST_BLAMED,
        identities={each.node: each for each in report.identities},
        again=_again(report, [] if problems else [part.test for part in blamed]),
        tests=tests,
        left_out=_left_out(report),
        tested=sorted({node for verdict in report.verdicts for node in verdict.nodes}),
        shown_assertions=_ASSERTIONS,
    )  # fmt: skip


def sentence(report: Report) -> str:
    """The result in one sentence."""
    ran, passed = len(report.verdicts), sum(verdict.passed for verdict in report.verdicts)
    if not ran:
        return "Nothing was tested"
    low = sum(len(verdict.low) for verdict in report.verdicts if verdict.passed)
    but = f"; {plural(low, 'number')} low" if low else ""
    if passed == ran and not report.good:
        problems = [f"{each.nodes} {each.what}" for each in node_problems(report)[:_MOST_SUMMED]]
        return f"{'; '.join(problems)}: no test failed on the other nodes{but}"
    if passed == ran:
        return f"{'The test' if ran == 1 else f'All {ran} tests'} passed{but}"
    return f"{passed} of {plural(ran, 'test')} passed{but}"


def node_problems(report: Report) -> list[NodeProblem]:
    """Return the nodes without which tests ran, and those out of service that no test blames, by reason."""
    blamed = {node for part in blamed_parts(report.verdicts) for node in part.nodes}
    silent = {
        node: why.removeprefix(UNREACHABLE) for node, why in report.missing.items() if why.startswith(UNREACHABLE)
    }
    status = shlex.join(["hpcforge", "status", report.source.blueprint])
    causes = (
        ("fell out", {node: why.removeprefix("drained: ") for node, why in report.fell_out.items()}, ""),
        ("does not answer", silent, status),
        ("takes no job", {node: why for node, why in report.missing.items() if node not in silent}, ""),
        ("is drained", {node: why for node, why in report.drained.items() if node not in blamed}, ""),
        ("is not drained", {node: why for node, why in report.not_drained.items() if node not in blamed}, ""),
    )
    return [
        NodeProblem(nodes, what, why, command or f"scontrol show node {nodes}")
        for what, reasons, command in causes
        for nodes, _, why in by_reason(reasons)
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
    alike: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node in test.nodes:
        key = (_node_result(test, node, reported), texts[node])
        alike.setdefault((*key, node) if len(test.nodes) <= _MOST_ROWS else key, []).append(node)  # type: ignore[arg-type]
    rows = [
        NodeRow(
            fold(nodes),
            result,
            cells,
            tuple(form == "text" and cell != most for form, cell, most in zip(formats, cells, usual, strict=True)),
        )
        for (result, cells, *_), nodes in alike.items()
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
    return [(nodes, why) for nodes, _, why in by_reason(every)]


def _kind(verdict: ReportedVerdict) -> str:
    return "warn" if verdict.passed and verdict.low else _KIND.get(verdict.status, "bad")


def _result(verdict: ReportedVerdict) -> str:
    return verdict.status.replace("_", " ") + (", low" if verdict.passed and verdict.low else "")


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "duration": duration,
        "moment": moment,
        "hostlist": lambda nodes: fold(nodes) if nodes else "no node",
        "kind_of": _kind,
        "result_of": _result,
        "bound": bound,
        "said": lambda status: status.replace("_", " "),
        "number": lambda value: f"{value:.6g}",
    })  # fmt: skip
