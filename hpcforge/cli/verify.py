"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them; or compare cables with the design."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcforge.cli import completion
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, ClusterOptions, Limit
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line

if TYPE_CHECKING:
    from hpcforge.cluster import Loaded
    from hpcforge.cluster.model import Cluster
    from hpcforge.design.fabric.neighbour_matching import Heard
    from hpcforge.engines import Engines
    from hpcforge.report.verification import Report
    from hpcforge.run.expectations import Expectations
    from hpcforge.run.site import Site
    from hpcforge.run.verify import Usable, Verification
    from hpcforge.slurm.down_nodes import DownWorker
    from hpcforge.verify.baselines import Baseline

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_STOPPING = "ending the tests; press again to stop at once"


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """Options of `hpcforge verify`."""

    cluster: ClusterOptions
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            help="Run only this test, on all its nodes. Repeatable.",
            metavar="TEST",
            show_default=False,
            autocompletion=completion.tests,
        ),
    ] = None
    limit: Limit = None
    level: Annotated[
        Literal["smoke", "quick", "standard"],
        typer.Option("--level", help="Run the tests of this level and of those before it: smoke, quick, standard."),
    ] = "smoke"
    reserve: Annotated[
        bool,
        typer.Option(
            "--reserve",
            help="Test only idle nodes, in a Slurm reservation; leave nodes with jobs alone; drain nodes that fail.",
        ),
    ] = False
    gate: Annotated[
        str | None,
        typer.Option(
            "--gate",
            help="Test this drained node, and resume it only if it passes.",
            metavar="NODE",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None
    baseline: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--baseline",
            help="Save the numbers on the head as this baseline, or compare them with the baseline.",
            metavar="save|compare NAME",
            show_default=False,
        ),
    ] = None
    usual: Annotated[
        bool,
        typer.Option("--usual/--no-usual", help="Compare rates of tests without other limits with their last runs."),
    ] = True
    junit: Annotated[
        Path | None,
        typer.Option("--junit", help="Write the results as JUnit XML.", metavar="FILE", show_default=False),
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write the results as one self-contained page.", metavar="FILE", show_default=False
        ),
    ] = None
    cabling: Annotated[
        bool, typer.Option("--cabling", help="Compare the cabling with the design instead of running tests.")
    ] = False
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="With --cabling: read NODE.lldp.json and FABRIC.ibnetdiscover from this folder instead of asking "
            "nodes.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None
    as_json: AsJson = False

    @property
    def outputs(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.junit, self.html) if path is not None]

    @property
    def save_as(self) -> str | None:
        """The name of the baseline to save."""
        return self.baseline[1] if self.baseline and self.baseline[0] == "save" else None


@verb(
    epilog="Examples: hpcforge verify blueprints/rehearsal.yaml; hpcforge verify SITE.yaml --reserve --html "
    "page.html; hpcforge verify SITE.yaml --gate w03"
)
def verify(options: VerifyOptions) -> int:
    """
    Run the tests through Slurm, without unreachable and drained nodes, which are named. The results can be written as a
    page, as JUnit XML and as JSON.
    """
    if options.cabling:
        _check_cabling(options)
        return _cabling(options)
    if options.saved is not None:
        raise UsageError("--from is for --cabling", "add --cabling")
    return _test(options)


