"""`hpcforge apply`: make the nodes what the blueprint says, and prove that they work together."""

from __future__ import annotations

import dataclasses
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.failures import UsageError
from hpcforge.cli.program import program
from hpcforge.cli.site import artifacts_path, compile_site, open_engines, open_site, site_secrets
from hpcforge.plan.diff import diff
from hpcforge.report.apply_text import next_steps, nodes_table, phases_line, verdicts_table
from hpcforge.report.plan_text import plan_text
from hpcforge.report.progress import Progress
from hpcforge.run.apply import Applied, apply_plan
from hpcforge.run.observe import observe


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge apply blueprints/rehearsal.yaml --yes")(apply)


def apply(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    identity: options.Identity = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before changing nodes.")] = False,
    as_json: options.Json = False,
) -> int:
    """Show what would change, do it, and verify the cluster. Safe to run again; nothing to do changes nothing."""
    site = open_site(blueprint, inventory, lab, identity)
    secrets = site_secrets(site, make=True)
    desired = compile_site(site, secrets)
    with open_engines(site) as engine, Progress() as progress, _first_interrupt(progress) as stop:
        progress.detail(f"looking at {len(site.cluster.nodes)} nodes")
        with progress.phase("observe"):
            observed = observe(engine, site.cluster, desired, [node.name for node in site.cluster.nodes])
        plan = diff(site.cluster, desired, observed)
        progress.block(plan_text(plan))
        if plan.pending and not yes:
            _confirm(progress, len(plan.touched))
        done = apply_plan(engine, site.cluster, plan, observed, secrets, artifacts_path(), progress, stop)
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": 1, **dataclasses.asdict(done)}, indent=2) + "\n")
    else:
        sys.stdout.write(nodes_table(plan, done.result, done.admission))
        sys.stdout.write("\n" + verdicts_table(done.verdicts, done.verdicts_age_s, done.note))
    sys.stderr.write(
        "\n" + phases_line(progress.phases) + next_steps(program(), str(blueprint), site.cluster, site.lab)
    )
    return exit_code(done)


def exit_code(done: Applied) -> Exit:
    """The worst of what happened."""
    codes = [Exit.INTERRUPTED] * done.result.interrupted
    codes += [Exit.FAILED] * bool(done.result.failed() or done.error)
    codes += [Exit.UNREACHABLE] * bool(done.result.lost)
    codes += [Exit.BELOW] * any(not verdict.passed for verdict in done.verdicts)
    codes += [Exit.BELOW] * bool(done.admission and done.admission.shortfalls)
    return worst(codes)


def _confirm(progress: Progress, nodes: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on", "look at `hpcforge plan`, then apply with --yes")
    with progress.paused():
        typer.confirm(f"Change {nodes} nodes?", abort=True, err=True)


@contextmanager
def _first_interrupt(progress: Progress) -> Iterator[Any]:
    """The first Ctrl-C lets running steps finish; the second is the usual one."""
    pressed: list[int] = []

    def press(number: int, _frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        progress.say("interrupted: running steps finish, then it stops; press again to stop at once")

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
