"""`hpcforge design`: racks, power and cooling, fabrics and cables, on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcforge.cli import options


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Write and check a blueprint",
        epilog="Example: hpcforge design blueprints/dgx-h100-unit.yaml --html design.html",
    )(design)


def design(
    blueprint: options.Blueprint,
    inventory: options.Inventory = None,
    as_json: options.Json = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the design as one self-contained HTML page.", metavar="FILE")
    ] = None,
    svg: Annotated[
        str | None,
        typer.Option("--svg", help="Print a drawing of one rack or one fabric.", metavar="rack:NAME|fabric:NAME"),
    ] = None,
    csv: Annotated[
        options.DesignTable | None,
        typer.Option("--csv", help="Print a table: PDU power, bill of materials, cables or switch ports."),
    ] = None,
) -> int:
    """Compute racks, power, cooling, fabrics and cables; check rules.

    Contacts no node. Exit code 3 if a rule is broken.
    """
    from hpcforge.cli import design as work

    return work.design(
        blueprint=blueprint,
        inventory=inventory,
        as_json=as_json,
        html=html,
        svg=svg,
        csv=csv,
    )
