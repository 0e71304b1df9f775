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
    site: Site, options: InstallOptions, inventory: Path | None, *, trust: bool, plan_file: Path | None
) -> Sequence[Install]:
    """Return the installations; print the other nodes with reasons. Raises the errors of `metal.install.choose`."""
    if options.install is None:
        raise UsageError("--wipe, --image and --proxy-dhcp belong to --install", "add --install NODES")
    if trust:
        raise UsageError("--install records host keys itself", "remove --trust-new, or use it in an apply before")
    if plan_file is not None:
        raise UsageError("a plan file is for nodes that answer", "install first: apply --install without a plan file")
    refuse_lab(site, inventory)
    names = select(site.cluster, [options.install], ())
    chosen, left_out = work.choose(site, names, disks_to_wipe(options.wipe or (), names), image_named(options.image))
    for nodes, _, reason in by_reason(left_out):
        printing.note(f"{nodes}: not installed: {one_line(reason)}\n")
    installed_nodes = [site.cluster.by_name[install.node] for install in chosen]
    printing.note(render_all(site.loaded.without_driver(installed_nodes)))
    return _with_warnings(site, chosen)


def _with_warnings(site: Site, installs: Sequence[Install]) -> Sequence[Install]:
    try:
        warnings = boot_warnings(site, [install.node for install in installs])
    except ExpectedError as error:
        printing.note(f"management controllers were not asked: {one_line(str(error))}\n")
        return installs
    return tuple(dataclasses.replace(install, warnings=warnings.get(install.node, ())) for install in installs)


def with_installs(plan: Plan, installs: Sequence[Install]) -> Plan:
    """Return the plan with the installations; their nodes no longer count as unreachable."""
    nodes = {install.node for install in installs}
    silent = {name: why for name, why in plan.state.unreachable.items() if name not in nodes}
    changes = dataclasses.replace(plan.changes, installs=tuple(installs))
    return dataclasses.replace(plan, changes=changes, state=dataclasses.replace(plan.state, unreachable=silent))


@contextmanager
def install_nodes(
    site: Site, installs: Sequence[Install], reopen: Callable[[], Site], *, proxy_dhcp: bool, yes: bool, as_json: bool
) -> Iterator[Arrivals | None]:
    """Show the installations, ask, and install while the context is open. Yields None without nodes to install.

    The context opens when the controller is installed, or has failed. Raises the errors of `metal.serve.served` and
    `services.serving`, and at the end the error that stopped all installations.
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
    messages: SimpleQueue[str] = SimpleQueue()
    image, key, head = image_named(installs[0].image), default_key(site), site.cluster.slurm.controller
    with (
        served(site, image, None, HTTP_PORT, proxy_dhcp, key, messages.put) as boots,
        services.serving(boots) as check,
    ):
        services.started(check)
        arrivals = Arrivals(site, installs, check, reopen, messages)
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
    if wait:  # nodes outside the run may still be installing
        arrivals.wait(arrivals.under_way(), say)
    installations = arrivals.results()
    for installation in installations if as_json else ():
        printing.line(installed(installation))
    return Exit.FAILED if any(installation.why for installation in installations) else Exit.DONE


def show(arrivals: Arrivals) -> None:
    """Print how each installation ended, with the console of those that failed."""
    installations = arrivals.results()
    printing.result(_table(installations))
    for installation in installations:
        printing.result(console_text(installation.node, installation.console))
    failed = [installation.node for installation in installations if installation.why]
    if failed:
        printing.note(f"left out of this run, switched on as they are: {fold(failed)}\n")


def _table(installations: Sequence[Installation]) -> str:
    rows = [
        [
            installation.node,
            "failed" if installation.why else "installed",
            str(installation.tries),
            *(_seconds(installation, phase) for phase in work.PHASES),
            one_line(installation.why) or "-",
        ]
        for installation in installations
    ]
    return table(("node", "result", "tries", *(f"{phase}, s" for phase in work.PHASES), "why"), rows)


def _seconds(installation: Installation, phase: str) -> str:
    return f"{installation.phases_s[phase]:.0f}" if phase in installation.phases_s else "-"


def _say(text: str) -> None:
    printing.note(f"{time.strftime('%H:%M:%S')} {one_line(text)}\n")
