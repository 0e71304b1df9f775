"""The page of an acceptance report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from jinja2 import Environment

from hpcforge.blueprint.hostlist import fold
from hpcforge.cluster.model import Cluster
from hpcforge.report.acceptance import AcceptanceReport, AcceptedNode, AcceptedTest
from hpcforge.report.html import page_environment
from hpcforge.report.show_text import cluster_tables
from hpcforge.report.status import result_words
from hpcforge.report.text import duration, moment, plural

_MOST_ROWS = 400  # of one table
_OPEN = 64  # rows up to which a table is not folded by rack
_TAGS = {"error": "no answer", "warning": "with drift"}
_KIND = {"accepted": "good", "accepted with exceptions": "warn", "not accepted": "bad"}


@dataclass(frozen=True)
class PageRow:
    """The cells of a row; `tag` marks the first of them: "good", "warning" or "error"."""

    cells: tuple[str, ...]
    tag: str = ""


@dataclass(frozen=True)
class PageTable:
    """A table; `more` rows were left out. It is folded under `summary`, if that is not ""."""

    header: tuple[str, ...]
    rows: tuple[PageRow, ...]
    title: str = ""
    note: str = ""
    more: int = 0
    summary: str = ""


Racks = Mapping[str, str | None]  # by node
Tables = Iterator[PageTable]


@dataclass(frozen=True)
class PageSection:
    """A part of the page. `lead` is said first, and is all there is without tables."""

    name: str
    title: str
    lead: str
    tables: tuple[PageTable, ...] = ()


def acceptance_page(report: AcceptanceReport, cluster: Cluster) -> str:
    """Return the page."""
    sections = [*_sections(report, cluster)]
    return _environment().get_template("acceptance.html.j2").render(
        eyebrow="Acceptance report",
        name=report.cluster,
        title="acceptance report",
        kind=_KIND[report.judgement],
        sentence=report.sentence,
        sections=[(section.name, section.title) for section in sections],
        page_sections=sections,
        report=report,
        commit=_commit(report),
        answered=sum(node.observed is not None for node in report.nodes),
        passed=sum(test.status == "passed" for test in report.tests),
        gpus=sum(node.gpus.count for node in cluster.nodes if node.gpus),
        differing=sum(bool(node.differs) for node in report.nodes),
        compared=sum(node.compared for node in report.nodes),
    )  # fmt: skip


@lru_cache
def _environment() -> Environment:
    return page_environment({})


def _commit(report: AcceptanceReport) -> str:
    if report.commit is None:
        return "not in a git repository"
    return report.commit[:12] + (" with changes that are not committed" if report.dirty else "")


def _sections(report: AcceptanceReport, cluster: Cluster) -> Iterator[PageSection]:
    racks = {node.name: node.rack for node in cluster.nodes}
    yield PageSection(
        "exceptions",
        "Exceptions",
        "What was left out, overridden or is not as required, and why." if report.exceptions else "None.",
        tuple(_exceptions(report)),
    )
    yield PageSection(
        "asked",
        "What was required",
        "The blueprint, with the inventory and every default.",
        tuple(_table(header, map(PageRow, map(tuple, rows))) for header, rows in cluster_tables(cluster)),
    )
    yield PageSection(
        "built",
        "What was built",
        "What the nodes report; nodes that are alike share a row.",
        tuple(_built(report.nodes, racks)),
    )
    yield PageSection(
        "tests",
        "Tests",
        "Each test ran through Slurm as an ordinary user." if report.tests else "The blueprint names no test.",
        tuple(_tests(report, racks)),
    )
    rows = [
        PageRow((role, reason, fold(nodes)))
        for role, reasons in report.drift.items()
        for reason, nodes in reasons.items()
    ]
    yield PageSection(
        "drift",
        "Drift",
        _drift_lead(report.nodes),
        (_table(("role", "reason", "nodes"), rows),) if rows else (),
    )
    versions = _table(("what", "required", "found"), map(PageRow, report.versions))
    yield PageSection("versions", "Versions", "", (versions,))
    yield _runs(report)


def _runs(report: AcceptanceReport) -> PageSection:
    runs = [
        PageRow((
            str(run.number or "-"), moment(run.started_s), run.who, duration(run.wall_s) if run.wall_s else "-",
            result_words(run), (run.commit or "-")[:12] + ("+" if run.dirty else ""),
        ))
        for run in report.runs
    ]  # fmt: skip
    header = ("run", "started", "who", "took", "result", "commit")
    lead = "The last runs. A commit with + had other files." if runs else "No run is recorded."
    return PageSection("runs", "Runs", lead, (_table(header, runs),) if runs else ())


def _drift_lead(nodes: Sequence[AcceptedNode]) -> str:
    unknown = fold([node.name for node in nodes if not node.compared])
    if any(node.differs for node in nodes):
        lead = "Roles that an apply would change now."
    elif any(node.compared for node in nodes):
        lead = "None: every node that was compared is as the blueprint asks."
    else:
        return "Not known: no node was compared."
    return f"{lead} Not known of {unknown}." if unknown else lead


def _table(header: Sequence[str], rows: Iterable[PageRow], title: str = "", note: str = "") -> PageTable:
    all_rows = tuple(rows)
    return PageTable(tuple(header), all_rows[:_MOST_ROWS], title, note, max(0, len(all_rows) - _MOST_ROWS))


def _exceptions(report: AcceptanceReport) -> Iterator[PageTable]:
    rows = [
        PageRow(
            (exception.kind, fold(exception.nodes) if exception.nodes else "-", exception.what, exception.why),
            "error" if exception.stops else "warning",
        )
        for exception in report.exceptions
    ]
    if rows:
        yield _table(("kind", "nodes", "what", "why"), rows)


def _by_node(header: Sequence[str], rows: Mapping[str, PageRow], racks: Racks, title: str, note: str = "") -> Tables:
    """Yield a table in which nodes with the same row share it; a folded one for each rack where those are many."""
    merged = _alike(rows)
    if len(merged) <= _OPEN:
        yield _table(header, merged, title, note)
        return
    by_rack: dict[str | None, dict[str, PageRow]] = {}
    for name, row in rows.items():
        by_rack.setdefault(racks.get(name), {})[name] = row
    for rack, own in by_rack.items():
        summary = f"Rack {rack}" if rack else "In no rack"
        worst = Counter(row.tag for row in own.values() if row.tag in _TAGS)
        parts = [plural(len(own), "node"), *(f"{_TAGS[tag]}: {count}" for tag, count in worst.items())]
        parts += _spans(header[1:], [row.cells for row in own.values() if not row.tag])
        yield replace(_table(header, _alike(own), title, note), summary=f"{summary}, {'; '.join(parts)}")
        title = note = ""


def _spans(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the least and the most of each column of numbers."""
    for name, column in zip(names, zip(*rows, strict=True), strict=False):
        with suppress(ValueError):
            numbers = {float(cell.replace(",", "")): cell for cell in column if cell != "-"}
            if len(numbers) > 1:
                yield f"{name}: {numbers[min(numbers)]} to {numbers[max(numbers)]}"


