"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them; or compare cables with the design."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import completion, options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster",
        epilog="Example: hpcforge verify blueprints/rehearsal.yaml",
    )(verify)


def verify(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    lab: options.LabName = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            help="Run only this test, on all its nodes. Repeatable.",
            metavar="TEST",
            show_default=False,
            autocompletion=completion.tests,
        ),
    ] = None,
    limit: options.Limit = None,
    cabling: Annotated[
        bool, typer.Option("--cabling", help="Compare the cabling with the design instead of running tests.")
    ] = False,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="With --cabling: read NODE.lldp.json and FABRIC.ibnetdiscover from this folder instead of asking "
            "nodes.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Run the smoke tests again, or compare cables with the design.

    Tests run through Slurm. Unreachable and drained nodes are left out and named.
    """
    from hpcforge.cli import verify as work

    return work.verify(
        blueprint=blueprint,
        inventory=inventory,
        lab=lab,
        names=test,
        limit=limit,
        cabling=cabling,
        saved=saved,
        as_json=as_json,
    )
