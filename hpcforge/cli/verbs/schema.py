"""`hpcforge schema`: JSON Schemas of hpcforge's files, and a table of what changing a blueprint field disrupts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcforge.cli import completion


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        rich_help_panel="Extend hpcforge", epilog="Example: hpcforge schema > blueprints/blueprint.schema.json"
    )(schema)


def schema(
    of: Annotated[
        Literal["blueprint", "inventory", "design", "smoke-test", "disruption", "role", "verification"],
        typer.Argument(
            help="Blueprints, inventories, design --json, smoke tests, role.yaml, verify --json, or what changing a "
            "field disrupts."
        ),
    ] = "blueprint",
    blueprint: Annotated[
        Path | None,
        typer.Argument(
            help="For `blueprint`: also accept the models and roles of this blueprint.",
            show_default=False,
            autocompletion=completion.blueprints,
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a reference for people instead.")] = False,
) -> int:
    """Print JSON Schemas for editors, and reference tables.

    Schemas: blueprint, inventory, `design --json`, smoke tests, role.yaml, `verify --json`.

    `disruption` is a table: what changing a field of the blueprint disrupts.
    """
    from hpcforge.cli import schema as work

    return work.schema(of, blueprint, markdown)
