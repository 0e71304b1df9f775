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
        bool, typer.Option("--take-over", help="Rename files of another cluster in Slurm's folders, and continue.")
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
    Show the plan first and ask, unless --yes is given. If nothing differs, nothing changes and nothing restarts.
    """
    if options.plan_file is not None and (any(vars(options.select).values()) or options.take_over):
        hint = "remove --limit, --exclude, --only, --force, --verify and --take-over, or --plan"
        raise UsageError("--plan applies a plan unchanged", hint)
    applied = _applied(options)
    _print(options, applied)
    return applied.code


def _applied(options: ApplyOptions) -> _Applied:
    from hpcforge.cluster.select import select as selected
    from hpcforge.run.site import open_engines

    select, installed = options.select, Exit.DONE
    with ExitStack() as until_end:
        site, arrivals = _opened(options, until_end)
        nodes = selected(site.cluster, select.limit or (), select.exclude or ())
        absent = arrivals.under_way() if arrivals else ()
        ahead = [name for name in nodes if name not in absent]
        engines = until_end.enter_context(open_engines(site, ahead=ahead))
        # Imports in parallel with the connections.
        from hpcforge.cli.node_selection import choose
        from hpcforge.cli.signals import in_good_order
        from hpcforge.report.event_stream import Stream
        from hpcforge.report.progress import Progress
        from hpcforge.run.make_plan import read_plan
        from hpcforge.run.session import apply_site, expected_time_s
        from hpcforge.run.site import goal

        target, made = goal(site, make=True), None
        if options.plan_file is not None:
            made = read_plan(options.plan_file, target.desired, target.secrets, _plan_again(options))
            select = replace(select, verify=made.policy.verify)
        target = choose(site, target, select)
        target = replace(target, scope=replace(target.scope, take_over=options.take_over))
        live = not (options.as_json and printing.on_terminal())  # two cannot write to one screen
        human = until_end.enter_context(Progress(live=live))
        stop = until_end.enter_context(in_good_order(human.say, _STOPPING))
        progress = Stream(human, printing.line if options.as_json else None, partial(expected_time_s, site))
        how = _run_options(options, made, human, stop)
        plan, result, exit_status = apply_site(engines, site, target, how, progress, arrivals)
        if arrivals is not None:
            from hpcforge.cli import install as installing

            wait = not result.result.interrupted
            installed = installing.ended(arrivals, progress.say, wait=wait, as_json=options.as_json)
        code = worst([Exit(exit_status), installed])
        progress.result(result, code)
    return _Applied(site, plan, result, arrivals, human, code)


def _opened(options: ApplyOptions, until_end: ExitStack) -> tuple[Site, Arrivals | None]:
    """Return the site with the accepted host keys, and the installations that have begun."""
    from hpcforge.cli.site import open_site

    opened = partial(open_site, *vars(options.site).values(), judged=True)
    site, arrivals = opened(), None
    if options.install.command_options:
        from hpcforge.cli import install as installing

        installs = _installs(options, site)
        asking = {"proxy_dhcp": options.install.proxy_dhcp, "yes": options.yes, "as_json": options.as_json}
        begun = installing.install_nodes(site, installs, opened, **asking)
        arrivals, site = until_end.enter_context(begun), opened()
    if options.trust:
        from hpcforge.cli.trust import trust_new

        site = trust_new(site)
    return site, arrivals


def _run_options(options: ApplyOptions, made: Plan | None, human: Progress, stop: Callable[[], bool]) -> RunOptions:
    from hpcforge.run.session import RunOptions

    confirm = None if options.yes else partial(_confirm, human)
    plan_command, words = _plan_again(options), tuple(sys.argv[2:])
    return RunOptions(made, plan_command, options.strict, confirm, options.lock_timeout, words, stop, exit_code)


def _installs(options: ApplyOptions, site: Site) -> Sequence[Install]:
    from hpcforge.cli.install import planned
    from hpcforge.cli.netboot import require_root

    require_root("apply")
    inventory, trust, file = options.site.inventory, options.trust, options.plan_file
    return planned(site, options.install, inventory, trust=trust, plan_file=file)


def _plan_again(options: ApplyOptions) -> str:
    return command_line("plan", options.site.blueprint, **options.site.command_options, output=options.plan_file)


def _print(options: ApplyOptions, applied: _Applied) -> None:
    from hpcforge.cli.site import say_not_rehearsed
    from hpcforge.report.apply_text import next_steps, nodes_table, verdicts_text
    from hpcforge.report.plan_text import stays_text
    from hpcforge.report.text import phases_line

    site, outcome, site_options = options.site, applied.result, options.site.command_options
    if applied.arrivals is not None and not options.as_json:
        from hpcforge.cli import install

        install.show(applied.arrivals)
    if not options.as_json:
        printing.result(nodes_table(applied.plan, outcome.result, outcome.admission, outcome.down))
        stays = stays_text(outcome.result.stays)
        printing.result(f"\n{stays}" if stays else "")
        apply_again = command_line("apply", site.blueprint, **site_options)
        printing.result("\n" + verdicts_text(outcome.tests, apply_again, outcome.result.lost, time.time()))
    test_again = command_line("verify", site.blueprint, inventory=site.inventory, lab=site.lab)
    steps = next_steps(applied.site.cluster, test_again, _rehearsal(applied.site), outcome.admission)
    printing.note(f"\n{phases_line(applied.human.phases, applied.human.elapsed_s)}{steps}")
    if applied.code not in (Exit.DONE, Exit.BELOW):
        command = command_line("apply", site.blueprint, **site_options, **vars(options.select), yes=options.yes)
        printing.note(f"go on:        {command if options.plan_file is None else _plan_again(options)}\n")
    say_not_rehearsed(applied.site, site.inventory)


def _rehearsal(site: Site) -> tuple[str, str] | None:
    """Return the commands that log in to a node of the rehearsal and that remove it, for the working directory."""
    if site.lab is None:
        return None
    from hpcforge.cli.rehearsals import refer_to

    this = refer_to(site.loaded.blueprint_path, site.lab)
    return this.typed("ssh"), this.typed("down")


def exit_code(outcome: ApplyResult, overtaken: bool = False) -> Exit:
    """Return the code of the worst outcome. `overtaken`: the run lost the lease, so its operator did not stop it."""
    if overtaken:
        return Exit.BUSY
    codes = [Exit.INTERRUPTED] * outcome.result.interrupted
    codes += [Exit.BUSY] * bool(outcome.result.busy)
    codes += [Exit.FAILED] * bool(outcome.result.failed() or outcome.error or outcome.down)
    codes += [Exit.UNREACHABLE] * bool(outcome.result.lost or outcome.result.abandoned)
    codes += [Exit.BELOW] * below(outcome.tests)
    codes += [Exit.BELOW] * bool(outcome.admission and outcome.admission.shortfalls)
    codes += [Exit.PENDING] * bool(outcome.result.deferred() or outcome.moved)
    return worst(codes)


def below(tests: Verified) -> bool:
    """Return whether a test that ran has not passed, or ran again without a node that fell out.

    A test that waits for users' jobs does not count.
    """
    verdicts = [result.verdict for result in tests.reached if not result.verdict.waits_for]
    before = [record.last for record in tests.recorded.kept] if not tests.note else []
    return bool(tests.fell_out) or any(not verdict.passed for verdict in (*verdicts, *before))


def _confirm(progress: Progress, nodes: int) -> None:
    if not sys.stdin.isatty():
        raise UsageError("the question needs a terminal", "read `hpcforge plan`, then apply with --yes")
    with progress.paused(), progress.phase("your answer"):
        typer.confirm(f"Change {nodes} nodes?", abort=True, err=True)
