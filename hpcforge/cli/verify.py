"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them; or compare cables with the design."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpcforge.atomic import write_atomically
from hpcforge.blueprint.hostlist import fold
from hpcforge.blueprint.sections.hardware import Gpu
from hpcforge.blueprint.smoke_tests import Level
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.node_selection import tests_named
from hpcforge.cli.signals import in_good_order
from hpcforge.cli.site import open_site, say_not_rehearsed
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Cluster, SmokeTest
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.apply_text import baseline_lines, verdicts_text
from hpcforge.report.cabling_text import cabling_json, cabling_text
from hpcforge.report.event_stream import beside_document
from hpcforge.report.progress import Progress
from hpcforge.report.text import one_line, phases_line
from hpcforge.report.verification import (
    SCHEMA_VERSION,
    Report,
    ReportedVerdict,
    Source,
    blamed_parts,
    document,
    junit,
    node_identities,
    not_tested,
    reported_verdict,
)
from hpcforge.report.verification_html import verification_page
from hpcforge.run.commit import commit_of
from hpcforge.run.expectations import Expectations
from hpcforge.run.neighbours import ask
from hpcforge.run.result import UNREACHABLE, Reached
from hpcforge.run.site import Site, compile_site, open_engines, site_roles
from hpcforge.run.verify import Usable, Verification, VerifyRequest, expectations, keep, look, verify_now
from hpcforge.slurm.down_nodes import DownWorker
from hpcforge.verify.baselines import VERIFICATIONS_PATH, Baseline
from hpcforge.verify.cabling import CablingError, compare_with, read_saved
from hpcforge.verify.jobs import StoppedError
from hpcforge.verify.verdict_records import Recorded

# The report of a verification, put together from the site, what was asked and what was found.
_SHOWN = ("kernel", "driver", "firmware", "torch", "slurm", "hardware")  # of a fingerprint


def gpu_models(site: Site) -> Mapping[str, Gpu]:
    """The GPUs of the catalog and of the blueprint, by model."""
    return site.loaded.catalog.gpus


def verification_report(
    site: Site, usable: Usable, what: VerifyRequest, done: Verification, expected: Expectations
) -> Report:
    """All that the page, the JUnit file and the JSON are made from."""
    cluster = site.cluster
    tests = cluster.acceptance.tests if cluster.acceptance else ()
    by_name = {test.name: test for test in tests}
    verdicts = [_reported(by_name[result.verdict.test], result, expected, usable) for result in done.tests.reached]
    earlier = [kept.last for kept in usable.recorded.kept]
    prints = [expected.fingerprint(by_name[result.verdict.test], result.verdict) for result in done.tests.reached]
    why = f"not among {', '.join(what.names)}" if what.names else f"beyond the level {what.level}"
    return Report(
        schema_version=SCHEMA_VERSION,
        cluster=cluster.name,
        source=source(site),
        hpcforge=done.run.hpcforge,
        who=done.run.who,
        began_s=round(done.began_s, 1),
        ended_s=round(done.ended_s, 1),
        level=what.level,
        verdicts=tuple(verdicts),
        left_out={**usable.out, **{node: f"in use: {job}" for node, job in done.busy.items()}},
        missing=missing(site.cluster, usable, what),
        fell_out=done.tests.fell_out,
        drained=done.drained,
        not_drained=done.not_drained,
        resumed=done.resumed,
        not_tested=not_tested(done.tests, tests, why),
        software={key: ", ".join(sorted({each[key] for each in prints} - {""})) for key in _SHOWN},
        baseline=expected.baseline.name if expected.baseline else None,
        history=usable.kept.runs[-20:],
        identities=node_identities(cluster.nodes, expected.facts, (*earlier, *verdicts), blamed_parts(verdicts)),
    )


def missing(cluster: Cluster, usable: Usable, what: VerifyRequest) -> dict[str, str]:
    """Return the nodes that a verification is for and that are unreachable or take no job, with the reasons."""
    down = {worker.node for worker in usable.down}
    out = {node: why for node, why in usable.out.items() if node in down or why.startswith(UNREACHABLE)}
    return {
        node: why for node, why in out.items() if what.limit is None or node in {*what.limit, cluster.slurm.controller}
    }


def _reported(test: SmokeTest, result: Reached, expected: Expectations, usable: Usable) -> ReportedVerdict:
    kept = usable.recorded.of(test)
    before = kept.last if kept and kept.last.passed else None
    return reported_verdict(test, result.verdict, expected.differs(test, result.verdict), before)


def source(site: Site) -> Source:
    """The files of a site by digest, and their commit."""
    loaded, inventory, commit = site.loaded, site.own_inventory, commit_of(*site.files)
    return Source(
        str(loaded.blueprint_path),
        _sha256(loaded.blueprint_path, *loaded.included),
        str(inventory) if inventory else None,
        _sha256(inventory) if inventory else None,
        commit.id if commit else None,
        commit.dirty if commit else False,
    )


