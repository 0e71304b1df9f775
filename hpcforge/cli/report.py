"""`hpcforge report`: documents about a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from hpcforge import __version__
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.node_selection import choose
from hpcforge.cli.plan import exit_code
from hpcforge.cli.site import open_site
from hpcforge.command_hint import command_line
from hpcforge.report import printing
from hpcforge.report.acceptance import AcceptanceBasis, AcceptanceReport, acceptance_json, acceptance_report
from hpcforge.report.acceptance_html import acceptance_page
from hpcforge.report.text import one_line, table
from hpcforge.run.commit import commit_of
from hpcforge.run.make_plan import compare
from hpcforge.run.result import begin
from hpcforge.run.site import goal, open_engines
from hpcforge.run.status import past_runs
from hpcforge.verify.verdict_records import VERDICTS_PATH, load


def acceptance(
    *,
    blueprint: Path,
    html: Path | None,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    last: int,
    as_json: bool,
) -> int:
    """Run `hpcforge report acceptance`. Returns the exit status."""
    site = open_site(blueprint, inventory, lab, identity)
    wanted = goal(site, make=False)
    choice = choose(site, wanted.desired, None, None, None, None, None)
    with open_engines(site) as engines:
        found = compare(site, engines, engines, wanted, choice, _say)
        runs, away = past_runs(engines, site.cluster, last, site.kept_as)
    if away is not None:
        _say(f"past runs are as this host last saw them: {away}")
    recorded = load(found.survey.head.reads.get(VERDICTS_PATH))
    if recorded.problem:
        _say(f"the last verdicts cannot be read: {recorded.problem}")
    report = acceptance_report(
        AcceptanceBasis(
            cluster=site.cluster,
            blueprint=str(blueprint),
            overrides=site.loaded.blueprint.overrides,
            commit=commit_of(*site.files),
            hpcforge=__version__,
            who=begin(site.cluster.name, __version__).who,
            made_s=time.time(),
            observed=found.survey.observed,
            head=found.survey.head,
            plan=found.plan,
            recorded=recorded,
            runs=runs,
            warnings=tuple(entry.message for entry in site.loaded.diagnostics if entry.severity == "warning"),
            not_real=tuple(stand_in.sentence for stand_in in site.stand_ins),
        )
    )
    if html is not None:
        printing.page(html, acceptance_page(report, site.cluster))
    if as_json:
        printing.result(json.dumps(acceptance_json(report), indent=2) + "\n")
    else:
        printing.result(_text(report))
        again = command_line("verify" if report.judgement == "not accepted" else "status", blueprint, lab=lab)
        printing.note(f"Next: {again}\n")
    return worst(_codes(report, exit_code(found.plan)))


def _text(report: AcceptanceReport) -> str:
    """The sentence, and the exceptions."""
    rows = [
        (found.kind, fold(found.nodes) if found.nodes else "-", found.what, found.why) for found in report.exceptions
    ]
    text = f"{report.cluster}: {report.sentence}\n"
    return text + (table(("exception", "nodes", "what", "why"), rows, columns=printing.columns()) if rows else "")


def _codes(report: AcceptanceReport, planned: Exit) -> Iterator[Exit]:
    yield planned
    if any(test.status != "passed" for test in report.tests) or not report.tests:
        yield Exit.BELOW


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")
