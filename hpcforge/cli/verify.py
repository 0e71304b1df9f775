"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them; or compare cables with the design."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.signals import in_good_order
from hpcforge.cli.site import open_site, say_not_rehearsed
from hpcforge.cluster import Loaded, load
from hpcforge.cluster.model import Cluster
from hpcforge.cluster.select import select
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.fabric.as_built import compare
from hpcforge.fabric.cable_index import Drawn
from hpcforge.fabric.neighbour_matching import Heard, Recognised, recognise
from hpcforge.report import printing
from hpcforge.report.apply_text import phases_line
from hpcforge.report.cabling_text import cabling_json, cabling_text
from hpcforge.report.progress import Progress
from hpcforge.report.verdicts_text import verdicts_text
from hpcforge.run.neighbours import ask
from hpcforge.run.observe import UNREACHABLE
from hpcforge.run.site import open_engines
from hpcforge.run.verify import look, verify_now
from hpcforge.verify.cabling import CablingError, read_saved
from hpcforge.verify.jobs import StoppedError
from hpcforge.verify.verdict_records import Recorded

_STOPPING = "ending the tests; press again to stop at once"


def verify(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    names: list[str] | None,
    limit: list[str] | None,
    cabling: bool,
    saved: Path | None,
    as_json: bool,
) -> int:
    """Run `hpcforge verify`. Returns the exit status."""
    if cabling:
        for option, given in (("--test", names), ("--limit", limit)):
            if given:
                raise UsageError(f"{option} is for smoke tests", f"remove {option}, or --cabling")
        return _cabling(blueprint, inventory, lab, saved, as_json)
    if saved is not None:
        raise UsageError("--from is for --cabling", "add --cabling")
    site = open_site(blueprint, inventory, lab, None)
    _check_known(site.cluster, names or ())
    chosen = _limited(site.cluster, names or (), limit) if limit else None
    with open_engines(site) as engine, Progress() as progress:
        usable = look(engine, site.cluster, progress)
        out = usable.out
        try:
            with in_good_order(progress.say, _STOPPING) as stop:
                tests = verify_now(engine, site.cluster, usable, names, chosen, progress, stop, site.fabric_plans)
        except StoppedError:
            return Exit.INTERRUPTED
    verdicts = [result.verdict for result in tests.reached]
    if as_json:
        entries = [asdict(verdict) for verdict in verdicts]
        told = {"schema_version": 1, "verdicts": entries, "left_out": out, "fell_out": tests.fell_out}
        printing.result(json.dumps(told, indent=2) + "\n")
    else:
        again = command_line("verify", blueprint, inventory=inventory, lab=lab, test=names, limit=limit)
        printing.result(verdicts_text(replace(tests, recorded=Recorded()), again, (), time.time()), "states")
    printing.note(phases_line(progress.phases, progress.elapsed_s))
    say_not_rehearsed(site, inventory)
    meant = out if chosen is None else {node: why for node, why in out.items() if node in chosen}
    unreachable = [node for node, why in meant.items() if why.startswith(UNREACHABLE)]
    failed = any(not verdict.passed and not verdict.waits_for for verdict in verdicts)
    codes = [Exit.BELOW] * (failed or bool(tests.fell_out))
    codes += [Exit.PENDING] * any(verdict.waits_for for verdict in verdicts)  # users' jobs run: tested later
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _check_known(cluster: Cluster, names: Collection[str]) -> None:
    """Raises UsageError for a test that the blueprint does not have."""
    known = list(dict.fromkeys(test.name for test in cluster.acceptance.tests)) if cluster.acceptance else []
    for name in names:
        if name not in known:
            has = f"tests: {', '.join(known)}" if known else "name it under `acceptance.tests`: docs/blueprint.md"
            raise UsageError(f"the blueprint has no test {name!r}", has)


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
    seen = _recognised(loaded, heard)
    report = compare(Drawn.of(cables.labels for cables in loaded.cables), seen.seen)
    if as_json:
        printing.result(json.dumps(cabling_json(report, seen.doubts, silent), indent=2) + "\n")
    else:
        printing.result(cabling_text(report, seen.doubts, silent))
    codes = [Exit.BELOW] * bool(report.findings) + [Exit.FAILED] * bool(set(silent) - unreachable)
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))


def _with_fabrics(loaded: Loaded, blueprint: Path) -> Loaded:
    if not loaded.fabrics:
        raise UsageError(f"{blueprint} has no fabrics", "describe them under `fabrics`: docs/fabric.md")
    return loaded


def _recognised(loaded: Loaded, heard: Heard) -> Recognised:
    specs = loaded.blueprint.fabrics
    return recognise(
        loaded.fabrics,
        heard,
        loaded.switch_said,
        {node.name: node.hardware for node in loaded.cluster.nodes},
        {name: spec.interfaces for name, spec in specs.items() if spec.interfaces},
        [fabric.name for fabric in loaded.cluster.fabrics if fabric.lldp],
    )