def _check_cabling(options: VerifyOptions) -> None:
    """Raise `UsageError` for an option of smoke tests."""
    for name in ("test", "limit", "reserve", "gate", "baseline", "junit", "html"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for smoke tests", f"remove --{name}, or --cabling")


def _test(options: VerifyOptions) -> int:
    from hpcforge.cli.node_selection import tests_named
    from hpcforge.cli.signals import in_good_order
    from hpcforge.cli.site import open_site, say_not_rehearsed
    from hpcforge.report.event_stream import beside_document
    from hpcforge.report.site_verification import verification_report
    from hpcforge.report.text import phases_line
    from hpcforge.run.site import compile_site, open_engines, site_roles
    from hpcforge.run.verify import VerifyRequest, keep, look, verify_now
    from hpcforge.verify.jobs import StoppedError

    blueprint, inventory, lab = vars(options.cluster).values()
    names, limit = options.test, options.limit
    site = open_site(blueprint, inventory, lab, None)
    cluster = site.cluster
    tests_named(cluster, names or ())
    chosen = _limited(cluster, names or (), limit) if limit else None
    request = VerifyRequest(names, chosen, options.level, options.reserve, _gated(cluster, options.gate, limit))
    _check_outputs(options.outputs, options.baseline)
    with open_engines(site) as engine, beside_document(as_json=options.as_json) as progress:
        usable = look(engine, cluster, compile_site(site_roles(site), {}, cluster), progress, request.gate)
        expected = _expected(options, site, engine, usable)
        try:
            with in_good_order(progress.say, _STOPPING) as stop:
                verification = verify_now(engine, usable, request, expected, progress, stop, site.fabric_plans)
        except StoppedError:
            for path in options.outputs:
                printing.note(f"interrupted: {path} is not written\n")
            return Exit.INTERRUPTED
        problem = keep(engine, cluster, usable, verification, expected, options.save_as)
    report = verification_report(site, usable, request, verification, expected)
    code = _finish(options, usable, verification, report, problem)
    printing.note(phases_line(progress.human.phases, progress.human.elapsed_s))
    say_not_rehearsed(site, inventory)
    progress.ended(code)
    return code


def _finish(
    options: VerifyOptions, usable: Usable, verification: Verification, report: Report, problem: str | None
) -> Exit:
    """Print the results. Returns the exit status. `problem`: the reason why the head could not keep them."""
    from hpcforge.report.apply_text import baseline_lines

    if problem:
        printing.note(f"the head could not save the numbers: {one_line(problem)}\n")
    _print(options, report, verification, usable.down)
    for line in baseline_lines(report, None if problem else options.baseline):
        printing.note(f"{line}\n")
    down = [worker for worker in usable.down if worker.node in report.missing]
    failed = [Exit.ERROR] * bool(problem and options.save_as)
    return worst([Exit(exit_status(verification, report.missing, down)), *failed])


def _expected(options: VerifyOptions, site: Site, engine: Engines, usable: Usable) -> Expectations:
    """Return the expectations to which numbers are compared."""
    from hpcforge.report.site_verification import gpu_models
    from hpcforge.run.expectations import Expectations
    from hpcforge.run.verify import expectations

    usual = usable.kept.usual if options.usual else {}
    baseline = _baseline(usable, options.baseline)
    expected = Expectations(site.cluster, site.loaded.fabrics, gpu_models(site), baseline=baseline, usual=usual)
    return expectations(engine, site.cluster, usable, expected)


def exit_status(verification: Verification, out: Mapping[str, str], down: Sequence[DownWorker] = ()) -> int:
    """Return the exit status. `out`: selected nodes that were left out. `down`: workers that take no job."""
    from hpcforge.run.result import UNREACHABLE

    verdicts = [result.verdict for result in verification.tests.reached]
    unreachable = [node for node, reason in out.items() if reason.startswith(UNREACHABLE)]
    failed = any(not verdict.passed and not verdict.waits_for for verdict in verdicts)
    refused = verification.tests.fell_out or verification.drained or verification.not_drained or down
    codes = [Exit.BELOW] * (failed or bool(refused))
    codes += [Exit.PENDING] * any(verdict.waits_for for verdict in verdicts)  # users' jobs run: tested later
    if not verdicts:
        codes += [Exit.PENDING if verification.busy or verification.tests.waiting else Exit.BELOW]  # nothing was tested
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _print(options: VerifyOptions, report: Report, verification: Verification, down: Sequence[DownWorker]) -> None:
    """Write the files, and print the verdicts."""
    from hpcforge.atomic import write_atomically
    from hpcforge.report.apply_text import verdicts_text
    from hpcforge.report.html.verification import verification_page
    from hpcforge.report.verification import document, junit
    from hpcforge.verify.verdict_records import Recorded

    if options.junit is not None:
        write_atomically(options.junit, junit(report))
        printing.note(f"written: {options.junit}\n")
    if options.html is not None:
        write_atomically(options.html, verification_page(report))
        printing.note(f"written: {options.html}\n")
    if options.as_json:
        printing.result(json.dumps(document(report), indent=2) + "\n")
        return
    cluster = options.cluster
    selected = {"test": options.test, "limit": options.limit}
    command = command_line("verify", cluster.blueprint, inventory=cluster.inventory, lab=cluster.lab, **selected)
    text = verdicts_text(replace(verification.tests, recorded=Recorded()), command, (), time.time())
    text += "".join(f"{one_line(f'left out: {worker.sentence}')}\n" for worker in down)
    text += "".join(f"{one_line(f'{node} left out: {reason}')}\n" for node, reason in verification.busy.items())
    text += "".join(f"{one_line(f'{node} drained: {reason}')}\n" for node, reason in verification.drained.items())
    text += "".join(
        f"{one_line(f'{node} not drained: {reason}')}\n" for node, reason in verification.not_drained.items()
    )
    text += "".join(f"{node} passed, and is in service again\n" for node in verification.resumed)
    printing.result(text)


def _baseline(usable: Usable, option: tuple[str, str] | None) -> Baseline | None:
    """Return the baseline to compare with. Raises UsageError if the head does not have it."""
    from hpcforge.verify.baselines import VERIFICATIONS_PATH

    if usable.kept.problem and option:
        raise UsageError(
            f"the baselines on the head cannot be read: {usable.kept.problem}", f"remove {VERIFICATIONS_PATH}"
        )
    if option is None or option[0] != "compare":
        return None
    baseline = usable.kept.baseline(option[1])
    if baseline is None:
        names = ", ".join(stored.name for stored in usable.kept.baselines)
        hint = f"baselines: {names}" if names else f"save one: --baseline save {option[1]}"
        raise UsageError(f"the head has no baseline {option[1]!r}", hint)
    return baseline


def _check_outputs(outputs: Sequence[Path], baseline: tuple[str, str] | None) -> None:
    """Raise `UsageError` before the tests for a file that cannot be written and for an invalid name."""
    for path in outputs:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{path} cannot be written: {path.absolute().parent} is not a folder", "make the folder")
    if baseline is not None and baseline[0] not in ("save", "compare"):
        raise UsageError(f"--baseline cannot {baseline[0]!r}", "save NAME, or compare NAME")
    if baseline is not None and not _NAME.fullmatch(baseline[1]):
        raise UsageError(f"{baseline[1]!r} is not a name of a baseline", "up to 40 letters, digits, . _ and -")


def _gated(cluster: Cluster, gate: str | None, limit: list[str] | None) -> str | None:
    """Return the node of --gate. Raises UsageError if it is not a worker."""
    from hpcforge.blueprint.hostlist import fold

    if gate is None:
        return None
    if limit:
        raise UsageError("--gate names its node itself", "remove --limit")
    workers = [node.name for node in cluster.workers]
    if gate not in workers:
        raise UsageError(f"{gate!r} is not a worker of the blueprint", f"workers: {fold(workers)}")
    return gate


def _limited(cluster: Cluster, names: Collection[str], limit: Sequence[str]) -> frozenset[str]:
    """Return the nodes of --limit. Raises SelectionError, and UsageError where no test runs on any of them."""
    from hpcforge.blueprint.hostlist import fold
    from hpcforge.cluster.select import select

    chosen = frozenset(select(cluster, limit, ()))
    tests = [test for test in cluster.acceptance.tests if not names or test.name in names] if cluster.acceptance else []
    if tests and all(chosen.isdisjoint(test.nodes) for test in tests):
        runs_on = "; ".join(f"{test.name} on {fold(test.nodes)}" for test in tests)
        raise UsageError(f"no test runs on {fold(sorted(chosen))}", f"tests run: {runs_on}")
    return chosen


def _cabling(options: VerifyOptions) -> int:
    """Compare real cables with the design. Counts unchecked cables, which are not an error."""
    from hpcforge.report.cabling_text import cabling_json, cabling_text
    from hpcforge.verify.cabling import CablingError, compare_with

    try:
        loaded, answers, silent, unreachable = _neighbours(options)
    except CablingError as error:
        raise UsageError(str(error), "see docs/cabling.md") from error
    compared = compare_with(loaded, answers)
    if options.saved is not None:
        silent |= dict.fromkeys(compared.unreported, f"no report in {options.saved}")
    report, doubts, left_out = compared.report, compared.doubts, answers.left_out
    if options.as_json:
        printing.result(json.dumps(cabling_json(report, doubts, silent, left_out), indent=2) + "\n")
    else:
        printing.result(cabling_text(report, doubts, silent, left_out))
    codes = [Exit.BELOW] * bool(report.findings or left_out) + [Exit.FAILED] * bool(set(silent) - unreachable)
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _neighbours(options: VerifyOptions) -> tuple[Loaded, Heard, dict[str, str], frozenset[str]]:
    """Read or ask for the neighbours of nodes. Also returns the silent nodes, and the unreachable ones among them."""
    from hpcforge.cli.site import open_site
    from hpcforge.cluster import load
    from hpcforge.report.progress import Progress
    from hpcforge.run.neighbours import ask
    from hpcforge.run.site import open_engines
    from hpcforge.verify.cabling import read_saved

    blueprint, inventory, lab = vars(options.cluster).values()
    if options.saved is not None:
        loaded = _with_fabrics(load(blueprint, inventory), blueprint)
        answers, silent, unreachable = read_saved(options.saved, loaded.fabrics), dict[str, str](), frozenset[str]()
        return loaded, answers, silent, unreachable
    site = open_site(blueprint, inventory, lab, None)
    if site.stand_ins:
        raise UsageError("a rehearsal has no cables", "remove --lab, or --cabling")
    loaded = _with_fabrics(site.loaded, blueprint)
    with open_engines(site) as engine, Progress() as progress, progress.phase("ask"):
        neighbours = ask(engine, site.cluster)
    return loaded, neighbours.heard, dict(neighbours.silent), neighbours.unreachable


def _with_fabrics(loaded: Loaded, blueprint: Path) -> Loaded:
    if not loaded.fabrics:
        raise UsageError(f"{blueprint} has no fabrics", "describe them under `fabrics`: docs/fabric.md")
    return loaded
