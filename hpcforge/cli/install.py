"""`--install` of `plan` and `apply`: nodes without an operating system get one while a run is at work on the others."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli import signals
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.netboot import confirm, console_text, refuse_lab
from hpcforge.cli.options import HTTP_PORT, InstallOptions
from hpcforge.cluster.select import select
from hpcforge.errors import ExpectedError, UsageError
from hpcforge.metal import install as work
from hpcforge.metal.arrivals import Arrivals
from hpcforge.metal.install import Installation
from hpcforge.metal.netboot import services
from hpcforge.metal.power import boot_warnings
from hpcforge.metal.serve import default_key, disks_to_wipe, image_named, served
from hpcforge.plan.plan import Install, Plan
from hpcforge.report import printing
from hpcforge.report.event_stream import installed
from hpcforge.report.plan_text import installs_text
from hpcforge.report.text import by_reason, lines_text, one_line, table
from hpcforge.run.site import Site


def planned(
    site: Site, asked: InstallOptions, inventory: Path | None, *, trust: bool, plan_file: Path | None
) -> Sequence[Install]:
    """Return what would be installed; prints which nodes are not, and why. Raises as `run.install.choose` does."""
    if asked.install is None:
        raise UsageError("--wipe, --image and --proxy-dhcp belong to --install", "add --install NODES")
    if trust:
        raise UsageError("--install records host keys itself", "remove --trust-new, or use it in an apply before")
    if plan_file is not None:
        raise UsageError("a plan file is for nodes that answer", "install first: apply --install without a plan file")
    refuse_lab(site, inventory)
    names = select(site.cluster, [asked.install], ())
    chosen, kept = work.choose(site, names, disks_to_wipe(asked.wipe or (), names), image_named(asked.image))
    for nodes, _, why in by_reason(kept):
        printing.note(f"{nodes}: not installed: {one_line(why)}\n")
    installed_nodes = [site.cluster.by_name[install.node] for install in chosen]
    printing.note(render_all(site.loaded.without_driver(installed_nodes)))
    return _with_warnings(site, chosen)


def _with_warnings(site: Site, installs: Sequence[Install]) -> Sequence[Install]:
    try:
        of = boot_warnings(site, [install.node for install in installs])
    except ExpectedError as error:
        printing.note(f"management controllers were not asked: {one_line(str(error))}\n")
        return installs
    return tuple(dataclasses.replace(install, warnings=of.get(install.node, ())) for install in installs)


def with_installs(plan: Plan, installs: Sequence[Install]) -> Plan:
    """Return the plan with what is installed, which is no longer called unreachable."""
    nodes = {install.node for install in installs}
    silent = {name: why for name, why in plan.unreachable.items() if name not in nodes}
    return dataclasses.replace(plan, installs=tuple(installs), unreachable=silent)


@contextmanager
def beside(
    site: Site, installs: Sequence[Install], reopen: Callable[[], Site], *, proxy_dhcp: bool, yes: bool, as_json: bool
) -> Iterator[Arrivals | None]:
    """Show, ask, and install while entered; entered when the controller is installed, or cannot be. None: no node.

    Raises as `run.netboot.served` and `services.serving` do, and at the end what ended the installation of all.
    """
    if not installs:
        yield None
        return
    tell = printing.note if as_json else printing.result
    tell(lines_text(installs_text(installs)))
    printing.flush()
    names = [install.node for install in installs]
    confirm(names, [install.node for install in installs if install.wipes], yes)
    signals.at_once()
    said: SimpleQueue[str] = SimpleQueue()
    image, key, head = image_named(installs[0].image), default_key(site), site.cluster.slurm.controller
    with (
        served(site, image, None, HTTP_PORT, proxy_dhcp, key, said.put) as what,
        services.serving(what) as check,
    ):
        services.started(check)
        arrivals = Arrivals(site, installs, check, reopen, said)
        try:
            with arrivals:
                if head in names and not arrivals.wait([head], _say):
                    arrivals.wait(names, _say)  # nothing else can begin without it
                if arrivals.error is not None:
                    raise arrivals.error
                yield arrivals
        finally:
            arrivals.news(_say)


def ended(arrivals: Arrivals, say: Callable[[str], None], *, wait: bool, as_json: bool) -> Exit:
    """Return the exit status of all installations that have ended, and print them for programs."""
    if wait:  # for nodes that the run was not for
        arrivals.wait(arrivals.under_way(), say)
    done = arrivals.results()
    for node in done if as_json else ():
        printing.line(installed(node))
    return Exit.FAILED if any(node.why for node in done) else Exit.DONE


def show(arrivals: Arrivals) -> None:
    """Print how each installation ended, with the console of those that failed."""
    done = arrivals.results()
    printing.result(_table(done))
    for node in done:
        printing.result(console_text(node.node, node.console))
    failed = [node.node for node in done if node.why]
    if failed:
        printing.note(f"left out of this run, switched on as they are: {fold(failed)}\n")


def _table(done: Sequence[Installation]) -> str:
    rows = [
        [
            node.node,
            "failed" if node.why else "installed",
            str(node.tries),
            *(_seconds(node, phase) for phase in work.PHASES),
            one_line(node.why) or "-",
        ]
        for node in done
    ]
    return table(("node", "result", "tries", *(f"{phase}, s" for phase in work.PHASES), "why"), rows)


def _seconds(done: Installation, phase: str) -> str:
    return f"{done.phases_s[phase]:.0f}" if phase in done.phases_s else "-"


def _say(text: str) -> None:
    printing.note(f"{time.strftime('%H:%M:%S')} {one_line(text)}\n")
