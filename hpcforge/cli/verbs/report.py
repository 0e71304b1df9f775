"""`hpcforge report`: documents about a cluster, made from what its nodes and its head report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options

report = typer.Typer(help="Write a document about a cluster. Runs no test.")


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(report, name="report", no_args_is_help=True, rich_help_panel="Build and test the cluster")


@report.callback()
def _about() -> None:
    """One subcommand stays a subcommand."""


@report.command(epilog="Example: hpcforge report acceptance site.yaml --html acceptance.html")
def acceptance(
    blueprint: options.Blueprint,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page to this file.", metavar="FILE", show_default=False),
    ] = None,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    identity: options.Identity = None,
    last: Annotated[int, typer.Option("--last", help="The number of past runs in it.", min=0, metavar="N")] = 20,
    as_json: options.Json = False,
) -> int:
    """Report what was required, what was built, and which nodes passed which tests.

    Also every exception with its reason, drift, versions and the commit. Reads nodes and head as `plan` does. Exits
    with 7 if a test has not passed, with 4 if nodes do not answer, and with 2 if changes are pending.
    """
    from hpcforge.cli import report as work

    return work.acceptance(
        blueprint=blueprint,
        html=html,
        inventory=inventory,
        lab=lab,
        identity=identity,
        last=last,
        as_json=as_json,
    )