def _alike(rows: Mapping[str, PageRow]) -> list[PageRow]:
    names: dict[PageRow, list[str]] = {}
    for name, row in rows.items():
        names.setdefault(row, []).append(name)
    return [PageRow((fold(nodes), *row.cells), row.tag) for row, nodes in names.items()]


def _built(nodes: Sequence[AcceptedNode], racks: Racks) -> Tables:
    rows = {}
    for node in nodes:
        cells = (
            node.hardware, node.declared, node.observed or "no answer", node.system or "-", node.slurm or "-",
            ", ".join(node.differs) or ("none" if node.compared else "not known"), str(node.run or "-"),
        )  # fmt: skip
        rows[node.name] = PageRow(cells, "error" if node.observed is None else "warning" if node.differs else "good")
    header = ("nodes", "hardware", "declared", "found", "system", "Slurm", "roles that differ", "last run")
    yield from _by_node(header, rows, racks, "")


def _tests(report: AcceptanceReport, racks: Racks) -> Tables:
    if not report.tests:
        return
    rows = [
        PageRow(
            (
                test.status, test.test, fold(test.nodes), str(test.ranks or "-"), test.headline or test.detail or "-",
                "; ".join(test.thresholds) or "-", duration(test.seconds) if test.seconds else "-",
                moment(test.tested_s) if test.tested_s else "-",
            ),
            "good" if test.status == "passed" else "error",
        )
        for test in report.tests
    ]  # fmt: skip
    yield _table(("result", "test", "nodes", "ranks", "numbers", "threshold", "took", "ended"), rows)
    tested = {name for test in report.tests for name in test.nodes}
    passed = {node.name: PageRow((", ".join(node.passed) or "none",)) for node in report.nodes if node.name in tested}
    yield from _by_node(("nodes", "passed, and unchanged since"), passed, racks, "By node")
    for test in report.tests:
        if any(set(by_node) - {""} for by_node in test.numbers.values()):
            yield from _numbers(test, racks)


def _numbers(test: AcceptedTest, racks: Racks) -> Tables:
    """Return the numbers of each node."""
    measured = {node for by_node in test.numbers.values() for node in by_node}
    rows = {
        name: PageRow(tuple(by_node.get(name, "-") for by_node in test.numbers.values()))
        for name in test.nodes
        if name in measured
    }
    note = f"Threshold: {'; '.join(test.thresholds)}." if test.thresholds else ""
    yield from _by_node(("nodes", *test.numbers), rows, racks, f"{test.test} on {fold(test.nodes)}", note)
