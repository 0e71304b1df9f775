"""`hpcforge apply`: change the nodes to match the blueprint, and prove that they work together."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.node_selection import choose
from hpcforge.cli.options import InstallOptions
from hpcforge.cli.rehearsals import named
from hpcforge.cli.signals import in_good_order
from hpcforge.cli.site import open_site, say_not_rehearsed
from hpcforge.cli.trust import trust_new
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.apply_text import next_steps, nodes_table, verdicts_text
from hpcforge.report.event_stream import Stream
from hpcforge.report.plan_text import stays_text
from hpcforge.report.progress import Progress
from hpcforge.report.text import phases_line
from hpcforge.run.make_plan import read_plan
from hpcforge.run.result import ApplyResult, Verified
from hpcforge.run.session import ApplyOptions, apply_site, expected_time_s
from hpcforge.run.site import Site, goal

_STOPPING = "stopping after the running steps; press again to stop at once"


def apply(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    yes: bool,
    limit: list[str] | None,
    exclude: list[str] | None,
    only: list[str] | None,
    force: list[str] | None,
    verify: str | None,
    plan_file: Path | None,
    strict: bool,
    take_over: bool,
    lock_timeout: float,
    trust: bool,
    install: InstallOptions,
    as_json: bool,
) -> int:
    """Run `hpcforge apply`. Returns the exit status."""
    if plan_file is not None and (limit or exclude or only or force or verify or take_over):
        hint = "remove --limit, --exclude, --only, --force, --verify and --take-over, or --plan"
        raise UsageError("--plan applies a plan without changes to it", hint)

    given = {"inventory": inventory, "lab": lab, "identity": identity}
    chosen = {"limit": limit, "exclude": exclude, "only": only, "force": force, "verify": verify}
    opened = partial(open_site, blueprint, inventory, lab, identity, judged=True)
    plan_again = command_line("plan", blueprint, **given, output=plan_file)
    site, arrivals, installed = opened(), None, Exit.DONE
    with ExitStack() as until_end:
        if install.given:
            from hpcforge.cli import install as installing  # noqa: PLC0415 - imports all of power and network boot

            begun = installing.beside(site, install, inventory, opened, trust, plan_file, yes=yes, as_json=as_json)
            arrivals, site = until_end.enter_context(begun), opened()
        site = trust_new(site) if trust else site
        wanted = goal(site, make=True)
        made = read_plan(plan_file, wanted.desired, wanted.secrets, plan_again) if plan_file is not None else None
        choice = choose(site, wanted.desired, limit, exclude, only, force, made.verify if made else verify)
        choice = replace(choice, scope=replace(choice.scope, take_over=take_over))
        live = not (as_json and printing.on_terminal())  # two cannot write to one screen
        human = until_end.enter_context(Progress(live=live))
        stop = until_end.enter_context(in_good_order(human.say, _STOPPING))
        progress = Stream(human, printing.line if as_json else None, partial(expected_time_s, site))
        confirm = None if yes else lambda nodes: _confirm(human, nodes)
        wishes = ApplyOptions(made, plan_again, strict, confirm, lock_timeout, tuple(sys.argv[2:]))
        outcome = apply_site(site, wanted, choice, wishes, progress, stop, exit_code, arrivals)
        if arrivals is not None:
            wait = not outcome.done.result.interrupted
            installed = installing.ended(arrivals, progress.say, wait=wait, as_json=as_json)
        plan, done, code = outcome.plan, outcome.done, worst([Exit(outcome.exit), installed])
        progress.result(done, code)
    if arrivals is not None and not as_json:
        installing.show(arrivals)
    if not as_json:
        printing.result(nodes_table(plan, done.result, done.admission, done.down), "states")
        stays = stays_text(done.result.stays)
        printing.result(f"\n{stays}" if stays else "")
        apply_again = command_line("apply", blueprint, **given)
        tested = verdicts_text(done.tests, apply_again, done.result.lost, time.time())
        printing.result(f"\n{tested}", "states")
    again = plan_again if plan_file is not None else command_line("apply", blueprint, **given, **chosen, yes=yes)
    test_again = command_line("verify", blueprint, inventory=inventory, lab=lab)
    printing.note(
        "\n"
        + phases_line(human.phases, human.elapsed_s)
        + next_steps(site.cluster, test_again, _rehearsal(site), done.admission)
    )
    if code not in (Exit.DONE, Exit.BELOW):
        printing.note(f"go on:        {again}\n")
    say_not_rehearsed(site, inventory)
    return code


def _rehearsal(site: Site) -> tuple[str, str] | None:
    """How to log in to a node of the rehearsal, and how to take it down, as typed where the operator is now."""
    if site.lab is None:
        return None
    this = named(site.loaded.blueprint_path, site.lab)
    return this.typed("ssh"), this.typed("down")


def exit_code(done: ApplyResult, overtaken: bool = False) -> Exit:
    """The worst of what happened; a run that was `overtaken`, that lost the lease, was not stopped by its operator."""
    if overtaken:
        return Exit.BUSY
    codes = [Exit.INTERRUPTED] * done.result.interrupted
    codes += [Exit.BUSY] * bool(done.result.busy)
    codes += [Exit.FAILED] * bool(done.result.failed() or done.error or done.down)
    codes += [Exit.UNREACHABLE] * bool(done.result.lost or done.result.abandoned)
    codes += [Exit.BELOW] * below(done.tests)
    codes += [Exit.BELOW] * bool(done.admission and done.admission.shortfalls)
    codes += [Exit.PENDING] * bool(done.result.deferred() or done.moved)
    return worst(codes)


def below(tests: Verified) -> bool:
    """Whether a test that ran is not passed, or was run again without a node that fell out.

    One that waits for users' jobs says nothing of the cluster.
    """
    now = [result.verdict for result in tests.reached if not result.verdict.waits_for]
    before = [record.last for record in tests.recorded.kept] if not tests.note else []
    return bool(tests.fell_out) or any(not verdict.passed for verdict in (*now, *before))


def _confirm(progress: Progress, nodes: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal for the question", "read `hpcforge plan`, then apply with --yes")
    with progress.paused(), progress.phase("your answer"):
        typer.confirm(f"Change {nodes} nodes?", abort=True, err=True)
