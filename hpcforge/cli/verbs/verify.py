"""`hpcforge verify`: run the smoke tests on the cluster as it is, and judge them; or compare cables with the design."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion, options

Level = Literal["smoke", "quick", "standard"]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Build and test the cluster",
        epilog="Examples: hpcforge verify blueprints/rehearsal.yaml; hpcforge verify SITE.yaml --reserve --html "
        "page.html; hpcforge verify SITE.yaml --gate w03",
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
    level: Annotated[
        Level,
        typer.Option("--level", help="Run the tests of this level and of those before it: smoke, quick, standard."),
    ] = "smoke",
    reserve: Annotated[
        bool,
        typer.Option(
            "--reserve",
            help="Test only idle nodes, in a Slurm reservation; leave nodes with jobs alone; drain nodes that fail.",
        ),
    ] = False,
    gate: Annotated[
        str | None,
        typer.Option(
            "--gate",
            help="Test this drained node, and resume it only if it passes.",
            metavar="NODE",
            show_default=False,
            autocompletion=completion.node_sets,
        ),
    ] = None,
    baseline: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--baseline",
            help="Save the numbers on the head under this name, or compare them with it.",
            metavar="save|compare NAME",
            show_default=False,
        ),
    ] = None,
    usual: Annotated[
        bool,
        typer.Option(
            "--usual/--no-usual", help="Compare rates of tests that have no other limit with those of their last runs."
        ),
    ] = True,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", help="Write the results as JUnit XML.", metavar="FILE", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write the results as one self-contained page.", metavar="FILE", show_default=False
        ),
    ] = None,
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

    Tests run through Slurm. Unreachable and drained nodes are left out and named. The results can be written as a page,
    as JUnit XML and as JSON.
    """
    from hpcforge.cli import verify as work

    return work.verify(
        blueprint=blueprint,
        inventory=inventory,
        lab=lab,
        names=test,
        limit=limit,
        level=level,
        reserve=reserve,
        gate=gate,
        baseline=baseline,
        usual=usual,
        outputs=(junit, html),
        cabling=cabling,
        saved=saved,
        as_json=as_json,
    )
