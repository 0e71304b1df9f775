"""`hpcforge status`: the state of the cluster, and its history."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster",
        epilog="Examples: hpcforge status blueprints/rehearsal.yaml --history\n\nhpcforge status site.yaml --watch",
    )(status)


def status(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    history: Annotated[bool, typer.Option("--history", help="Show past runs: user, time, commit and result.")] = False,
    last: Annotated[int, typer.Option("--last", help="With --history: the number of runs.", min=1, metavar="N")] = 20,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write a page with racks and nodes to this file.", metavar="FILE", show_default=False
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Fill the terminal, and ask again and again until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", help="With --watch: the seconds between two.", min=1, metavar="SECONDS")
    ] = 5,
    as_json: options.Json = False,
) -> int:
    """Show nodes, the last run and test results. Changes nothing.

    Also Slurm's state of each node, and whether a run is active.
    """
    from hpcforge.cli import status as work

    return work.status(
        blueprint=blueprint,
        inventory=inventory,
        lab=lab,
        history=history,
        last=last,
        html=html,
        every_s=every if watch else None,
        as_json=as_json,
    )
