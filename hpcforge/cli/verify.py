"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them."""

from __future__ import annotations

import dataclasses
import json
import sys

import typer

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit, worst
from hpcforge.cli.site import open_engines, open_site
from hpcforge.report.apply_text import verdicts_table
from hpcforge.report.progress import Progress
from hpcforge.run.apply import run_tests
from hpcforge.run.observe import UNREACHABLE, find_usable


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge verify blueprints/rehearsal.yaml")(verify)


def verify(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    as_json: options.Json = False,
) -> int:
    """Run the blueprint's acceptance tests through Slurm. Nodes that are unreachable or drained are left out, named."""
    site = open_site(blueprint, inventory, lab, None)
    with open_engines(site) as engine, Progress() as progress:
        with progress.phase("observe"):
            out = find_usable(engine, site.cluster)
        verdicts, note = run_tests(engine, site.cluster, out, progress)
    if as_json:
        entries = [dataclasses.asdict(verdict) for verdict in verdicts]
        sys.stdout.write(json.dumps({"schema_version": 1, "verdicts": entries, "left_out": out}, indent=2) + "\n")
    else:
        sys.stdout.write(verdicts_table(verdicts, None, note))
    unreachable = [node for node, why in out.items() if why.startswith(UNREACHABLE)]
    codes = [Exit.BELOW] * any(not verdict.passed for verdict in verdicts)
    return worst(codes + [Exit.UNREACHABLE] * bool(unreachable))
