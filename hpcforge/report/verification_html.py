"""A verification as one HTML page that needs nothing else: no network, no font, no script.

Every text goes through autoescape, with control characters made visible; drawings come from element trees.
"""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hpcforge.blueprint.hostlist import fold
from hpcforge.report.junit import bound
from hpcforge.report.text import clean, duration, moment, plural
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
        left_out=_by_reason(report),
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


def _by_reason(report: Report) -> list[tuple[str, str]]:
    """Nodes that no test spans, or that a test left out, by reason."""
    every = dict(report.left_out)
    for verdict in report.verdicts:
        every |= verdict.left_out
    every |= report.fell_out
    reasons = dict.fromkeys(every.values())
    return [(fold(node for node, other in every.items() if other == why), why) for why in reasons]


def _kind(verdict: ReportedVerdict) -> str:
    return _KIND.get(verdict.status, "bad")


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hpcforge.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "drawing": Markup,  # only for what `verification_charts` has drawn
        "duration": duration,
        "moment": moment,
        "hostlist": lambda nodes: fold(nodes) if nodes else "no node",
        "kind_of": _kind,
        "bound": bound,
        "said": lambda status: status.replace("_", " "),
        "number": lambda value: f"{value:.6g}",
    }
    return environment


def _printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
