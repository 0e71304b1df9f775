"""A verification as one HTML page that needs nothing else: no network, no font, no script.

Every text goes through autoescape, with control characters made visible; drawings come from element trees.
"""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.junit import bound
from hpcforge.report.pages import page_environment
from hpcforge.report.text import duration, moment, plural
from hpcforge.report.unreachable_text import by_reason
from hpcforge.report.verification import Report, ReportedVerdict
from hpcforge.report.verification_charts import charts

_ASSERTIONS = 40  # rows of a test
_KIND = {"passed": "good", "pending": "warn", "not_run": "warn", "unknown": "warn"}


def verification_page(report: Report) -> str:
    """Return the page."""
    tests = [(verdict, charts(verdict)) for verdict in report.verdicts]
    return _environment().get_template("verification.html.j2").render(
        report=report,
        sentence=sentence(report),
        kind="good" if report.passed and not report.not_tested else "warn" if report.passed else "bad",
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
    if passed == ran:
        return f"{'The test' if ran == 1 else f'All {ran} tests'} passed"
    return f"{passed} of {plural(ran, 'test')} passed"


def _left_out(report: Report) -> list[tuple[str, str]]:
    """Nodes that no test spans, or that a test left out, by reason."""
    every = dict(report.left_out)
    for verdict in report.verdicts:
        every |= verdict.left_out
    every |= report.fell_out
    return [(nodes, why) for nodes, _, why in by_reason(every)]


def _kind(verdict: ReportedVerdict) -> str:
    return _KIND.get(verdict.status, "bad")


@lru_cache
def _environment() -> Environment:
    return page_environment({
        "duration": duration,
        "moment": moment,
        "hostlist": lambda nodes: fold(nodes) if nodes else "no node",
        "kind_of": _kind,
        "bound": bound,
        "said": lambda status: status.replace("_", " "),
        "number": lambda value: f"{value:.6g}",
    })  # fmt: skip
