"""`hpcforge status`: how the cluster is doing, and what was done to it."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from hpcforge.cli import options
from hpcforge.cli.exit_codes import Exit
from hpcforge.cli.site import open_engines, open_site
from hpcforge.report import printing
from hpcforge.report.status_text import history_table, status_json, status_text
from hpcforge.report.text import one_line
from hpcforge.run.status import status as look_at

_LOOK_BACK = 200  # runs among which each node's last change is sought


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog="Example: hpcforge status blueprints/rehearsal.yaml --history")(status)


def status(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    history: Annotated[bool, typer.Option("--history", help="The runs: who, when, of which commit, what.")] = False,
    last: Annotated[int, typer.Option("--last", help="With --history: so many runs.", min=1, metavar="N")] = 20,
    as_json: options.Json = False,
) -> int:
    """Show nodes, Slurm's view of them, who is at work, the last run and the verdicts. Changes nothing."""
    site = open_site(blueprint, inventory, lab, None)
    with open_engines(site) as engine:
        found = look_at(engine, site.cluster, max(last, _LOOK_BACK))
    shown = found.history.newest(last)
    if as_json:
        document = status_json(found, shown if history else None)
        printing.result(json.dumps(document, indent=2) + "\n")
    elif history:
        printing.result(history_table(shown))
        printing.note("".join(f"{one_line(note)}\n" for note in found.notes))
    else:
        printing.result(status_text(found, time.time()))
    return Exit.UNREACHABLE if any(node.unreachable for node in found.nodes) else Exit.DONE
