"""`hpcforge report`: documents about a cluster, from the answers of its nodes and its head."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, Blueprint, Identity, Inventory, LabName, SelectOptions
from hpcforge.cli.verb import VerbGroup
from hpcforge.command_hint import command_line
from hpcforge.report import printing
from hpcforge.report.text import one_line, table

if TYPE_CHECKING:
    from hpcforge.report.acceptance import AcceptanceBasis, AcceptanceReport
    from hpcforge.run.site import Site

report = VerbGroup()


@dataclass(frozen=True, kw_only=True)
class AcceptanceOptions:
    """Options of `hpcforge report acceptance`."""

    blueprint: Blueprint
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page to this file.", metavar="FILE", show_default=False),
    ] = None
    inventory: Inventory = None
    lab: LabName = None
    identity: Identity = None
    last: Annotated[int, typer.Option("--last", help="The number of past runs in it.", min=0, metavar="N")] = 20
    as_json: AsJson = False


@report.verb(epilog="Example: hpcforge report acceptance site.yaml --html acceptance.html")
def acceptance(options: AcceptanceOptions) -> int:
    """Report what was required, what was built, and which nodes passed which tests.

    Also every exception with its reason, drift, versions and the commit. Reads nodes and head as `plan` does. Exits
    with 7 if a test has not passed, with 4 if nodes do not answer, and with 2 if changes are pending.
    """
    from hpcforge.cli.plan import exit_code
    from hpcforge.cli.site import open_site
    from hpcforge.report.acceptance import acceptance_json, acceptance_report
    from hpcforge.report.html.acceptance import acceptance_page

    site = open_site(options.blueprint, options.inventory, options.lab, options.identity)
    basis = _basis(options, site)
    made = acceptance_report(basis)
    if options.html is not None:
        printing.page(options.html, acceptance_page(made, site.cluster))
    if options.as_json:
        printing.result(json.dumps(acceptance_json(made), indent=2) + "\n")
    else:
        printing.result(_text(made))
        name = "verify" if made.judgement == "not accepted" else "status"
        printing.note(f"Next: {command_line(name, options.blueprint, lab=options.lab)}\n")
    return worst(_codes(made, exit_code(basis.plan)))


def _basis(options: AcceptanceOptions, site: Site) -> AcceptanceBasis:
    """Ask nodes and head for the facts of the report."""
    from hpcforge import __version__
    from hpcforge.cli.node_selection import choose
    from hpcforge.host.commit import commit_of
    from hpcforge.report.acceptance import AcceptanceBasis
    from hpcforge.run.make_plan import compare
    from hpcforge.run.result import begin
    from hpcforge.run.site import goal, open_engines
    from hpcforge.run.status import past_runs
    from hpcforge.verify.verdict_records import VERDICTS_PATH, load

    target = choose(site, goal(site, make=False), SelectOptions())
    with open_engines(site) as engines:
        survey, plan = compare(site, engines, engines, target, _say)
        runs, away = past_runs(engines, site.cluster, options.last, site.kept_as)
    if away is not None:
        _say(f"past runs are as this host last saw them: {away}")
    recorded = load(survey.head.reads.get(VERDICTS_PATH))
    if recorded.problem:
        _say(f"the last verdicts cannot be read: {recorded.problem}")
    return AcceptanceBasis(
        cluster=site.cluster,
        blueprint=str(options.blueprint),
        overrides=site.loaded.blueprint.overrides,
        commit=commit_of(*site.files),
        hpcforge=__version__,
        who=begin(site.cluster.name, __version__).who,
        made_s=time.time(),
        observed=survey.observed,
        head=survey.head,
        plan=plan,
        recorded=recorded,
        runs=runs,
        warnings=tuple(entry.message for entry in site.loaded.diagnostics if entry.severity == "warning"),
        not_real=tuple(stand_in.sentence for stand_in in site.stand_ins),
    )


def _text(report: AcceptanceReport) -> str:
    """Return the sentence, and the exceptions."""
    from hpcforge.blueprint.hostlist import fold

    rows = [
        (exception.kind, fold(exception.nodes) if exception.nodes else "-", exception.what, exception.why)
        for exception in report.exceptions
    ]
    text = f"{report.cluster}: {report.sentence}\n"
    return text + (table(("exception", "nodes", "what", "why"), rows, columns=printing.columns()) if rows else "")


def _codes(report: AcceptanceReport, planned: Exit) -> Iterator[Exit]:
    yield planned
    if any(test.status != "passed" for test in report.tests) or not report.tests:
        yield Exit.BELOW


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")