def _sha256(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_STOPPING = "ending the tests; press again to stop at once"


def verify(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    names: list[str] | None,
    limit: list[str] | None,
    level: Level,
    reserve: bool,
    gate: str | None,
    baseline: tuple[str, str] | None,
    usual: bool,
    outputs: tuple[Path | None, Path | None],
    cabling: bool,
    saved: Path | None,
    as_json: bool,
) -> int:
    """Run `hpcforge verify`. `outputs`: the JUnit file and the page. Returns the exit status."""
    if cabling:
        of_tests = (("--test", names), ("--limit", limit), ("--reserve", reserve), ("--gate", gate))
        for option, given in (*of_tests, ("--baseline", baseline), ("--junit", outputs[0]), ("--html", outputs[1])):
            if given:
                raise UsageError(f"{option} is for smoke tests", f"remove {option}, or --cabling")
        return _cabling(blueprint, inventory, lab, saved, as_json)
    if saved is not None:
        raise UsageError("--from is for --cabling", "add --cabling")
    site = open_site(blueprint, inventory, lab, None)
    tests_named(site.cluster, names or ())
    chosen = _limited(site.cluster, names or (), limit) if limit else None
    what = VerifyRequest(names, chosen, level, reserve, _gated(site.cluster, gate, limit))
    _check_outputs(outputs, baseline)
    with open_engines(site) as engine, beside_document(as_json=as_json) as progress:
        desired = compile_site(site_roles(site), {}, site.cluster)
        usable = look(engine, site.cluster, desired, progress, what.gate)
        known = _baseline(usable, baseline)
        expected = expectations(
            engine,
            site.cluster,
            usable,
            Expectations(
                site.cluster,
                site.loaded.fabrics,
                gpu_models(site),
                baseline=known,
                usual=usable.kept.usual if usual else {},
            ),
        )
        try:
            with in_good_order(progress.say, _STOPPING) as stop:
                done = verify_now(engine, site.cluster, usable, what, progress, stop, expected.weigh, site.fabric_plans)
        except StoppedError:
            for path in filter(None, outputs):
                printing.note(f"interrupted: {path} is not written\n")
            return Exit.INTERRUPTED
        save_as = baseline[1] if baseline and baseline[0] == "save" else None
        problem = keep(engine, site.cluster, usable, done, expected, save_as)
    if problem:
        printing.note(f"the numbers could not be kept on the head: {one_line(problem)}\n")
    report = verification_report(site, usable, what, done, expected)
    again = command_line("verify", blueprint, inventory=inventory, lab=lab, test=names, limit=limit)
    _print(report, done, usable.down, again, outputs, as_json=as_json)
    for line in baseline_lines(report, None if problem else baseline):
        printing.note(f"{line}\n")
    printing.note(phases_line(progress.human.phases, progress.human.elapsed_s))
    say_not_rehearsed(site, inventory)
    down = [worker for worker in usable.down if worker.node in report.missing]
    code = worst([Exit(exit_status(done, report.missing, down)), *[Exit.ERROR] * bool(problem and save_as)])
    progress.ended(code)
    return code


def exit_status(done: Verification, out: Mapping[str, str], down: Sequence[DownWorker] = ()) -> int:
    """Return the exit status; `out` are the nodes that were meant and left out, `down` those that take no job."""
    verdicts = [result.verdict for result in done.tests.reached]
    unreachable = [node for node, why in out.items() if why.startswith(UNREACHABLE)]
    failed = any(not verdict.passed and not verdict.waits_for for verdict in verdicts)
    refused = done.tests.fell_out or done.drained or done.not_drained or down
    codes = [Exit.BELOW] * (failed or bool(refused))
    codes += [Exit.PENDING] * any(verdict.waits_for for verdict in verdicts)  # users' jobs run: tested later
    if not verdicts:
        codes += [Exit.PENDING if done.busy or done.tests.waiting else Exit.BELOW]  # nothing was tested
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _print(
    report: Report,
    done: Verification,
    down: Sequence[DownWorker],
    again: str,
    outputs: tuple[Path | None, Path | None],
    *,
    as_json: bool,
) -> None:
    """Write the files, and print the verdicts."""
    junit_file, page = outputs
    if junit_file is not None:
        write_atomically(junit_file, junit(report))
        printing.note(f"written: {junit_file}\n")
    if page is not None:
        write_atomically(page, verification_page(report))
        printing.note(f"written: {page}\n")
    if as_json:
        printing.result(json.dumps(document(report), indent=2) + "\n")
        return
    text = verdicts_text(replace(done.tests, recorded=Recorded()), again, (), time.time())
    text += "".join(f"{one_line(f'left out: {worker.sentence}')}\n" for worker in down)
    text += "".join(f"{one_line(f'{node} left out: {why}')}\n" for node, why in done.busy.items())
    text += "".join(f"{one_line(f'{node} drained: {why}')}\n" for node, why in done.drained.items())
    text += "".join(f"{one_line(f'{node} not drained: {why}')}\n" for node, why in done.not_drained.items())
    text += "".join(f"{node} passed, and is in service again\n" for node in done.resumed)
    printing.result(text, "states")


def _baseline(usable: Usable, asked: tuple[str, str] | None) -> Baseline | None:
    """The baseline to compare with. Raises UsageError if the head does not have it."""
    if usable.kept.problem and asked:
        raise UsageError(
            f"the baselines on the head cannot be read: {usable.kept.problem}", f"remove {VERIFICATIONS_PATH}"
        )
    if asked is None or asked[0] != "compare":
        return None
    found = usable.kept.baseline(asked[1])
    if found is None:
        names = ", ".join(each.name for each in usable.kept.baselines)
        hint = f"baselines: {names}" if names else f"save one: --baseline save {asked[1]}"
        raise UsageError(f"the head has no baseline {asked[1]!r}", hint)
    return found


def _check_outputs(outputs: tuple[Path | None, Path | None], baseline: tuple[str, str] | None) -> None:
    """Raises UsageError for a file that cannot be written, and for a name that is none, before anything is tested."""
    for path in filter(None, outputs):
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{path} cannot be written: {path.absolute().parent} is not a folder", "make the folder")
    if baseline is not None and baseline[0] not in ("save", "compare"):
        raise UsageError(f"--baseline cannot {baseline[0]!r}", "save NAME, or compare NAME")
    if baseline is not None and not _NAME.fullmatch(baseline[1]):
        raise UsageError(f"{baseline[1]!r} is not a name of a baseline", "up to 40 letters, digits, . _ and -")


def _gated(cluster: Cluster, gate: str | None, limit: list[str] | None) -> str | None:
    """The node of --gate. Raises UsageError for what is no worker."""
    if gate is None:
        return None
    if limit:
        raise UsageError("--gate names its node itself", "remove --limit")
    workers = [node.name for node in cluster.workers]
    if gate not in workers:
        raise UsageError(f"{gate!r} is not a worker of the blueprint", f"workers: {fold(workers)}")
    return gate


def _limited(cluster: Cluster, names: Collection[str], limit: Sequence[str]) -> frozenset[str]:
    """The nodes that --limit means. Raises SelectionError, and UsageError where no test runs on any of them."""
    chosen = frozenset(select(cluster, limit, ()))
    tests = [test for test in cluster.acceptance.tests if not names or test.name in names] if cluster.acceptance else []
    if tests and all(chosen.isdisjoint(test.nodes) for test in tests):
        runs_on = "; ".join(f"{test.name} on {fold(test.nodes)}" for test in tests)
        raise UsageError(f"no test runs on {fold(sorted(chosen))}", f"tests run: {runs_on}")
    return chosen


def _cabling(blueprint: Path, inventory: Path | None, lab: str | None, saved: Path | None, as_json: bool) -> int:
    """Compare real cables with the design. Unchecked cables are counted, and are not an error."""
    try:
        if saved is not None:
            loaded = _with_fabrics(load(blueprint, inventory), blueprint)
            heard, silent, unreachable = read_saved(saved, loaded.fabrics), dict[str, str](), frozenset[str]()
        else:
            site = open_site(blueprint, inventory, lab, None)
            if site.stand_ins:
                raise UsageError("a rehearsal has no cables", "remove --lab, or --cabling")
            loaded = _with_fabrics(site.loaded, blueprint)
            with open_engines(site) as engine, Progress() as progress, progress.phase("ask"):
                asked = ask(engine, site.cluster)
            heard, silent, unreachable = asked.heard, dict(asked.silent), asked.unreachable
    except CablingError as error:
        raise UsageError(str(error), "see docs/cabling.md") from error
    compared = compare_with(loaded, heard)
    silent |= dict.fromkeys(compared.unreported, f"no report in {saved}") if saved is not None else {}
    report, doubts = compared.report, compared.doubts
    if as_json:
        printing.result(json.dumps(cabling_json(report, doubts, silent, heard.left_out), indent=2) + "\n")
    else:
        printing.result(cabling_text(report, doubts, silent, heard.left_out))
    codes = [Exit.BELOW] * bool(report.findings or heard.left_out) + [Exit.FAILED] * bool(set(silent) - unreachable)
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _with_fabrics(loaded: Loaded, blueprint: Path) -> Loaded:
    if not loaded.fabrics:
        raise UsageError(f"{blueprint} has no fabrics", "describe them under `fabrics`: docs/fabric.md")
    return loaded
