"""`hpcforge plan`: what would change where, and why. Changes nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.options import AsJson, InstallOptions, SelectOptions, SiteOptions, TrustNew
from hpcforge.cli.verb import verb
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.report import printing
from hpcforge.report.text import one_line

if TYPE_CHECKING:
    from hpcforge.cluster.model import Cluster
    from hpcforge.plan.plan import Plan
    from hpcforge.run.site import Goal, Site

_LONGEST = 80  # lines of one file's diff on a terminal


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Options of `hpcforge plan`."""

    site: SiteOptions
    select: SelectOptions
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the plan to a file for `apply --plan`.", metavar="FILE", show_default=False
        ),
    ] = None
    offline: Annotated[bool, typer.Option("--offline", help="Contact no node: show the plan for empty nodes.")] = False
    new_files: Annotated[bool, typer.Option("--new-files", help="Also show the content of new files.")] = False
    trust: TrustNew = False
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Print a summary for a merge request on GitHub or GitLab, with the plan in it."
        ),
    ] = False
    install: InstallOptions
    as_json: AsJson = False


@verb(
    epilog="Examples: hpcforge plan blueprints/rehearsal.yaml -o rollout.plan\n\n"
    "hpcforge plan site.yaml --markdown > summary.md; gh pr comment -F summary.md"
)
def plan(options: PlanOptions) -> int:
    """Exit with 2 if there are pending changes."""
    from hpcforge.cli.site import open_site, say_not_rehearsed

    _check(options)
    site = open_site(*vars(options.site).values(), needs_lab=not options.offline, judged=True)
    site, made = _made(options, site)
    _print(options, made)
    if not (options.as_json or options.markdown):
        _say_next(options, site, made)
    say_not_rehearsed(site, options.site.inventory)
    return exit_code(made)


def _check(options: PlanOptions) -> None:
    if options.markdown and options.as_json:
        raise UsageError("--markdown and --json exclude each other", "remove one")
    if options.offline and (options.output is not None or options.trust):
        raise UsageError("--offline contacts no node", "remove it, or remove -o and --trust-new")
    if options.offline and options.install.install is not None:
        raise UsageError("--offline contacts no node", "remove it, or remove --install")


def _made(options: PlanOptions, site: Site) -> tuple[Site, Plan]:
    """Return the site with the accepted host keys, and its plan."""
    from hpcforge.run.site import keep_revoked

    output, install = options.output, options.install
    if options.trust:
        from hpcforge.cli.trust import trust_new

        site = trust_new(site)
    target, made = _unseen(options, site) if options.offline else _compared(options, site)
    if install.command_options:
        from hpcforge.cli.install import planned, with_installs

        installs = planned(site, install, options.site.inventory, trust=options.trust, plan_file=output)
        made = with_installs(made, installs)
    if output is not None:
        from hpcforge.run.make_plan import write_plan

        keep_revoked(site, target)  # the plan contains the revoked keys
        write_plan(output, made, target.desired, target.secrets)
    return site, made


def _unseen(options: PlanOptions, site: Site) -> tuple[Goal, Plan]:
    from hpcforge.blueprint.diagnostics import render_all
    from hpcforge.cli.node_selection import choose
    from hpcforge.run.make_plan import compare_unseen
    from hpcforge.run.site import goal

    target = choose(site, goal(site, make=False, unseen=True), options.select)
    printing.note(render_all(target.lacking))
    return target, compare_unseen(site, target)


def _compared(options: PlanOptions, site: Site) -> tuple[Goal, Plan]:
    from hpcforge.cluster.select import select
    from hpcforge.run.site import goal, open_engines

    nodes = select(site.cluster, options.select.limit or (), options.select.exclude or ())
    with open_engines(site, ahead=nodes) as engines:
        # Imports in parallel with the connections.
        from hpcforge.cli.node_selection import choose
        from hpcforge.run.make_plan import look

        target = goal(site, make=options.output is not None)  # a plan file is sealed with a secret
        survey, made = look(engines, site, choose(site, target, options.select), _say)
    return survey.goal, made


def _print(options: PlanOptions, made: Plan) -> None:
    from hpcforge.report.plan_markdown import plan_markdown
    from hpcforge.report.plan_text import plan_text

    site = options.site
    if options.as_json:
        printing.result(json.dumps({"schema_version": 2, **made.flat}, indent=2, default=dataclasses.asdict) + "\n")
    elif options.markdown:
        command = command_line("plan", site.blueprint, inventory=site.inventory, lab=site.lab)
        printing.result(plan_markdown(made, command))
    else:
        longest = _LONGEST if printing.on_terminal() else None
        printing.result(plan_text(made, new_files=options.new_files, longest=longest))


def _say_next(options: PlanOptions, site: Site, made: Plan) -> None:
    from hpcforge.blueprint.hostlist import fold

    blueprint, output, install = options.site.blueprint, options.output, options.install.command_options
    if made.pending:
        # a plan file already has its nodes and roles
        chosen = {**vars(options.select), **install} if output is None else {}
        apply = command_line("apply", blueprint, **options.site.command_options, plan=output, **chosen)
        printing.note(f"Next: {apply}\n")
    bare = [] if install else _without_system(site.cluster, made)
    if bare:
        inventory, identity = options.site.inventory, options.site.identity
        command = command_line("plan", blueprint, inventory=inventory, identity=identity, install=fold(bare))
        printing.note(f"to install an operating system on {fold(bare)}: {command}\n")


def _without_system(cluster: Cluster, made: Plan) -> list[str]:
    """Return the silent nodes that hpcforge has never entered and could switch on."""
    return [
        node.name
        for node in cluster.nodes
        if node.name in made.state.unreachable and not node.host_keys and node.mac and node.bmc and node.bmc.address
    ]


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")


def exit_code(made: Plan) -> Exit:
    """Return the exit code of a plan."""
    unreachable = made.state.unreachable or any(leaver.unreachable for leaver in made.changes.leaving)
    codes = [Exit.PENDING] * bool(made.pending or made.state.down) + [Exit.UNREACHABLE] * bool(unreachable)
    failed = made.state.refused or any(leaver.unknown for leaver in made.changes.leaving)
    return worst(codes + [Exit.FAILED] * bool(failed))
