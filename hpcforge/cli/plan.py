"""`hpcforge plan`: what would change where, and why. Changes nothing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from hpcforge.blueprint.diagnostics import render_all
from hpcforge.blueprint.hostlist import fold
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.node_selection import choose
from hpcforge.cli.options import InstallOptions
from hpcforge.cli.site import open_site, say_not_rehearsed
from hpcforge.cli.trust import trust_new
from hpcforge.cluster.model import Cluster
from hpcforge.command_hint import command_line
from hpcforge.errors import UsageError
from hpcforge.plan.plan import Plan
from hpcforge.report import printing
from hpcforge.report.plan_markdown import plan_markdown
from hpcforge.report.plan_text import plan_text
from hpcforge.report.text import one_line
from hpcforge.run.make_plan import compare_unseen, look, write_plan
from hpcforge.run.site import goal, keep_revoked

_LONGEST = 80  # lines of one file's diff on a terminal


def plan(
    *,
    blueprint: Path,
    inventory: Path | None,
    lab: str | None,
    identity: Path | None,
    limit: list[str] | None,
    exclude: list[str] | None,
    only: list[str] | None,
    force: list[str] | None,
    verify: str | None,
    output: Path | None,
    offline: bool,
    new_files: bool,
    trust: bool,
    markdown: bool,
    install: InstallOptions,
    as_json: bool,
) -> int:
    """Run `hpcforge plan`. Returns the exit status."""
    if markdown and as_json:
        raise UsageError("--markdown and --json print two things", "remove one of them")
    if offline and (output is not None or trust):
        raise UsageError("--offline contacts no node", "remove it, or remove -o and --trust-new")
    if offline and install.nodes is not None:
        raise UsageError("--offline contacts no node", "remove it, or remove --install")
    site = open_site(blueprint, inventory, lab, identity, needs_lab=not offline, judged=True)
    site = trust_new(site) if trust else site
    wanted = goal(site, make=output is not None, unseen=offline)  # a plan file is sealed with one of the secrets
    choice = choose(site, wanted.desired, limit, exclude, only, force, verify)
    if offline:
        printing.note(render_all(wanted.lacking), "diagnostics")
        found = compare_unseen(site, wanted, choice)
    else:
        there = look(site, wanted, choice, _say)
        found, wanted = there.plan, there.goal
    if install.given:
        from hpcforge.cli.install import planned, with_installs  # noqa: PLC0415 - imports power and network boot

        found = with_installs(found, planned(site, install, inventory, trust=trust, plan_file=output))
    if output is not None:
        keep_revoked(site, wanted)  # part of what the plan was made for
        write_plan(output, found, wanted.desired, wanted.secrets)
    if as_json:
        printing.result(json.dumps({"schema_version": 2, **dataclasses.asdict(found)}, indent=2) + "\n")
    elif markdown:
        printing.result(plan_markdown(found, command_line("plan", blueprint, inventory=inventory, lab=lab)))
    else:
        longest = _LONGEST if printing.on_terminal() else None
        printing.result(plan_text(found, new_files=new_files, longest=longest), "plan")
        if found.pending:
            given = {"inventory": inventory, "lab": lab, "identity": identity}
            # a plan file is for the nodes and roles that it was made for
            asked = {"limit": limit, "exclude": exclude, "only": only, "force": force, "verify": verify}
            chosen = {**asked, **install.given} if output is None else {}
            printing.note(f"Next: {command_line('apply', blueprint, **given, plan=output, **chosen)}\n")
        bare = [] if install.given else _without_system(site.cluster, found)
        if bare:
            again = command_line("plan", blueprint, inventory=inventory, identity=identity, install=fold(bare))
            printing.note(f"to install an operating system on {fold(bare)}: {again}\n")
    say_not_rehearsed(site, inventory)
    return exit_code(found)


def _without_system(cluster: Cluster, found: Plan) -> list[str]:
    """The silent nodes that hpcforge has never entered and could switch on."""
    return [
        node.name
        for node in cluster.nodes
        if node.name in found.unreachable and not node.host_keys and node.mac and node.bmc and node.bmc.address
    ]


def _say(text: str) -> None:
    printing.note(f"{one_line(text)}\n")


def exit_code(found: Plan) -> Exit:
    """What a plan alone says."""
    unreachable = found.unreachable or any(leaver.unreachable for leaver in found.leaving)
    codes = [Exit.PENDING] * bool(found.pending or found.down) + [Exit.UNREACHABLE] * bool(unreachable)
    return worst(codes + [Exit.FAILED] * bool(found.refused or any(leaver.unknown for leaver in found.leaving)))
