"""`hpcforge apply`: change the nodes to match the blueprint, and prove that they work together."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, InstallOptions, SelectOptions, SiteOptions, TrustNew
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing

if TYPE_CHECKING:
    from hpcforge.metal.arrivals import Arrivals
    from hpcforge.plan.plan import Install, Plan
    from hpcforge.report.progress import Progress
    from hpcforge.run.result import ApplyResult, Verified
    from hpcforge.run.session import RunOptions
    from hpcforge.run.site import Site

_STOPPING = "stopping after the running steps; press again to stop at once"


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    """Options of `hpcforge apply`."""

    site: SiteOptions
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before changing nodes.")] = False
    select: SelectOptions
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan", help="Apply exactly this plan, written by `plan -o`.", metavar="FILE", show_default=False
        ),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="With --plan: change nothing if any node has changed since.")
    ] = False
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Rename what another cluster left in Slurm's folders, and go on.")
    ] = False
    lock_timeout: Annotated[
        float,
        typer.Option("--lock-timeout", help="How long to wait for another run to end, s.", min=0, metavar="SECONDS"),
    ] = 0.0
    trust: TrustNew = False
    install: InstallOptions
    as_json: AsJson = False


@dataclass(frozen=True)
class _Applied:
    """A run that has ended, and the installations beside it."""

    site: Site
    plan: Plan
    result: ApplyResult
    arrivals: Arrivals | None
    human: Progress
    code: Exit


@verb(epilog="Example: hpcforge apply blueprints/rehearsal.yaml --yes")
def apply(options: ApplyOptions) -> int:
    """
    Shows the plan first and asks, unless --yes is given. Where nothing differs, nothing changes and nothing restarts.
    """
    if options.plan_file is not None and (any(vars(options.select).values()) or options.take_over):
        hint = "remove --limit, --exclude, --only, --force, --verify and --take-over, or --plan"
        raise UsageError("--plan applies a plan without changes to it", hint)
    applied = _applied(options)
    _print(options, applied)
    return applied.code


def _applied(options: ApplyOptions) -> _Applied:
    from hpcforge.cli.node_selection import choose
    from hpcforge.cli.signals import in_good_order
    from hpcforge.cli.site import open_site
    from hpcforge.cli.trust import trust_new
    from hpcforge.report.event_stream import Stream
    from hpcforge.report.progress import Progress
    from hpcforge.run.make_plan import read_plan
    from hpcforge.run.session import apply_site, expected_time_s
    from hpcforge.run.site import goal

    opened = partial(open_site, *vars(options.site).values(), judged=True)
    site, arrivals, installed, select = opened(), None, Exit.DONE, options.select
    with ExitStack() as until_end:
        if options.install.given:
            from hpcforge.cli import install as installing

            installs = _installs(options, site)
            asking = {"proxy_dhcp": options.install.proxy_dhcp, "yes": options.yes, "as_json": options.as_json}
            begun = installing.beside(site, installs, opened, **asking)
            arrivals, site = until_end.enter_context(begun), opened()
        site = trust_new(site) if options.trust else site
        target, made = goal(site, make=True), None
        if options.plan_file is not None:
            made = read_plan(options.plan_file, target.desired, target.secrets, _plan_again(options))
            select = replace(select, verify=made.verify)
        choice = choose(site, target.desired, select)
        choice = replace(choice, scope=replace(choice.scope, take_over=options.take_over))
        live = not (options.as_json and printing.on_terminal())  # two cannot write to one screen
        human = until_end.enter_context(Progress(live=live))
        stop = until_end.enter_context(in_good_order(human.say, _STOPPING))
        progress = Stream(human, printing.line if options.as_json else None, partial(expected_time_s, site))
        how = _run_options(options, made, human, stop)
        outcome = apply_site(site, target, choice, how, progress, arrivals)
        if arrivals is not None:
            wait = not outcome.done.result.interrupted
            installed = installing.ended(arrivals, progress.say, wait=wait, as_json=options.as_json)
        code = worst([Exit(outcome.exit), installed])
        progress.result(outcome.done, code)
    return _Applied(site, outcome.plan, outcome.done, arrivals, human, code)


def _run_options(options: ApplyOptions, made: Plan | None, human: Progress, stop: Callable[[], bool]) -> RunOptions:
    from hpcforge.run.session import RunOptions

    confirm = None if options.yes else partial(_confirm, human)
    again, words = _plan_again(options), tuple(sys.argv[2:])
    return RunOptions(made, again, options.strict, confirm, options.lock_timeout, words, stop, exit_code)


def _installs(options: ApplyOptions, site: Site) -> Sequence[Install]:
    from hpcforge.cli.install import planned
    from hpcforge.cli.netboot import require_root

    require_root("apply")
    inventory, trust, file = options.site.inventory, options.trust, options.plan_file
    return planned(site, options.install, inventory, trust=trust, plan_file=file)


def _plan_again(options: ApplyOptions) -> str:
    return command_line("plan", options.site.blueprint, **options.site.named, output=options.plan_file)


def _print(options: ApplyOptions, applied: _Applied) -> None:
    from hpcforge.cli.site import say_not_rehearsed
    from hpcforge.report.apply_text import next_steps, nodes_table, verdicts_text
    from hpcforge.report.plan_text import stays_text
    from hpcforge.report.text import phases_line

    site, done, named = options.site, applied.result, options.site.named
    if applied.arrivals is not None and not options.as_json:
        from hpcforge.cli import install

        install.show(applied.arrivals)
    if not options.as_json:
        printing.result(nodes_table(applied.plan, done.result, done.admission, done.down))
        stays = stays_text(done.result.stays)
        printing.result(f"\n{stays}" if stays else "")
        apply_again = command_line("apply", site.blueprint, **named)
        printing.result("\n" + verdicts_text(done.tests, apply_again, done.result.lost, time.time()))
    test_again = command_line("verify", site.blueprint, inventory=site.inventory, lab=site.lab)
    steps = next_steps(applied.site.cluster, test_again, _rehearsal(applied.site), done.admission)
    printing.note(f"\n{phases_line(applied.human.phases, applied.human.elapsed_s)}{steps}")
    if applied.code not in (Exit.DONE, Exit.BELOW):
        again = command_line("apply", site.blueprint, **named, **vars(options.select), yes=options.yes)
        printing.note(f"go on:        {again if options.plan_file is None else _plan_again(options)}\n")
    say_not_rehearsed(applied.site, site.inventory)


def _rehearsal(site: Site) -> tuple[str, str] | None:
    """How to log in to a node of the rehearsal, and how to take it down, as typed where the operator is now."""
    if site.lab is None:
        return None
    from hpcforge.cli.rehearsals import named

    this = named(site.loaded.blueprint_path, site.lab)
    return this.typed("ssh"), this.typed("down")


def exit_code(done: ApplyResult, overtaken: bool = False) -> Exit:
    """Return the worst outcome; a run that was `overtaken`, that lost the lease, was not stopped by its operator."""
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
