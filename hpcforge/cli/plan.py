"""`hpcforge plan`: what would change where, and why. Changes nothing."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Annotated

import typer

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.program import program
from hpcforge.cli.site import compile_site, open_engines, open_site, site_secrets
from hpcforge.plan.diff import diff
from hpcforge.plan.plan import Plan
from hpcforge.report.plan_text import plan_text
from hpcforge.run.observe import observe


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge plan blueprints/rehearsal.yaml")(plan)


def plan(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    identity: options.Identity = None,
    new_files: Annotated[bool, typer.Option("--new-files", help="Show the content of new files, too.")] = False,
    as_json: options.Json = False,
) -> int:
    """Compare the nodes with the blueprint and show what an apply would do. Exit status 2: there is something."""
    site = open_site(blueprint, inventory, lab, identity)
    desired = compile_site(site, site_secrets(site, make=False))
    with open_engines(site) as engine:
        observed = observe(engine, site.cluster, desired, [node.name for node in site.cluster.nodes])
    found = diff(site.cluster, desired, observed)
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": 1, **dataclasses.asdict(found)}, indent=2) + "\n")
    else:
        sys.stdout.write(plan_text(found, new_files=new_files))
        if found.pending:
            sys.stderr.write(f"Next: {program()} apply {blueprint}\n")
    return exit_code(found)


def exit_code(found: Plan) -> Exit:
    """What a plan alone says."""
    return worst([Exit.PENDING] * found.pending + [Exit.UNREACHABLE] * bool(found.unreachable))
