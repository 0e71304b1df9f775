"""`--install` of `plan` and `apply`: nodes without an operating system get one before anything else."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from hpcforge.blueprint.hostlist import fold
from hpcforge.cli import signals
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.netboot import confirm, console_text, disks_to_wipe, refuse_lab, require_root
from hpcforge.cli.options import HTTP_PORT, InstallOptions
from hpcforge.cluster.select import select
from hpcforge.errors import UsageError
from hpcforge.netboot import services
from hpcforge.plan.plan import Install, Plan
from hpcforge.report import printing
from hpcforge.report.event_stream import installed
from hpcforge.report.plan_text import installs_text
from hpcforge.report.text import one_line, table
from hpcforge.report.unreachable_text import by_reason
from hpcforge.run import install as work
from hpcforge.run.install import Installation
from hpcforge.run.netboot import default_key, image_named, served
from hpcforge.run.site import Site


def planned(
    site: Site, asked: InstallOptions, inventory: Path | None, *, trust: bool, plan_file: Path | None
) -> Sequence[Install]:
    """Return what would be installed; prints which nodes are not, and why. Raises as `run.install.choose` does."""
    if asked.nodes is None:
        raise UsageError("--wipe, --image and --proxy-dhcp belong to --install", "add --install NODES")
    if trust:
        raise UsageError("--install records host keys itself", "remove --trust-new, or use it in an apply before")
    if plan_file is not None:
        raise UsageError("a plan file is for nodes that answer", "install first: apply --install without a plan file")
    refuse_lab(site, inventory)
    names = select(site.cluster, [asked.nodes], ())
    chosen, kept = work.choose(site, names, disks_to_wipe(asked.wipe, names), image_named(asked.image))
    for nodes, _, why in by_reason(kept):
        printing.note(f"{nodes}: not installed: {one_line(why)}\n")
    return chosen


def with_installs(plan: Plan, installs: Sequence[Install]) -> Plan:
    """Return the plan with what is installed, which is no longer called unreachable."""
    nodes = {install.node for install in installs}
    silent = {name: why for name, why in plan.unreachable.items() if name not in nodes}
    return dataclasses.replace(plan, installs=tuple(installs), unreachable=silent)


def first(
    site: Site,
    asked: InstallOptions,
    inventory: Path | None,
    *,
    trust: bool,
    plan_file: Path | None,
    yes: bool,
    as_json: bool,
) -> Exit:
    """Show, ask, and install. Returns the exit status. Raises as `run.netboot.served` and `services.serving` do."""
    require_root("apply")
    installs = planned(site, asked, inventory, trust=trust, plan_file=plan_file)
    if not installs:
        return Exit.DONE
    show = printing.note if as_json else printing.result
    show("".join(f"{line}\n" for line in installs_text(installs)), "plan")
    printing.flush()
    confirm(
        [install.node for install in installs],
        {install.node: install.wipes for install in installs if install.wipes},
        yes,
    )
    signals.at_once()
    image = image_named(installs[0].image)
    what = served(site, image, None, HTTP_PORT, asked.proxy, default_key(site), _say)
    with services.serving(what) as check:
        services.started(check)
        done = work.install(site, installs, check, _say)
    show(_table(done))
    for node in done:
        show(console_text(node.node, node.console))
        if as_json:
            printing.line(installed(node))
    failed = [node.node for node in done if node.why]
    if failed:
        printing.note(f"left out of this run, switched on as they are: {fold(failed)}\n")
    return Exit.FAILED if failed else Exit.DONE


def _table(done: Sequence[Installation]) -> str:
    phases = ("power", "boot", "install", "start")
    rows = [
        [
            node.node,
            "failed" if node.why else "installed",
            str(node.tries),
            *(_seconds(node, phase) for phase in phases),
            one_line(node.why) or "-",
        ]
        for node in done
    ]
    return table(("node", "result", "tries", *(f"{phase}, s" for phase in phases), "why"), rows)


def _seconds(done: Installation, phase: str) -> str:
    return f"{done.phases_s[phase]:.0f}" if phase in done.phases_s else "-"


def _say(text: str) -> None:
    printing.note(f"{time.strftime('%H:%M:%S')} {one_line(text)}\n")
